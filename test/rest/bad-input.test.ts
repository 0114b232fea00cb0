import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ACCOUNT, API_KEY, checkBody, startTestService, type TestService } from './service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(async () => service.stop());
/** Whatever was thrown at it, it serves on. */
afterEach(async () => {
  expect((await service.get('/v1/accounts/me')).status).toBe(200);
});

describe('the API key', () => {
  const answer = async (headers: Record<string, string>) =>
    service.call('GET', '/v1/checks', { headers: { authorization: '', ...headers } });

  test.each([
    ['', 'no key'],
    ['Bearer', 'an empty key'],
    ['Bearer wrong', 'a wrong key'],
    [`Bearer ${API_KEY}x`, 'a longer key'],
    [`Bearer ${API_KEY.toUpperCase()}`, 'another case'],
    [`Basic ${API_KEY}`, 'another scheme'],
    [`Bearer ${'k'.repeat(5000)}`, 'a huge key'],
    [`Bearer ' or 1=1 --`, 'an injection'],
  ])('%s: %s is 401', async (authorization) => {
    const { status, body } = await answer({ authorization });
    expect(status).toBe(401);
    expect(body).toEqual({ statusCode: 401, error: 'Unauthorized', message: 'Bad Token' });
  });

  test('is asked for before the body is looked at', async () => {
    const { status } = await service.call('POST', '/v1/checks/url', {
      body: '{',
      headers: { authorization: '' },
    });
    expect(status).toBe(401);
  });

  test.each(['bearer', 'BEARER'])('may be announced as %s', async (scheme) => {
    expect((await answer({ authorization: `${scheme} ${API_KEY}` })).status).toBe(200);
  });

  test('must belong to the account that the header names', async () => {
    const authorization = `Bearer ${API_KEY}`;
    const good = { authorization, 'x-service-account': ACCOUNT };
    expect((await answer(good)).status).toBe(200);
    expect((await answer({ ...good, 'x-service-account': ACCOUNT.toUpperCase() })).status).toBe(200);
    for (const account of ['11111111-1111-4111-8111-111111111111', 'nonsense']) {
      const { status, body } = await answer({ ...good, 'x-service-account': account });
      expect(status).toBe(403);
      expect(body).toMatchObject({ statusCode: 403, error: 'Forbidden' });
    }
  });

  test.each([
    '/health',
    '/-/liveness',
    '/-/readiness',
    '/openapi.json',
    '/metrics',
    '/v1/locations',
    '/v1/runtimes',
  ])('is not needed for %s', async (path) => {
    expect((await fetch(`${service.url}${path}`)).status).toBe(200);
  });
});

