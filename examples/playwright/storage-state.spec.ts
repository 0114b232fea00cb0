// One login for several tests: the cookies of the first are kept in a file, and others start with them.
import { expect, test } from '@playwright/test';

const site = process.env.SITE_URL;
const state = 'logged-in.json';

test.describe.configure({ mode: 'serial' });

test('log in once', async ({ page, context }) => {
  await page.goto(`${site}/login`);
  await page.getByLabel('User').fill('demo');
  await page.getByLabel('Password').fill('harbour-light');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByTestId('user')).toBeVisible();
  await context.storageState({ path: state });
});

test.describe('with the kept login', () => {
  test.use({ storageState: state });

  test('the account is open at once', async ({ page }) => {
    await page.goto(`${site}/account`);
    await expect(page.getByTestId('user')).toHaveText('demo');
  });
});

test('without it the account is closed', async ({ page }) => {
  await page.goto(`${site}/account`);
  await expect(page).toHaveURL(/\/login$/);
});
