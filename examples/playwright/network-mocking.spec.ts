// Requests of a page: answered by the script, changed on their way, failed, and merely watched.
import { expect, test } from '@playwright/test';

const site = process.env.SITE_URL;

test('shows made-up deals', async ({ page }) => {
  await page.route('**/api/deals', (route) =>
    route.fulfill({ json: { deals: [{ name: 'Lighthouse', cents: 99_999_900 }] } }),
  );
  await page.goto(`${site}/deals`);
  await expect(page.getByRole('list', { name: 'Deals' }).getByRole('listitem')).toHaveText(
    'Lighthouse for 999999.00 €',
  );
});

test('changes a real answer', async ({ page }) => {
  await page.route('**/api/deals', async (route) => {
    const response = await route.fetch();
    const { deals } = await response.json();
    await route.fulfill({ response, json: { deals: deals.slice(0, 1) } });
  });
  await page.goto(`${site}/deals`);
  await expect(page.getByRole('list', { name: 'Deals' }).getByRole('listitem')).toHaveText([
    'Storm lantern for 19.50 €',
  ]);
});

test('says so when the deals cannot be loaded, and recovers', async ({ page }) => {
  await page.route('**/api/deals', (route) => route.abort('connectionrefused'));
  await page.goto(`${site}/deals`);
  await expect(page.getByRole('status')).toHaveText('The deals could not be loaded.');
  await page.unroute('**/api/deals');

  const answering = page.waitForResponse('**/api/deals');
  await page.getByRole('button', { name: 'Reload' }).click();
  expect((await answering).status()).toBe(200);
  await expect(page.getByRole('list', { name: 'Deals' }).getByRole('listitem')).toHaveCount(3);
});

test('goes without pictures and counts what was left out', async ({ page }) => {
  const left: string[] = [];
  await page.route(/\.(png|jpe?g|webp)$/, (route) => {
    left.push(new URL(route.request().url()).pathname);
    return route.abort();
  });
  await page.goto(`${site}/broken`);
  expect(left).toEqual(['/missing.png']);
});
