// Soft assertions: everything on the page is looked at, and all that is wrong is told at once.
import { expect, test } from '@playwright/test';

test('every product page has its price, its category and its button', async ({ page }) => {
  const products = { lantern: '19.50 €', twine: '4.20 €', fender: '17.20 €', almanac: '9.90 €' };
  for (const [id, price] of Object.entries(products)) {
    await page.goto(`${process.env.SITE_URL}/products/${id}`);
    await expect.soft(page.getByTestId('price'), `price of ${id}`).toHaveText(price);
    await expect.soft(page.getByText(/^In \w+, \d+ in stock$/), `stock of ${id}`).toBeVisible();
    await expect.soft(page.getByRole('button', { name: 'Add to cart' }), `button of ${id}`).toBeEnabled();
  }
});
