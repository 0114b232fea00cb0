// A picture compared with the expected one in visual.spec.ts-snapshots, which a check brings as a dependency.
import { expect, test } from '@playwright/test';

test('the flag looks as it should', async ({ page }) => {
  await page.goto(`${process.env.SITE_URL}/flag`);
  await expect(page.getByRole('img', { name: 'Flag of the harbour' })).toHaveScreenshot('flag.png');
});

test('a change would be noticed', async ({ page }) => {
  await page.goto(`${process.env.SITE_URL}/flag`);
  const flag = page.getByRole('img', { name: 'Flag of the harbour' });
  await flag.evaluate((element) => {
    element.style.background = 'crimson';
  });
  await expect(flag).not.toHaveScreenshot('flag.png');
});
