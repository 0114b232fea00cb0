import { test as base, expect } from '@playwright/test';
import { Shop } from '@pages/shop';
import { nanoid } from 'nanoid';

const test = base.extend<{ shop: Shop }>({
  shop: async ({ page }, use) => use(new Shop(page)),
});

test('lists its items', { tag: '@fast' }, async ({ shop, page }) => {
  await shop.open(3);
  await expect(page.getByRole('listitem')).toHaveCount(3);
});

test('fails softly, twice', async ({ shop, page }) => {
  await shop.open(1);
  await expect.soft(page.getByRole('listitem')).toHaveCount(2, { timeout: 100 });
  expect.soft(nanoid()).toHaveLength(5);
});

test('attaches what it found', async ({}, testInfo) => {
  await testInfo.attach('note', { body: 'found', contentType: 'text/plain' });
});
