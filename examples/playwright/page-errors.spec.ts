// What a page gets wrong without anybody seeing it: errors on its console, scripts that fail, files that miss.
import { expect, test } from '@playwright/test';

test('the broken page is caught at three things', async ({ page }) => {
  const consoleErrors: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') consoleErrors.push(message.text());
  });
  const failing = page.waitForEvent('pageerror');
  const missing = page.waitForResponse((response) => response.status() === 404);
  await page.goto(`${process.env.SITE_URL}/broken`);
  expect((await failing).message).toBe('the anchor dragged');
  expect(new URL((await missing).url()).pathname).toBe('/missing.png');
  expect(consoleErrors).toContain('the tide table is out of date');
});
