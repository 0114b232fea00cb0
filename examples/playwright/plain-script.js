// Playwright without its test runner: a browser, a page, and an Error when something is not as it should be.
const assert = require('node:assert/strict');
const { chromium } = require('playwright');

async function main() {
  const browser = await chromium.launch();
  try {
    const page = await browser.newPage();
    const response = await page.goto(process.env.SITE_URL);
    assert.equal(response.status(), 200);
    await page.getByLabel('Search').fill('bell');
    await page.getByRole('link', { name: 'Brass bell' }).click();
    await page.getByText('Sold out').waitFor();
    assert.equal(await page.getByTestId('price').textContent(), '68.00 €');
    await page.screenshot({ path: 'bell.png' });
    console.log('the bell is sold out');
  } finally {
    await browser.close();
  }
}

// What it throws fails the check.
void main();
