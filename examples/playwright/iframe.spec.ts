// A form inside a frame: found by the frame's title, filled in, and seen to tell the page around it.
import { expect, test } from '@playwright/test';

test('a card is paid with inside the frame', async ({ page }) => {
  await page.goto(`${process.env.SITE_URL}/payment`);
  const frame = page.frameLocator('iframe[title="Card payment"]');
  await frame.getByLabel('Card number').fill('4242 4242');
  await frame.getByLabel('Expires').fill('12/30');
  await frame.getByRole('button', { name: 'Pay' }).click();
  await expect(frame.getByRole('alert')).toHaveText('A card number has 16 digits.');
  await expect(page.getByRole('status')).toHaveText('Not paid yet.');

  await frame.getByLabel('Card number').fill('4242 4242 4242 4242');
  await frame.getByRole('button', { name: 'Pay' }).click();
  await expect(page.getByRole('status')).toHaveText('Paid with the card that ends in 4242.');
});