describe('bodies', () => {
  const send = async (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) => {
    const response = await fetch(`${service.url}/v1/checks/url`, {
      method: 'POST',
      body,
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', ...headers },
    });
    const text = await response.text();
    return { status: response.status, message: String(JSON.parse(text).message), text };
  };
  const withName = (json: string): string => JSON.stringify(checkBody('url')).replace('"a url check"', json);

  test.each([
    ['nothing', '', 'body: is required and must be an object'],
    ['blanks', '  \n ', 'body: is required and must be an object'],
    ['half an object', '{"name":', 'body: is not JSON'],
    ['two objects', '{}{}', 'body: is not JSON'],
    ['a comment', '{/**/}', 'body: is not JSON'],
    ['NaN', '{"name":NaN}', 'body: is not JSON'],
    ['a list', '[]', 'body: must be an object'],
    ['null', 'null', 'body: must be an object'],
    ['a string', '"x"', 'body: must be an object'],
    ['a number', '5', 'body: must be an object'],
    ['a prototype', '{"__proto__":{"admin":true}}', 'body: must not have the field __proto__'],
    ['a prototype inside', '{"request":{"__proto__":{}}}', 'body.request: must not have the field __proto__'],
    ['a constructor', '{"constructor":{"prototype":{}}}', 'constructor: is not a known field'],
    ['NUL in text', withName('"a\\u0000b"'), 'body.name: must not contain the NUL character'],
    ['NUL in a name', withName('"x","a\\u0000":1,"b":"c"'), 'must not contain the NUL character'],
    ['half a character', withName('"\\ud800"'), 'body.name: must be well-formed Unicode text'],
    ['a huge number', withName('"x","groupOrder":1e400'), 'groupOrder: must be a number'],
    ['deep lists', '['.repeat(100_000) + ']'.repeat(100_000), 'body: is nested more than 32 levels deep'],
    [
      'deep objects',
      '{"a":'.repeat(50_000) + '1' + '}'.repeat(50_000),
      'body: is nested more than 32 levels',
    ],
    ['many values', `{"tags":[${'1,'.repeat(400_000)}1]}`, 'body: has more than 20000 values'],
    [
      'many fields',
      `{${Array.from({ length: 30_000 }, (_, i) => `"k${i}":1`).join()}}`,
      'body: has more than',
    ],
  ])('of %s are 400', async (_what, body, message) => {
    const answer = await send(body);
    expect(answer.status).toBe(400);
    expect(answer.message).toContain(message);
    expect(answer.message.length).toBeLessThan(5000);
  });

  test('that are not UTF-8 are 400', async () => {
    expect(await send(Uint8Array.from([0x22, 0xff, 0x22]))).toMatchObject({
      status: 400,
      message: 'body: must be UTF-8',
    });
  });

  test('may begin with a byte order mark and hold any character', async () => {
    expect((await send(`\u{FEFF}${withName('"Größe \u{1F600} \u202E"')}`)).status).toBe(201);
  });

  test('over 1 MB are 413', async () => {
    expect(await send(withName(`"${'x'.repeat(1024 * 1024)}"`))).toMatchObject({
      status: 413,
      message: 'body: is too large; 1 MB is allowed',
    });
  });

  test.each([
    ['text/plain', {}],
    ['application/x-www-form-urlencoded', {}],
    ['application/xml', {}],
    ['application/json', { 'content-encoding': 'gzip' }],
  ])('of type %s %j are 415', async (type, more) => {
    const body = 'content-encoding' in more ? Uint8Array.from(gzipSync(withName('"x"'))) : withName('"x"');
    expect((await send(body, { 'content-type': type, ...more })).status).toBe(415);
  });

  test('of type application/json with a charset are read', async () => {
    expect((await send(withName('"x"'), { 'content-type': 'application/json; charset=utf-8' })).status).toBe(
      201,
    );
  });

  /** Says what comes first and then pours zeros until the service hangs up. */
  async function pour(head: string, chunk: Buffer): Promise<{ reply: string; sent: number }> {
    const socket = connect(service.service.port, '127.0.0.1');
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    // The service hangs up while we talk: a reset is what we are here for.
    socket.on('error', () => undefined);
    let reply = '';
    let sent = 0;
    socket.on('data', (data) => (reply += data.toString('latin1')));
    socket.write(head);
    while (!socket.destroyed && sent < 1024 ** 3) {
      sent += chunk.length;
      if (socket.write(chunk)) continue;
      await Promise.race([new Promise<void>((resolve) => socket.once('drain', () => resolve())), closed]);
    }
    await closed;
    return { reply, sent };
  }
  const head = (more: string): string =>
    `POST /v1/checks/url HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${API_KEY}\r\ncontent-type: application/json\r\n${more}\r\n\r\n`;

  test('of 1 GB are cut off, announced or not', async () => {
    const announced = await pour(head(`content-length: ${1024 ** 3}`), Buffer.alloc(65_536, 0x20));
    expect(announced.reply).toContain(' 413 ');
    expect(announced.sent).toBeLessThan(64 * 1024 ** 2);
    const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(65_536, 0x20), Buffer.from('\r\n')]);
    const chunked = await pour(head('transfer-encoding: chunked'), chunk);
    expect(chunked.reply).toContain(' 413 ');
    expect(chunked.sent).toBeLessThan(64 * 1024 ** 2);
  });
});

