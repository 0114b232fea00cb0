import { expect, test } from '@playwright/test';

const page = (text: string): string => `data:text/html,<title>${text}</title><h1>${text}</h1>`;

test('shows its heading @smoke', async ({ page: tab }) => {
  await tab.goto(page('Hello'));
  await test.step('look at the heading', async () => {
    await expect(tab.getByRole('heading')).toHaveText('Hello');
  });
});

test.skip('is not written yet', () => {});

test('computes', () => {
  expect(1 + 1).toBe(2);
});
