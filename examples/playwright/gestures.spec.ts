// Mouse, keyboard and wheel: drag and drop, shortcuts, a list that loads as one scrolls.
import { expect, test } from '@playwright/test';

const site = process.env.SITE_URL;

test('a card is dragged to what is done', async ({ page }) => {
  await page.goto(`${site}/board`);
  const done = page.getByRole('region', { name: 'Done' });
  await page.getByText('Scrub the deck').dragTo(done);
  await expect(done).toContainText('Scrub the deck');
  await expect(page.getByRole('status')).toHaveText('Scrub the deck: done');
});

test('shortcuts lead to search and help', async ({ page }) => {
  await page.goto(`${site}/keyboard`);
  await page.keyboard.press('/');
  await expect(page.getByLabel('Search')).toBeFocused();
  await page.keyboard.type('bell');
  await expect(page.getByLabel('Search')).toHaveValue('bell');
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('dialog', { name: 'Help' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog', { name: 'Help' })).toBeHidden();
});

test('the logbook is read to its end', async ({ page }) => {
  await page.goto(`${site}/logbook`);
  const entries = page.getByRole('list', { name: 'Entries' }).getByRole('listitem');
  const end = page.getByRole('status');
  await expect(async () => {
    await end.scrollIntoViewIfNeeded();
    await expect(end).toHaveText('That was all.', { timeout: 200 });
  }).toPass({ timeout: 10_000 });
  await expect(entries).toHaveCount(60);
});