describe('paths and methods', () => {
  const raw = async (
    method: string,
    path: string,
  ): Promise<{ status: number; body: string; allow: string }> => {
    const socket = connect(service.service.port, '127.0.0.1');
    socket.end(`${method} ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`);
    let reply = '';
    socket.on('data', (data) => (reply += data.toString('latin1')));
    // Refused before it was read whole, it may end in a reset.
    socket.on('error', () => undefined);
    await new Promise<void>((resolve) => socket.once('close', () => resolve()));
    const [top = '', body = ''] = reply.split('\r\n\r\n', 2);
    return {
      status: Number(top.split(' ')[1]),
      body,
      allow: /^allow: (.*)$/im.exec(top)?.[1]?.trim() ?? '',
    };
  };

  test.each(['/', '/v1', '/v1/nothing', '/v9/checks', '/v1/checks/a/b/c', '/../etc/passwd', '//v1/checks'])(
    '%s does not exist',
    async (path) => {
      const { status, body } = await raw('GET', path);
      expect(status).toBe(404);
      expect(JSON.parse(body)).toMatchObject({ statusCode: 404, error: 'Not Found' });
    },
  );

  test('a path that cannot be decoded is 400', async () => {
    const { status, body } = await raw('GET', '/v1/checks/%zz');
    expect(status).toBe(400);
    expect(JSON.parse(body)).toMatchObject({ statusCode: 400, error: 'Bad Request' });
  });

  test('odd identifiers are 404', async () => {
    for (const id of ['%00', '%2e%2e', `${'a'.repeat(400)}`, '%F0%9F%98%80', "'; drop table run; --"]) {
      expect((await service.get(`/v1/checks/${id}`)).status).toBe(404);
    }
  });

  test('a known path says which methods it has', async () => {
    expect(await raw('PATCH', '/v1/checks')).toMatchObject({ status: 405, allow: 'GET, POST' });
    expect(await raw('POST', '/v1/locations')).toMatchObject({ status: 405, allow: 'GET' });
    expect(await raw('OPTIONS', '/v1/checks/url')).toMatchObject({ status: 204, allow: expect.any(String) });
  });

  test('HEAD answers like GET without a body', async () => {
    const { status, body } = await raw('HEAD', '/v1/locations');
    expect([status, body]).toEqual([200, '']);
    expect((await raw('HEAD', '/v1/checks')).status).toBe(401);
  });

  test('a trailing slash changes nothing', async () => {
    expect((await service.get('/v1/checks/')).status).toBe(200);
  });

  test('a client that offers HTTP/2 on the way is answered in HTTP/1.1', async () => {
    const { hostname, port } = new URL(service.url);
    const socket = connect(Number(port), hostname);
    socket.write(
      `GET /v1/accounts/me HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${API_KEY}\r\n` +
        'connection: close, Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n',
    );
    const [head] = (await socket.setEncoding('utf8').toArray()) as string[];
    expect(head).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('what is not HTTP is refused', async () => {
    expect((await raw('\u0001\u0002', '/')).status).toBe(400);
    const { status } = await raw('GET', `/${'a'.repeat(100_000)}`);
    expect(status).toBe(431);
  });
});

test('a DELETE with a JSON type and no body is understood', async () => {
  const made = await service.post('/v1/checks/url', checkBody('url'));
  const { status } = await service.call('DELETE', `/v1/checks/${made.body.id}`, {
    headers: { 'content-type': 'application/json' },
  });
  expect(status).toBe(204);
});

test('everything is counted under its route, never under an id', async () => {
  const made = await service.post('/v1/checks/url', checkBody('url'));
  await service.get(`/v1/checks/${made.body.id}`);
  const text = await (await fetch(`${service.url}/metrics`)).text();
  expect(text).toContain('route="/v1/checks/:id",status="200"');
  expect(text).not.toContain(made.body.id);
});
