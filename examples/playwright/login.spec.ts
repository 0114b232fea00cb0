// Login: a wrong password is refused with a message, the right one opens the account, logging out closes it.
import { expect, test } from '@playwright/test';

const site = process.env.SITE_URL;

test.beforeEach(async ({ page }) => {
  await page.goto(`${site}/login`);
  await page.getByLabel('User').fill('demo');
});

test('a wrong password is refused', async ({ page }) => {
  await page.getByLabel('Password').fill('guessed');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByRole('alert')).toHaveText('User or password is wrong.');
  await page.goto(`${site}/account`);
  await expect(page).toHaveURL(`${site}/login`);
});

test('the right password opens the account, until logout', async ({ page }) => {
  await page.getByLabel('Password').fill('harbour-light');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page).toHaveURL(`${site}/account`);
  await expect(page.getByTestId('user')).toHaveText('demo');
  await page.getByRole('button', { name: 'Log out' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Login');
});
