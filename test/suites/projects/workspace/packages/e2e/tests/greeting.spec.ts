import { expect, test } from '@playwright/test';
import { greeting } from '@suite/pages';

for (const name of ['Ada', 'Grace']) {
  test(`greets ${name}`, async ({ page }) => {
    await page.goto(greeting(name));
    await expect(page.locator('h1')).toHaveText(`Hello ${name}`);
  });
}
