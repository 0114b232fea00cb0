// A purchase from the first page to the order number, with the mistakes that a customer makes at the checkout.
import { expect, test } from '@playwright/test';

test('a customer buys two lanterns and a rope', async ({ page }) => {
  await test.step('fill the cart', async () => {
    await page.goto(process.env.SITE_URL!);
    await page.getByRole('link', { name: 'Storm lantern' }).click();
    await page.getByLabel('Quantity').fill('2');
    await page.getByRole('button', { name: 'Add to cart' }).click();
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Products' }).click();
    await page.getByRole('link', { name: 'Mooring rope' }).click();
    await page.getByRole('button', { name: 'Add to cart' }).click();
    await expect(page.getByTestId('total')).toHaveText('63.80 €');
    await page.screenshot({ path: 'cart.png' });
  });

  await test.step('be told what is wrong', async () => {
    await page.getByRole('link', { name: 'Check out' }).click();
    await page.getByLabel('Full name').fill('Ida Strand');
    await page.getByLabel('Email').fill('ida');
    await page.getByRole('button', { name: 'Place order' }).click();
    await expect(page.getByRole('alert')).toHaveText('Please correct 4 fields.');
    await expect(page.getByLabel('Full name')).toHaveValue('Ida Strand');
    await expect(page.getByLabel('Email')).toHaveAccessibleDescription('This is no email address.');
  });

  await test.step('order', async () => {
    await page.getByLabel('Email').fill('ida@example.com');
    await page.getByLabel('Street').fill('Quay 7');
    await page.getByLabel('Postcode').fill('20457');
    await page.getByLabel('I accept the terms').check();
    await page.getByRole('button', { name: 'Place order' }).click();
    await expect(page.getByRole('status')).toContainText('Thank you, Ida Strand.');
    await expect(page.getByTestId('order')).toHaveText(/^[0-9a-f-]{36}$/);
  });
});

test('an article is taken out of the cart again', async ({ page }) => {
  await page.goto(`${process.env.SITE_URL}/products/anchor`);
  await page.getByRole('button', { name: 'Add to cart' }).click();
  await page.getByRole('button', { name: 'Remove Folding anchor' }).click();
  await expect(page.getByText('Your cart is empty.')).toBeVisible();
});
