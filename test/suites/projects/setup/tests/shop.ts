import { test as base, type Page } from '@playwright/test';

export const state = '.auth/ada.json';
export const address = 'http://shop.test/';

/** A shop that only these tests have: every request is answered here. */
export async function open(page: Page): Promise<void> {
  await page.route(`${address}**`, async (route) => {
    const cookie = (await route.request().allHeaders())['cookie'] ?? '';
    const who = /session=(\w+)/.exec(cookie)?.[1] ?? 'nobody';
    await route.fulfill({
      contentType: 'text/html',
      body: `<h1>${who}</h1><ul><li>Tea</li><li>Jam</li></ul>`,
    });
  });
  await page.goto(address);
}

interface Shared {
  /** One for all tests of a worker. */
  basket: string[];
}

export const test = base.extend<{ shop: Page }, Shared>({
  basket: [async ({}, use) => use([]), { scope: 'worker' }],
  shop: async ({ page }, use) => {
    await open(page);
    await use(page);
  },
});
