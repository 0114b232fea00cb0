import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DEMO_PASSWORD, DEMO_USER } from './account.ts';
import { demoSite } from './index.ts';

const server = createServer(demoSite());
let site: string;
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  site = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

const get = (path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${site}${path}`, { redirect: 'manual', ...init });
const form = (fields: Record<string, string>): RequestInit => ({
  method: 'POST',
  body: new URLSearchParams(fields),
});
const sent = (method: string, value: unknown, token?: string): RequestInit => ({
  method,
  body: JSON.stringify(value),
  headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
});

describe('pages', () => {
  test('every page that the menu names is there and whole', async () => {
    const home = await (await get('/')).text();
    const paths = [...home.matchAll(/<a href="(\/[\w/]*)"/g)].map(([, path]) => path!);
    expect(paths.length).toBeGreaterThan(20);
    for (const path of paths) {
      const response = await get(path);
      // The account sends visitors to the login first.
      expect([path, response.status]).toEqual([path, path === '/account' ? 303 : 200]);
      if (response.status === 200) expect(await response.text()).toContain('</html>');
    }
  });

  test('what visitors type is shown as text', async () => {
    const added = await get('/cart', form({ product: 'rope', count: '1' }));
    const cookie = added.headers.get('set-cookie')!;
    const answer = await get('/checkout', { ...form({ name: '"><b>x' }), headers: { cookie } });
    expect(answer.status).toBe(422);
    const page = await answer.text();
    expect(page).toContain('value="&#34;&#62;&#60;b&#62;x"');
    expect(page).toContain('This is no email address.');
  });

  test('a cart belongs to its visitor and may be emptied', async () => {
    const added = await get('/cart', form({ product: 'rope', count: '3' }));
    const headers = { cookie: added.headers.get('set-cookie')! };
    expect(await (await get('/cart', { headers })).text()).toContain('74.40 €');
    expect(await (await get('/cart')).text()).toContain('Your cart is empty.');
    await get('/cart', { ...form({ product: 'rope', count: '0' }), headers });
    expect(await (await get('/cart', { headers })).text()).toContain('Your cart is empty.');
  });

  test.each(['-1', '1.5', '100', 'many', ''])('a quantity of %j is refused', async (count) => {
    expect((await get('/cart', form({ product: 'rope', count }))).status).toBe(400);
  });

  test('a login gives a new session and a logout ends it', async () => {
    const before = await get('/cart', form({ product: 'rope', count: '1' }));
    const old = { cookie: before.headers.get('set-cookie')! };
    const login = await get('/login', {
      ...form({ user: DEMO_USER, password: DEMO_PASSWORD }),
      headers: old,
    });
    const headers = { cookie: login.headers.get('set-cookie')! };
    expect(headers.cookie).not.toBe(old.cookie);
    expect(await (await get('/account', { headers })).text()).toContain('1 thing in the cart');
    expect((await get('/account', { headers: old })).status).toBe(303);
    await get('/logout', { method: 'POST', headers });
    expect((await get('/account', { headers })).status).toBe(303);
  });

  test('an upload is counted to the byte', async () => {
    const body = new FormData();
    body.set('note', 'first');
    body.set('file', new Blob([new Uint8Array(1234)]), 'order <1>.bin');
    const page = await (await get('/files', { method: 'POST', body })).text();
    expect(page).toContain('Received order &#60;1&#62;.bin, 1234 bytes.');
  });

  test.each([
    ['no form', 'text/plain', 'x', 415],
    ['no end', 'multipart/form-data; boundary=b', '--b\r\nx; filename="a"\r\n\r\n', 400],
    ['no file', 'multipart/form-data; boundary=b', '--b\r\nx; name="a"\r\n\r\n1\r\n--b--', 400],
  ])('an upload with %s is refused', async (_, type, body, status) => {
    const answer = await get('/files', { method: 'POST', body, headers: { 'content-type': type } });
    expect(answer.status).toBe(status);
  });
});

describe('the API', () => {
  const tokenOf = async (): Promise<string> => {
    const answer = await get('/api/login', sent('POST', { user: DEMO_USER, password: DEMO_PASSWORD }));
    return ((await answer.json()) as { token: string }).token;
  };

  test('a product is made, read, changed and deleted with a token', async () => {
    const token = await tokenOf();
    const draft = { name: 'Oar', category: 'deck', cents: 3000 };
    const made = await get('/api/products', sent('POST', draft, token));
    expect(made.status).toBe(201);
    const path = made.headers.get('location')!;
    expect(await (await get(path)).json()).toMatchObject({ ...draft, stock: 0 });
    expect((await get(path, sent('PUT', { ...draft, cents: 1 }, token))).status).toBe(200);
    expect(await (await get(path)).json()).toMatchObject({ cents: 1 });
    expect((await get(path, { ...sent('DELETE', {}, token) })).status).toBe(204);
    expect((await get(path)).status).toBe(404);
  });

  test.each([
    ['no token', undefined, { name: 'Oar', category: 'deck', cents: 1 }, 401],
    ['a wrong token', 'demo_0', { name: 'Oar', category: 'deck', cents: 1 }, 401],
    ['no name', 'good', { category: 'deck', cents: 1 }, 422],
    ['an unknown category', 'good', { name: 'Oar', category: 'sky', cents: 1 }, 422],
    ['a wrong price', 'good', { name: 'Oar', category: 'deck', cents: -1 }, 422],
    ['a list', 'good', [], 400],
  ])('a product with %s is refused', async (_, token, product, status) => {
    const answer = await get(
      '/api/products',
      sent('POST', product, token === 'good' ? await tokenOf() : token),
    );
    expect(answer.status).toBe(status);
    expect(await answer.json()).toEqual({ error: expect.any(String) });
  });

  test('the catalogue stays as it is', async () => {
    const answer = await get('/api/products/rope', sent('DELETE', {}, await tokenOf()));
    expect(answer.status).toBe(403);
  });

  test('drafts are kept up to a number', async () => {
    const token = await tokenOf();
    const draft = { name: 'Oar', category: 'deck', cents: 1 };
    const first = (await get('/api/products', sent('POST', draft, token))).headers.get('location')!;
    for (let index = 0; index < 100; index++) await get('/api/products', sent('POST', draft, token));
    expect((await get(first)).status).toBe(404);
    expect(((await (await get('/api/products')).json()) as { total: number }).total).toBe(114);
  });

  test.each([200, 204, 304, 404, 418, 503, 599])('/api/status/%i answers so', async (code) => {
    expect((await get(`/api/status/${code}`)).status).toBe(code);
  });

  test('a slow answer takes its time', async () => {
    const begun = performance.now();
    expect(await (await get('/slow?ms=80')).json()).toEqual({ waitedMs: 80 });
    expect(performance.now() - begun).toBeGreaterThanOrEqual(75);
  });

  test.each([
    ['/outage', 503],
    ['/api/status', 200],
    ['/api/status/101', 400],
    ['/api/status/-1', 400],
    ['/slow?ms=soon', 400],
    ['/api/products?limit=', 400],
    ['/api/stories?from=1e9', 200],
  ])('%s answers %i', async (path, status) => {
    expect((await get(path)).status).toBe(status);
  });
});

describe('odd requests', () => {
  /** What comes back for bytes that no client would send. */
  async function raw(bytes: string): Promise<string> {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.end(bytes);
    return text(socket);
  }

  test.each([
    ['an unknown page', 'GET /nowhere', 404],
    ['a name of JavaScript', 'GET /api/products/constructor', 404],
    ['a part that is not encoded well', 'GET /products/%E0%A4%A', 400],
    ['an empty part', 'GET /products/', 404],
    ['a host in place of a path', 'GET //', 404],
    ['an address that is none', 'GET http://[', 400],
    ['a star', 'OPTIONS *', 400],
    ['a full address', 'GET http://elsewhere.test/api/status', 200],
    ['a method that the page does not take', 'DELETE /cart', 405],
    ['a method that nobody knows', 'PROPFIND /', 405],
  ])('%s gets an answer', async (_, line, status) => {
    expect(await raw(`${line} HTTP/1.1\r\nhost: demo\r\nconnection: close\r\n\r\n`)).toMatch(
      new RegExp(`^HTTP/1.1 ${status} `),
    );
  });

  test('HEAD has the head of GET and no body', async () => {
    const head = await get('/', { method: 'HEAD' });
    expect(head.headers.get('content-length')).toBe(String(Buffer.byteLength(await (await get('/')).text())));
    expect(await head.text()).toBe('');
  });

  test.each([
    ['a form', '/login', 20_000],
    ['an upload', '/files', 1_500_000],
    ['what goes nowhere', '/nowhere', 1_500_000],
  ])('%s that is too large is answered with 413', async (_, path, bytes) => {
    expect((await get(path, { method: 'POST', body: 'x'.repeat(bytes) })).status).toBe(413);
  });

  test('a sender without end is cut off', async () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    // Cut off while it writes: EPIPE or ECONNRESET, whichever is seen first.
    const ended = new Promise((resolve) => socket.on('close', resolve).on('error', () => {}));
    socket.write('POST /login HTTP/1.1\r\nhost: demo\r\ncontent-length: 1000000000\r\n\r\n');
    const chunk = Buffer.alloc(1_000_000);
    const push = (): void => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on('drain', push).resume();
    push();
    await ended;
  });

  test('a visitor who leaves early does no harm', async () => {
    const leave = AbortSignal.timeout(30);
    await expect(get('/slow?ms=10000', { signal: leave })).rejects.toThrow();
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write('POST /login HTTP/1.1\r\nhost: demo\r\ncontent-length: 10\r\n\r\nabc');
    socket.destroy();
    expect((await get('/')).status).toBe(200);
  });
});
