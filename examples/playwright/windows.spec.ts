// More than one page: a tab that a link opens, a popup that a script opens, two visitors at once.
import { expect, test } from '@playwright/test';

const site = process.env.SITE_URL;

test('terms are accepted in a new tab', async ({ page, context }) => {
  await page.goto(`${site}/windows`);
  const opening = context.waitForEvent('page');
  await page.getByRole('link', { name: 'Terms in a new tab' }).click();
  const tab = await opening;
  await expect(tab).toHaveTitle('Terms');
  const closing = tab.waitForEvent('close');
  await tab.getByRole('button', { name: 'Accept' }).click();
  await expect(page.getByRole('status')).toHaveText('Terms accepted.');
  await closing;
});

test('a popup may be closed without a word', async ({ page }) => {
  await page.goto(`${site}/windows`);
  const opening = page.waitForEvent('popup');
  await page.getByRole('button', { name: 'Terms in a popup' }).click();
  const popup = await opening;
  await expect(popup.getByRole('heading')).toHaveText('Terms');
  await popup.close();
  await expect(page.getByRole('status')).toHaveText('Terms not accepted.');
});

test('two visitors have two carts', async ({ browser }) => {
  const [first, second] = await Promise.all([browser.newContext(), browser.newContext()]);
  const [hers, his] = [await first.newPage(), await second.newPage()];
  await hers.goto(`${site}/products/compass`);
  await hers.getByRole('button', { name: 'Add to cart' }).click();
  await his.goto(`${site}/cart`);
  await expect(hers.getByTestId('total')).toHaveText('54.00 €');
  await expect(his.getByText('Your cart is empty.')).toBeVisible();
  await Promise.all([first.close(), second.close()]);
});
