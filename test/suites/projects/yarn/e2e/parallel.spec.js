const { test, expect } = require('@playwright/test');

test.describe.configure({ mode: 'parallel' });
test('passes at the second try', ({}, testInfo) => {
  expect(testInfo.retry).toBe(1);
});
test('is expected to fail', () => {
  test.fail();
  expect(1).toBe(2);
});
test('opens a page', async ({ page }) => {
  await page.setContent('<p>here</p>');
  await expect(page.locator('p')).toBeVisible();
});
