import { expect } from '@playwright/test';
import { test } from './shop.ts';

test(
  'is signed in',
  { tag: '@smoke', annotation: { type: 'story', description: '4711' } },
  async ({ shop }) => {
    await test.step('look who it is', async () => {
      await test.step('in the heading', async () => {
        await expect(shop.locator('h1')).toHaveText('ada');
      });
    });
  },
);

test('lists what it sells', async ({ shop }) => {
  const names = await shop.getByRole('listitem').allTextContents();
  expect(names.join('\n')).toMatchSnapshot('names.txt');
});

test('fails softly and goes on', async ({ shop }) => {
  expect.soft(await shop.locator('h1').textContent()).toBe('Grace');
  await expect(shop.locator('li')).toHaveCount(2);
});

test.describe('one after the other', () => {
  test.describe.configure({ mode: 'serial', retries: 0 });
  test('puts something in the basket', ({ basket }) => {
    basket.push('tea');
  });
  test('finds it there', ({ basket }) => {
    expect(basket).toEqual(['tea']);
  });
});
