// An upload, from memory and from a file that the script writes first.
import { writeFile } from 'node:fs/promises';
import { expect, test } from '@playwright/test';

test.beforeEach(async ({ page }) => {
  await page.goto(`${process.env.SITE_URL}/files`);
});

test('sends a file that exists in memory only', async ({ page }) => {
  const buffer = Buffer.from('lantern,2\nrope,1\n');
  const input = page.getByLabel('Your order as a file');
  await input.setInputFiles({ name: 'order.csv', mimeType: 'text/csv', buffer });
  await expect(page.getByText('order.csv, 17 bytes')).toBeVisible();
  await page.getByRole('button', { name: 'Upload' }).click();
  await expect(page.getByRole('status')).toHaveText('Received order.csv, 17 bytes.');
});

test('sends a file from disk', async ({ page }, testInfo) => {
  const path = testInfo.outputPath('notes.txt');
  await writeFile(path, 'x'.repeat(5000));
  await page.getByLabel('Your order as a file').setInputFiles(path);
  await page.getByRole('button', { name: 'Upload' }).click();
  await expect(page.getByRole('status')).toHaveText('Received notes.txt, 5000 bytes.');
});
