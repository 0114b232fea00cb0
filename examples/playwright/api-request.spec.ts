// A REST API without a browser: log in for a token, then make, read, change and delete a product.
import { expect, test } from '@playwright/test';

const site = process.env.SITE_URL;
let headers: Record<string, string>;

test.beforeAll(async ({ playwright }) => {
  const api = await playwright.request.newContext();
  const login = await api.post(`${site}/api/login`, { data: { user: 'demo', password: 'harbour-light' } });
  await expect(login).toBeOK();
  headers = { authorization: `Bearer ${(await login.json()).token}` };
  await api.dispose();
});

test('a product lives and dies', async ({ request }) => {
  const oar = { name: 'Oar', category: 'deck', cents: 3200 };
  const made = await request.post(`${site}/api/products`, { headers, data: oar });
  expect(made.status()).toBe(201);
  const url = `${site}${made.headers()['location']}`;

  expect(await (await request.get(url)).json()).toMatchObject({ ...oar, stock: 0 });
  await expect(await request.put(url, { headers, data: { ...oar, stock: 4 } })).toBeOK();
  expect(await (await request.get(url)).json()).toMatchObject({ stock: 4 });
  expect((await request.delete(url, { headers })).status()).toBe(204);
  expect((await request.get(url)).status()).toBe(404);
});

test('nothing is made without a token, nor from wrong fields', async ({ request }) => {
  const refused = await request.post(`${site}/api/products`, { data: { name: 'Oar' } });
  expect(refused.status()).toBe(401);
  const wrong = await request.post(`${site}/api/products`, { headers, data: { name: 'Oar' } });
  expect(wrong.status()).toBe(422);
  expect(await wrong.json()).toEqual({ error: expect.stringContaining('category must be one of') });
});
