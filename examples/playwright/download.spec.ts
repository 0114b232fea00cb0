// A download: its suggested name, and its content read back from disk.
import { readFile } from 'node:fs/promises';
import { expect, test } from '@playwright/test';

test('the price list lists the lantern', async ({ page }) => {
  await page.goto(`${process.env.SITE_URL}/files`);
  const downloading = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Download the price list' }).click();
  const download = await downloading;
  expect(download.suggestedFilename()).toBe('prices.csv');

  const lines = (await readFile(await download.path(), 'utf8')).trim().split('\n');
  expect(lines[0]).toBe('id,name,price');
  expect(lines).toContain('lantern,"Storm lantern",19.50');
  expect(lines).toHaveLength(15);
});
