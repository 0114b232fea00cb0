// An API in steps: each step says what it does, hands its result to the next, and is told by name when it fails.
import { expect, test } from '@playwright/test';

const site = process.env.SITE_URL;

test('an order of what is cheapest', async ({ request }) => {
  await test.step('the shop is well', async () => {
    const status = await request.get(`${site}/api/status`);
    await expect(status).toBeOK();
    expect((await status.json()).services).toContainEqual({ name: 'shop', healthy: true });
  });

  const cheapest = await test.step('find the cheapest rope', async () => {
    const list = await request.get(`${site}/api/products`, { params: { category: 'rope' } });
    const { products } = await list.json();
    products.sort((a: { cents: number }, b: { cents: number }) => a.cents - b.cents);
    expect(products[0]).toMatchObject({ id: 'twine' });
    return products[0].id;
  });

  const order = await test.step('order it', async () => {
    const made = await request.post(`${site}/api/orders`, { data: { product: cheapest, count: 3 } });
    expect(made.status()).toBe(201);
    return made.headers()['location'];
  });

  await test.step('read the order', async () => {
    const read = await request.get(`${site}${order}`);
    expect(await read.json()).toEqual({ product: 'twine', count: 3 });
  });
});
