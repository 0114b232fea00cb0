// The browser's own dialogs: what they ask, and what each answer leads to.
import { expect, test } from '@playwright/test';

test.beforeEach(async ({ page }) => {
  await page.goto(`${process.env.SITE_URL}/dialogs`);
});

test('an alert is read and closed', async ({ page }) => {
  let message = '';
  page.once('dialog', async (dialog) => {
    message = dialog.message();
    await dialog.accept();
  });
  await page.getByRole('button', { name: 'Say hello' }).click();
  await expect(page.getByRole('status')).toHaveText('Hello said.');
  expect(message).toBe('Welcome on board!');
});

test('a question is answered with no, then with yes', async ({ page }) => {
  const ask = page.getByRole('button', { name: 'Empty the cart' });
  page.once('dialog', (dialog) => dialog.dismiss());
  await ask.click();
  await expect(page.getByRole('status')).toHaveText('The cart stays full.');
  page.once('dialog', (dialog) => dialog.accept());
  await ask.click();
  await expect(page.getByRole('status')).toHaveText('The cart is empty.');
});

test('a prompt offers a name and takes another', async ({ page }) => {
  page.once('dialog', async (dialog) => {
    expect(dialog.type()).toBe('prompt');
    expect(dialog.defaultValue()).toBe('Albatross');
    await dialog.accept('Petrel');
  });
  await page.getByRole('button', { name: 'Name the boat' }).click();
  await expect(page.getByRole('status')).toHaveText('The boat is called Petrel.');
});
