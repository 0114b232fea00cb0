// A table that is sorted, filtered and turned page by page; rows are counted and compared as texts.
import { expect, test, type Locator } from '@playwright/test';

let rows: Locator;

test.beforeEach(async ({ page }) => {
  await page.goto(process.env.SITE_URL!);
  rows = page.getByRole('table', { name: 'What we sell' }).locator('tbody').getByRole('row');
});

test('sorts by a column, both ways', async ({ page }) => {
  const price = page.getByRole('columnheader', { name: 'Price' });
  await price.getByRole('button').click();
  await expect(price).toHaveAttribute('aria-sort', 'ascending');
  await expect(rows.first()).toContainText('Spare bulb');
  await price.getByRole('button').click();
  await expect(price).toHaveAttribute('aria-sort', 'descending');
  await expect(rows.getByRole('link')).toHaveText([
    'Signal lamp',
    'Brass bell',
    'Hand compass',
    'Folding anchor',
    'Throwing line',
  ]);
});

test('filters by text and category', async ({ page }) => {
  await page.getByLabel('Category').selectOption('rope');
  await expect(page.getByRole('status')).toHaveText('3 products');
  await page.getByLabel('Search').fill('line');
  await expect(page.getByRole('status')).toHaveText('1 product');
  await expect(rows).toHaveCount(1);
  await expect(rows.filter({ hasText: 'Throwing line' })).toContainText('31.50 €');
});

test('turns to the last page', async ({ page }) => {
  const next = page.getByRole('button', { name: 'Next' });
  await expect(rows).toHaveCount(5);
  await next.click();
  await next.click();
  await expect(page.getByTestId('position')).toHaveText('Page 3 of 3');
  await expect(rows).toHaveCount(4);
  await expect(next).toBeDisabled();
});
