// A visitor from elsewhere: dark theme, time zone, language, place and size of the window are set by the test.
import { expect, test } from '@playwright/test';

test.use({
  colorScheme: 'dark',
  timezoneId: 'Pacific/Auckland',
  locale: 'en-NZ',
  geolocation: { latitude: -36.8485, longitude: 174.7633 },
  permissions: ['geolocation'],
  viewport: { width: 390, height: 844 },
});

test.beforeEach(async ({ page }) => {
  await page.goto(`${process.env.SITE_URL}/surroundings`);
});

test('the page sees what the test says', async ({ page }) => {
  await expect(page.getByTestId('theme')).toHaveText('dark');
  await expect(page.getByTestId('zone')).toHaveText('Pacific/Auckland');
  await expect(page.getByTestId('language')).toHaveText('en-NZ');
  await expect(page.getByTestId('window')).toHaveText('390 x 844');
  await page.emulateMedia({ colorScheme: 'light' });
  await expect(page.getByTestId('theme')).toHaveText('light');
});

test('the page learns where it is', async ({ page }) => {
  await page.getByRole('button', { name: 'Where am I?' }).click();
  await expect(page.getByRole('status')).toHaveText('-36.849, 174.763');
});
