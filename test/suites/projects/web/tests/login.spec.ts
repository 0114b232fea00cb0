import { expect, test } from '@playwright/test';

test('is logged in already', async ({ page }) => {
  await page.goto('/');
  await expect(page.locator('#who')).toHaveText('Ada');
});

test('asks without a browser', async ({ request }) => {
  const answer = await request.get('/');
  expect(answer.ok()).toBe(true);
});

test('looks as it did', async ({ page }) => {
  await page.setViewportSize({ width: 60, height: 60 });
  await page.goto('/');
  await page.locator('#who').evaluate((node) => node.remove());
  await expect(page).toHaveScreenshot('blue.png');
});
