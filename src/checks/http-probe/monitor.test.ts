import { deflateRawSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { api } from '../api/index.ts';
import { AgentFault, type Outcome, type RunContext, TimeLimit } from '../check-type.ts';
import { url as urlType } from '../url/index.ts';
import { closedPort, httpServer, namesResolver, rawServer, testContext, wireServer } from './servers.ts';

interface Detail {
  assertions: { passed: boolean; actual: unknown; error: string | null }[];
  request: {
    method: string;
    url: string;
    data: string;
    headers: Record<string, string>;
    params: Record<string, string>;
  };
  response: {
    status: number;
    statusText: string;
    body: string;
    bodyEncoding?: string;
    truncated: boolean;
    headers: Record<string, string | string[]>;
    href: string;
    timings: Record<string, number>;
    timingPhases: Record<string, number>;
    redirects: { status: number; from: string; to: string }[];
  } | null;
  requestError: string | null;
  jobLog: { setup: unknown[]; request: { time: number; level: string; msg: string }[]; teardown: unknown[] };
}
type Run = Outcome & { detail: Detail };

async function run(request: object, more: object = {}, context: Partial<RunContext> = {}): Promise<Run> {
  return (await api.run({ request, ...more }, testContext(context))) as Run;
}

/** Aborts as the harness does when the time of a try is up. */
function timeLimit(ms: number): AbortSignal {
  const stop = new AbortController();
  setTimeout(() => stop.abort(new TimeLimit(ms)), ms);
  return stop.signal;
}

const json = (property: string, target: string): object => ({
  source: 'JSON_BODY',
  comparison: 'EQUALS',
  property,
  target,
});

describe('the verdict', () => {
  test.each([
    [200, false, 'passed'],
    [302, false, 'passed'],
    [404, false, 'failed'],
    [500, false, 'failed'],
    [500, true, 'passed'],
    [200, true, 'passed'],
  ])('status %i with shouldFail %s has %s', async (status, shouldFail, verdict) => {
    await using server = await httpServer((_, response) => response.writeHead(status).end());
    const outcome = await run({ url: server.url() }, { shouldFail });
    expect(outcome).toMatchObject({ verdict, statusCode: status });
    expect(outcome.failures.map(({ code, network }) => ({ code, network }))).toEqual(
      verdict === 'failed' ? [{ code: 'HTTP_STATUS', network: false }] : [],
    );
  });

  test('a 404 fails even where an assertion wants it, unless the check should fail', async () => {
    await using server = await httpServer((_, response) => response.writeHead(404).end());
    const assertions = [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: 404 }];
    const request = { url: server.url(), assertions };
    const plain = await run(request);
    expect(plain.verdict).toBe('failed');
    expect(plain.detail.assertions[0]).toMatchObject({ passed: true, actual: 404 });
    expect((await run(request, { shouldFail: true })).verdict).toBe('passed');
  });

  test('a failed assertion fails the run, also one that should fail', async () => {
    await using server = await httpServer((_, response) => response.end('x'));
    const assertions = [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '201' }];
    for (const shouldFail of [true, false]) {
      const outcome = await run({ url: server.url(), assertions }, { shouldFail });
      expect(outcome.failures).toEqual([
        {
          code: 'ASSERTION',
          message: 'assertion STATUS_CODE EQUALS 201 is not met, the value is 200',
          network: false,
        },
      ]);
    }
  });

  test('thresholds: over the maximum fails, over the degraded one degrades, null is off', async () => {
    await using server = await httpServer((_, response) => void setTimeout(() => response.end(), 30));
    const request = { url: server.url() };
    const over = await run(request, { maxResponseTime: 10 });
    expect(over).toMatchObject({ verdict: 'failed', overMaxResponseTime: true });
    expect(over.failures[0]?.code).toBe('MAX_RESPONSE_TIME');
    expect(over.lateByMs).toBeCloseTo((over.responseTimeMs ?? 0) - 10, 5);
    const slow = await run(request, { degradedResponseTime: 10 });
    expect(slow).toMatchObject({ verdict: 'degraded', overMaxResponseTime: false, failures: [] });
    const off = await run(request, { degradedResponseTime: null, maxResponseTime: null });
    expect(off).toMatchObject({ verdict: 'passed', lateByMs: null });
  });

  test('a connection failure is a network failure of the target, without an answer', async () => {
    const port = await closedPort();
    const outcome = await run({ url: `http://127.0.0.1:${port}/` }, { shouldFail: true });
    expect(outcome).toMatchObject({ verdict: 'failed', statusCode: null, responseTimeMs: null });
    expect(outcome.failures).toEqual([
      {
        code: 'ECONNREFUSED',
        message: `127.0.0.1:${port} refused the connection (ECONNREFUSED)`,
        network: true,
      },
    ]);
    expect(outcome.detail).toMatchObject({
      response: null,
      requestError: outcome.failures[0]?.message,
      assertions: [],
    });
  });

  test('a name that does not exist is the target’s failure', async () => {
    const outcome = await run({ url: 'http://nowhere.test/' });
    expect(outcome.failures).toEqual([
      { code: 'ENOTFOUND', message: expect.stringContaining('nowhere.test does not exist'), network: true },
    ]);
  });

  test('a resolver that cannot be reached is the agent’s fault, with what was learned', async () => {
    const resolver = {
      servers: () => [],
      resolve: () => Promise.reject(new AgentFault('RESOLVER_UNREACHABLE', 'no answer from 10.0.0.1')),
    };
    const fault: unknown = await run({ url: 'http://x.test/' }, {}, { resolver }).catch(
      (error: unknown) => error,
    );
    expect(fault).toBeInstanceOf(AgentFault);
    expect(fault).toMatchObject({
      code: 'RESOLVER_UNREACHABLE',
      detail: { request: { url: 'http://x.test/' } },
    });
  });

  test('a cancelled run throws the reason', async () => {
    await using server = await rawServer(() => undefined);
    const stop = new AbortController();
    const reason = new Error('cancelled');
    setTimeout(() => stop.abort(reason), 20);
    await expect(run({ url: server.url() }, {}, { signal: stop.signal })).rejects.toBe(reason);
  });

  test('URL monitors are judged in the same way', async () => {
    await using server = await httpServer((request, response) => response.end(request.method));
    const spec = {
      request: {
        url: server.url(),
        assertions: [{ source: 'STATUS_CODE', comparison: 'LESS_THAN', target: 300 }],
      },
    };
    const outcome = (await urlType.run(spec, testContext())) as Run;
    expect(outcome).toMatchObject({ verdict: 'passed', statusCode: 200 });
    expect(outcome.detail.response?.body).toBe('GET');
  });
});

describe('the request', () => {
  /** The request as it came. */
  const mirror = (): ReturnType<typeof httpServer> =>
    httpServer((request, response) => {
      let body = '';
      request.setEncoding('utf8');
      request.on('data', (part: string) => (body += part));
      request.on('end', () => {
        const { method, url, rawHeaders } = request;
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ method, url, headers: request.headers, rawHeaders, body }));
      });
    });
  const seenBy = (
    outcome: Run,
  ): { method: string; url: string; headers: Record<string, string>; body: string } =>
    JSON.parse(outcome.detail.response?.body ?? '{}') as never;

  test('has our name, takes gzip and deflate, and asks for the end of the connection', async () => {
    await using server = await mirror();
    expect(seenBy(await run({ url: server.url() })).headers).toEqual({
      host: `127.0.0.1:${server.port}`,
      'user-agent': 'Vedette/1.0',
      'accept-encoding': 'gzip, deflate',
      connection: 'close',
    });
  });

  test('headers of the check replace ours, whatever their case, Host too', async () => {
    await using server = await mirror();
    const headers = [
      { key: 'USER-AGENT', value: 'mine' },
      { key: 'Host', value: 'other.example' },
      { key: 'X-Var', value: '{{{V}}}' },
    ];
    const environmentVariables = [{ key: 'V', value: 'a b' }];
    const outcome = await run({ url: server.url(), headers }, { environmentVariables });
    expect(seenBy(outcome).headers).toMatchObject({
      'user-agent': 'mine',
      host: 'other.example',
      'x-var': 'a b',
    });
    expect(outcome.detail.request.headers).toEqual({
      'accept-encoding': 'gzip, deflate',
      'USER-AGENT': 'mine',
      Host: 'other.example',
      'X-Var': 'a b',
    });
  });

  test.each([
    ['JSON', '{"a":"{{{V}}}"}', 'application/json', '{"a":"ü"}'],
    ['FORM', 'a={{V}}', 'application/x-www-form-urlencoded', 'a=%C3%BC'],
    ['GRAPHQL', '{ me { id } }', 'application/json', '{"query":"{ me { id } }"}'],
    ['GRAPHQL', '{"query":"{ me }","variables":{}}', 'application/json', '{"query":"{ me }","variables":{}}'],
    ['RAW', 'ü', undefined, 'ü'],
    ['NONE', 'ignored', undefined, ''],
  ])('body type %s', async (bodyType, body, contentType, sent) => {
    await using server = await mirror();
    const environmentVariables = [{ key: 'V', value: 'ü' }];
    const outcome = await run(
      { method: 'POST', url: server.url(), body, bodyType },
      { environmentVariables },
    );
    const seen = seenBy(outcome);
    expect(seen.body).toBe(sent);
    expect(seen.headers['content-type']).toBe(contentType);
    expect(seen.headers['content-length']).toBe(String(Buffer.byteLength(sent)));
    expect(outcome.detail.request.data).toBe(sent);
  });

  test('query values are encoded once; the address stays as it was written', async () => {
    await using server = await mirror();
    const queryParameters = [
      { key: 'q', value: '{{V}}' },
      { key: 'r s', value: '&' },
    ];
    const environmentVariables = [{ key: 'V', value: 'a b' }];
    const outcome = await run(
      { url: server.url('/p?x=%20&flag#part'), queryParameters },
      { environmentVariables },
    );
    expect(seenBy(outcome).url).toBe('/p?x=%20&flag&q=a%20b&r%20s=%26');
    expect(outcome.detail.request.params).toEqual({ q: 'a b', 'r s': '&' });
  });

  test('credentials reach the server and not the result', async () => {
    await using server = await mirror();
    const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;
    const secret = 'p:ß';
    const byField = await run({ url: server.url(), basicAuth: { username: 'me', password: secret } });
    expect(seenBy(byField).headers['authorization']).toBe(basic(`me:${secret}`));
    expect(byField.detail.request.headers['Authorization']).toBe('*********');
    const inUrl = await run({ url: server.url().replace('//', '//me:in%20url@') });
    expect(seenBy(inUrl).headers['authorization']).toBe(basic('me:in url'));
    expect(inUrl.detail.request.url).toBe(server.url().replace('//', '//*********:*********@'));
    const own = await run({
      url: server.url(),
      headers: [{ key: 'authorization', value: 'Bearer x' }],
      basicAuth: { username: 'me', password: 'no' },
    });
    expect(seenBy(own).headers['authorization']).toBe('Bearer x');
    for (const key of ['Cookie', 'X-API-Key', 'x-auth-token', 'Proxy-Authorization']) {
      const sent = await run({ url: server.url(), headers: [{ key, value: 'a=secret' }] });
      expect(seenBy(sent).headers[key.toLowerCase()]).toBe('a=secret');
      expect(sent.detail.request.headers[key]).toBe('*********');
    }
  });

  test('an address that its variables break is explained', async () => {
    const environmentVariables = [{ key: 'BASE', value: 'https://example.com' }];
    const outcome = await run({ url: '{{BASE}}/x' }, { environmentVariables });
    expect(outcome.failures).toEqual([
      {
        code: 'INVALID_URL',
        message: expect.stringContaining('https%3A%2F%2Fexample.com/x'),
        network: false,
      },
    ]);
  });

  test('headers are sent as UTF-8, variables in assertions as they are', async () => {
    await using server = await mirror();
    const outcome = await run(
      {
        url: server.url(),
        headers: [{ key: 'X-Word', value: '日本' }],
        assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '{{V}}' }],
      },
      { environmentVariables: [{ key: 'V', value: '200 ' }] },
    );
    expect(outcome.verdict).toBe('passed');
    expect(Buffer.from(seenBy(outcome).headers['x-word'] ?? '', 'latin1').toString('utf8')).toBe('日本');
  });

  test('a header that cannot be sent is explained', async () => {
    await using server = await mirror();
    const environmentVariables = [{ key: 'V', value: 'a\r\nInjected: yes' }];
    const outcome = await run(
      { url: server.url(), headers: [{ key: 'X', value: '{{{V}}}' }] },
      { environmentVariables },
    );
    expect(outcome).toMatchObject({
      verdict: 'failed',
      failures: [{ code: 'INVALID_HEADER', network: false }],
    });
  });

  test.each([
    ['IPv6 literal', '::1', 'http://[::1]:PORT/'],
    ['name with a trailing dot', '127.0.0.1', 'http://host.test.:PORT/'],
    ['international name', '127.0.0.1', 'http://bücher.test:PORT/'],
  ])('%s', async (_, host, address) => {
    await using server = await httpServer((_request, response) => response.end('ok'), host);
    const resolver = namesResolver({ 'host.test.': [host], 'xn--bcher-kva.test': [host] });
    const outcome = await run({ url: address.replace('PORT', String(server.port)) }, {}, { resolver });
    expect(outcome).toMatchObject({ verdict: 'passed', resolvedAddress: host });
  });

  test('the next address is tried when one does not connect', async () => {
    await using server = await httpServer((_, response) => response.end('ok'), '127.0.0.1');
    const resolver = namesResolver({ 'two.test': ['127.0.0.2', '127.0.0.1'] });
    const outcome = await run({ url: `http://two.test:${server.port}/` }, {}, { resolver });
    expect(outcome).toMatchObject({ verdict: 'passed', resolvedAddress: '127.0.0.1' });
    expect(outcome.detail.jobLog.request.map(({ msg }) => msg).join('\n')).toContain('127.0.0.2');
  });
});

describe('the answer', () => {
  const wire = (head: string, body: string | Buffer): Buffer =>
    Buffer.concat([Buffer.from(`${head}\r\n\r\n`), Buffer.from(body)]);
  const bodyOf = async (bytes: string | Buffer, more: object = {}): Promise<Run> => {
    await using server = await wireServer(bytes);
    return await run({ url: server.url(), ...more });
  };

  test('phases add up to the total, and timings are their running sum', async () => {
    await using server = await httpServer((_, response) => void setTimeout(() => response.end('x'), 20));
    const { detail, responseTimeMs } = await run({ url: server.url() });
    const { wait, dns, tcp, tls, firstByte, download, total } = detail.response!.timingPhases as Record<
      string,
      number
    >;
    expect(wait! + dns! + tcp! + tls! + firstByte! + download!).toBeCloseTo(total!, 6);
    expect(responseTimeMs).toBe(total);
    expect(firstByte).toBeGreaterThan(15);
    expect(tls).toBe(0);
    const { timings } = detail.response!;
    expect(timings['response']! - timings['connect']!).toBeCloseTo(firstByte!, 6);
    expect(timings['end']).toBe(total);
  });

  test.each<[string, Buffer]>([
    ['gzip', gzipSync('hello')],
    ['x-gzip', gzipSync('hello')],
    ['deflate', deflateRawSync('hello')],
    ['zstd', zstdCompressSync('hello')],
    ['identity', Buffer.from('hello')],
    ['gzip, identity', gzipSync('hello')],
    ['gzip, gzip', gzipSync(gzipSync('hello'))],
    ['unheard-of', Buffer.from('hello')],
  ])('content-encoding %s is undone', async (encoding, body) => {
    const outcome = await bodyOf(wire(`HTTP/1.1 200 OK\r\nContent-Encoding: ${encoding}`, body));
    expect(outcome.detail.response?.body).toBe('hello');
  });

  test('a small body that unpacks to gigabytes stops at 25 MB', async () => {
    const bomb = gzipSync(Buffer.alloc(60 * 1024 * 1024));
    const outcome = await bodyOf(wire('HTTP/1.1 200 OK\r\nContent-Encoding: gzip', bomb));
    expect(outcome).toMatchObject({ verdict: 'passed', detail: { response: { truncated: true } } });
  });

  test.each<[string, Buffer]>([
    ['not gzip at all', Buffer.from('plain')],
    ['cut short', gzipSync('hello'.repeat(1000)).subarray(0, 30)],
  ])('gzip that is %s fails', async (_, body) => {
    const outcome = await bodyOf(
      wire(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\nContent-Encoding: gzip`, body),
    );
    expect(outcome).toMatchObject({ verdict: 'failed', statusCode: 200 });
    expect(outcome.failures[0]).toMatchObject({ code: 'BAD_CONTENT_ENCODING', network: false });
  });

  test('a short body fails with both numbers', async () => {
    const outcome = await bodyOf(wire('HTTP/1.1 200 OK\r\nContent-Length: 10', 'four'));
    expect(outcome.failures).toEqual([
      {
        code: 'ECONNRESET',
        message: 'the connection was closed in the middle of the body, after 4 bytes of 10',
        network: true,
      },
    ]);
  });

  test.each<[string, string, string]>([
    ['not HTTP', 'SSH-2.0-OpenSSH_9.2\r\n', 'HPE_INVALID_CONSTANT'],
    ['a bad chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', 'HPE_INVALID_CHUNK_SIZE'],
    [
      'a header flood',
      `HTTP/1.1 200 OK\r\n${'X-Pad: 0123456789\r\n'.repeat(20_000)}\r\n`,
      'HPE_HEADER_OVERFLOW',
    ],
    ['a NUL in a header', 'HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n', 'HPE_INVALID_HEADER_TOKEN'],
    ['nothing', '', 'ECONNRESET'],
  ])('%s is a failure, not a crash', async (_, bytes, code) => {
    const outcome = await bodyOf(bytes);
    expect(outcome.verdict).toBe('failed');
    expect(outcome.failures[0]?.code).toBe(code);
  });

  test.each<[string, string, number]>([
    ['bytes behind the answer', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEXTRA', 200],
    ['a body with 204', 'HTTP/1.1 204 No Content\r\n\r\nbody', 204],
    [
      'informational answers before',
      'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
      200,
    ],
    [
      '101 that nobody asked for',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
      101,
    ],
    ['HTTP/1.0 until the end', 'HTTP/1.0 200 OK\r\n\r\nok', 200],
    ['190 KB of headers', `HTTP/1.1 200 OK\r\n${'X-Pad: 0123456789\r\n'.repeat(10_000)}\r\n`, 200],
  ])('%s is fine', async (_, bytes, statusCode) => {
    expect(await bodyOf(bytes)).toMatchObject({ verdict: 'passed', statusCode });
  });

  test('repeated fields are joined, cookies kept apart, hostile names harmless', async () => {
    const outcome = await bodyOf(
      'HTTP/1.1 200 OK\r\nX: 1\r\nx: 2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n__proto__: y\r\n\r\n',
    );
    expect(outcome.detail.response?.headers).toEqual({ x: '1, 2', 'set-cookie': ['a', 'b'] });
  });

  test('the last of two thousand fields is seen, and UTF-8 in fields is read', async () => {
    const fields = 'X-Pad: 0\r\n'.repeat(2000);
    const outcome = await bodyOf(`HTTP/1.1 200 OK\r\n${fields}X-Last: grün\r\n\r\n`);
    expect(outcome.detail.response?.headers).toMatchObject({ 'x-last': 'grün' });
  });

  test('of several Locations or content types the first counts', async () => {
    const head = 'HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b';
    const types = 'Content-Type: application/json\r\nContent-Type: text/html';
    const outcome = await bodyOf(wire(`${head}\r\n${types}`, '{"a":1}'), {
      followRedirects: false,
      assertions: [json('$.a', '1')],
    });
    expect(outcome).toMatchObject({
      verdict: 'passed',
      detail: { response: { headers: { location: '/a', 'content-type': 'application/json' } } },
    });
  });

  test.each(['000', '099', '600'])('%s is no status to pass with', async (status) => {
    const outcome = await bodyOf(`HTTP/1.1 ${status} X\r\nContent-Length: 0\r\n\r\n`);
    expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code: 'HTTP_STATUS' }] });
  });

  test('a body of many tiny chunks is put together', async () => {
    const text = Array.from({ length: 5000 }, (_, index) => String(index % 10)).join('');
    const chunks = Array.from(text, (char) => `1\r\n${char}\r\n`).join('');
    const outcome = await bodyOf(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`);
    expect(outcome.detail.response?.body).toBe(text);
  });

  test('a body over 25 MB is read up to there and is no failure', async () => {
    const part = Buffer.alloc(1024 * 1024, 'a');
    await using server = await httpServer((_, response) => {
      for (let i = 0; i < 30; i++) response.write(part);
      response.end();
    });
    const assertions = [{ source: 'TEXT_BODY', comparison: 'CONTAINS', target: 'aaa' }];
    const outcome = await run({ url: server.url(), assertions });
    expect(outcome.verdict).toBe('passed');
    expect(outcome.detail.response).toMatchObject({ truncated: true });
    expect(outcome.detail.response?.body.length).toBe(256 * 1024);
  });

  test('binary content is a notice, unless an assertion wants text', async () => {
    const bytes = wire('HTTP/1.1 200 OK\r\nContent-Type: application/pdf', '%PDF-1.7');
    const contains = (target: string): object => ({ source: 'TEXT_BODY', comparison: 'CONTAINS', target });
    expect((await bodyOf(bytes)).detail.response?.body).toBe('(application/pdf, 8 bytes: not shown)');
    const asked = await bodyOf(bytes, { assertions: [contains('%PDF')] });
    expect(asked).toMatchObject({ verdict: 'passed', detail: { response: { body: '%PDF-1.7' } } });
  });

  test('small images are base64, large ones a notice', async () => {
    const image = (size: number): Buffer =>
      wire('HTTP/1.1 200 OK\r\nContent-Type: image/png', Buffer.alloc(size, 1));
    expect((await bodyOf(image(3))).detail.response).toMatchObject({ body: 'AQEB', bodyEncoding: 'base64' });
    expect((await bodyOf(image(60_000))).detail.response).toMatchObject({
      body: '(image/png, 60000 bytes: not shown)',
    });
  });

  test('the charset of the content type is read', async () => {
    const latin = wire(
      'HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=ISO-8859-1',
      Buffer.from([0xe9]),
    );
    expect((await bodyOf(latin)).detail.response?.body).toBe('é');
    const marked = wire('HTTP/1.1 200 OK\r\nContent-Type: application/json', '\uFEFF{"a":1}');
    expect((await bodyOf(marked, { assertions: [json('$.a', '1')] })).verdict).toBe('passed');
    const wide = wire(
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset='x'",
      Buffer.from('\uFEFFé', 'utf16le').swap16(),
    );
    expect((await bodyOf(wide)).detail.response?.body).toBe('é');
  });

  test.each([
    ['text/html', '{"a":1}', 'the answer is not JSON: its content type is text/html'],
    ['application/json', '{"a":', 'the body is not valid JSON'],
    ['application/problem+json; charset=utf-8', '{"a":1}', null],
  ])('JSON_BODY on %s', async (type, body, error) => {
    const outcome = await bodyOf(wire(`HTTP/1.1 200 OK\r\nContent-Type: ${type}`, body), {
      assertions: [json('$.a', '1')],
    });
    const [item] = outcome.detail.assertions;
    expect(item?.error ?? null).toEqual(error === null ? null : expect.stringContaining(error));
    expect(item?.passed).toBe(error === null);
  });
});

describe('time that runs out is named by its phase', () => {
  test.each<[string, (port: number) => RegExp, Parameters<typeof rawServer>[0]]>([
    [
      'no first byte',
      (port) => new RegExp(`^connected to 127.0.0.1:${port} after \\d+ ms, no first byte within 100 ms$`),
      () => undefined,
    ],
    [
      'no end',
      () => /the answer did not end \(\d+ bytes received\) within 100 ms$/,
      (socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx'),
    ],
  ])('%s', async (_, message, onConnection) => {
    await using server = await rawServer(onConnection);
    const outcome = await run({ url: server.url() }, {}, { signal: timeLimit(100) });
    expect(outcome.failures[0]).toMatchObject({ code: 'TIMEOUT', network: true });
    expect(outcome.failures[0]?.message).toMatch(message(server.port));
  });

  test('no end of the handshake', async () => {
    await using server = await rawServer(() => undefined);
    const outcome = await run(
      { url: server.url().replace('http:', 'https:') },
      {},
      { signal: timeLimit(100) },
    );
    expect(outcome.failures[0]?.message).toMatch(/the TLS handshake did not end within 100 ms$/);
  });
});

describe('TLS that does not come about', () => {
  test.each([
    ['a server that speaks plain HTTP', 'HTTP/1.1 400 Bad Request\r\n\r\n', /does not speak TLS/, false],
    ['a server that hangs up', '', /closed the connection during the TLS handshake/, true],
  ])('%s is described', async (_, answer, message, network) => {
    await using server = await wireServer(answer);
    const outcome = await run({ url: server.url().replace('http:', 'https:') });
    expect(outcome.failures[0]).toMatchObject({ message: expect.stringMatching(message), network });
  });
});

describe('redirects', () => {
  test('are followed; the whole way counts and is recorded', async () => {
    await using server = await httpServer((request, response) => {
      if (request.url === '/end') response.end('there');
      else response.writeHead(302, { location: request.url === '/' ? 'next?a=1' : '/end' }).end();
    });
    const { detail, verdict } = await run({ url: server.url() });
    expect(verdict).toBe('passed');
    expect(detail.response).toMatchObject({ status: 200, body: 'there', href: server.url('/end') });
    expect(detail.response?.redirects).toEqual([
      { status: 302, from: server.url('/'), to: server.url('/next?a=1') },
      { status: 302, from: server.url('/next?a=1'), to: server.url('/end') },
    ]);
  });

  test('switched off, the redirect is the answer', async () => {
    await using server = await httpServer((_, response) =>
      response.writeHead(301, { location: '/x' }).end('moved'),
    );
    const outcome = await run({ url: server.url(), followRedirects: false });
    expect(outcome).toMatchObject({
      verdict: 'passed',
      statusCode: 301,
      detail: { response: { body: 'moved' } },
    });
  });

  test('a loop fails and names its links', async () => {
    await using server = await httpServer((request, response) => {
      response.writeHead(302, { location: request.url === '/a' ? '/b' : '/a' }).end();
    });
    const outcome = await run({ url: server.url('/a') });
    expect(outcome.failures[0]).toMatchObject({ code: 'TOO_MANY_REDIRECTS', network: false });
    expect(outcome.failures[0]?.message).toContain(
      `${server.url('/a')} → ${server.url('/b')} → ${server.url('/a')}`,
    );
  });

  test('ten are followed, the eleventh is not', async () => {
    const from = (start: number): Promise<Run> => run({ url: `${base}${start}` });
    await using server = await httpServer((request, response) => {
      const left = Number(request.url?.slice(1));
      if (left === 0) response.end();
      else response.writeHead(302, { location: `/${left - 1}` }).end();
    });
    const base = server.url('/');
    expect((await from(10)).verdict).toBe('passed');
    expect((await from(11)).failures[0]?.code).toBe('TOO_MANY_REDIRECTS');
  });

  test.each([
    [301, 'POST', 'GET ""'],
    [302, 'POST', 'GET ""'],
    [303, 'PUT', 'GET ""'],
    [302, 'PUT', 'PUT "b"'],
    [307, 'POST', 'POST "b"'],
    [308, 'PATCH', 'PATCH "b"'],
  ])('%i turns %s into %s', async (status, method, expected) => {
    await using server = await httpServer((request, response) => {
      if (request.url === '/') return void response.writeHead(status, { location: '/to' }).end();
      let body = '';
      request.on('data', (part: Buffer) => (body += part.toString()));
      request.on('end', () => response.end(`${request.method} "${body}"`));
    });
    const outcome = await run({ url: server.url(), method, body: 'b', bodyType: 'RAW' });
    expect(outcome.detail.response?.body).toBe(expected);
  });

  test('credentials do not follow to another origin', async () => {
    await using elsewhere = await httpServer((request, response) =>
      response.end(JSON.stringify(request.headers)),
    );
    await using server = await httpServer((_, response) =>
      response.writeHead(302, { location: elsewhere.url() }).end(),
    );
    const outcome = await run({
      url: server.url(),
      headers: [
        { key: 'Cookie', value: 'a' },
        { key: 'Host', value: 'mine.test' },
        { key: 'X-Kept', value: 'yes' },
      ],
      basicAuth: { username: 'a', password: 'b' },
    });
    const seen = JSON.parse(outcome.detail.response?.body ?? '{}') as Record<string, string>;
    expect(seen).toMatchObject({ 'x-kept': 'yes', host: `127.0.0.1:${elsewhere.port}` });
    expect(seen).not.toHaveProperty('authorization');
    expect(seen).not.toHaveProperty('cookie');
  });

  test.each([
    ['ftp://example.com/', 'neither http nor https'],
    ['http://', 'not a valid URL'],
    ['https://[::bad/', 'not a valid URL'],
  ])('a Location of %s fails', async (location, message) => {
    await using server = await wireServer(
      `HTTP/1.1 302 Found\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`,
    );
    const outcome = await run({ url: server.url() });
    expect(outcome.failures[0]).toMatchObject({
      code: 'INVALID_REDIRECT',
      message: expect.stringContaining(message),
    });
  });

  test('without a Location the 302 is the answer', async () => {
    await using server = await wireServer('HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n');
    expect(await run({ url: server.url() })).toMatchObject({ verdict: 'passed', statusCode: 302 });
  });

  test('UTF-8 in a Location is understood', async () => {
    await using server = await rawServer((socket) => {
      socket.once('data', (data) => {
        const isFirst = data.toString().startsWith('GET / ');
        socket.end(isFirst ? 'HTTP/1.1 302 Found\r\nLocation: /grüße\r\n\r\n' : 'HTTP/1.1 200 OK\r\n\r\n');
      });
    });
    expect((await run({ url: server.url() })).detail.response?.href).toBe(server.url('/gr%C3%BC%C3%9Fe'));
  });
});

describe('a proxy', () => {
  test('gets the whole address of an http target, and no name is resolved here', async () => {
    await using proxy = await httpServer((request, response) => {
      response.end(`${request.url} ${request.headers.host} ${request.headers['proxy-authorization']}`);
    });
    const proxyUrl = proxy.url().replace('//', '//me:secret@');
    const outcome = await run({ url: 'http://target.test/x?y' }, {}, { proxyUrl });
    const authorization = `Basic ${Buffer.from('me:secret').toString('base64')}`;
    expect(outcome.detail.response?.body).toBe(`http://target.test/x?y target.test ${authorization}`);
    expect(outcome.resolvedAddress).toBeNull();
    expect(JSON.stringify(outcome.detail.request)).not.toContain('secret');
  });

  test.each([
    ['HTTP/1.1 407 Proxy Authentication Required\r\n\r\n', 'https://target.test/', 'PROXY_AUTHENTICATION'],
    ['HTTP/1.1 407 Proxy Authentication Required\r\n\r\n', 'http://target.test/', 'PROXY_AUTHENTICATION'],
    ['HTTP/1.1 403 Forbidden\r\n\r\n', 'https://target.test/', 'PROXY_REFUSED'],
    ['', 'https://target.test/', 'PROXY_UNREACHABLE'],
  ])('that answers %j to %s is the agent’s fault', async (answer, url, code) => {
    await using proxy = await wireServer(answer);
    const proxyUrl = proxy.url().replace('//', '//me:secret@');
    const fault: unknown = await run({ url }, {}, { proxyUrl }).catch((error: unknown) => error);
    expect(fault).toBeInstanceOf(AgentFault);
    expect(fault).toMatchObject({ code, message: expect.stringContaining(`http://127.0.0.1:${proxy.port}`) });
    expect((fault as Error).message).not.toContain('secret');
  });

  test('that nobody listens at is the agent’s fault', async () => {
    const proxyUrl = `http://127.0.0.1:${await closedPort()}`;
    await expect(run({ url: 'http://target.test/' }, {}, { proxyUrl })).rejects.toMatchObject({
      code: 'PROXY_UNREACHABLE',
    });
  });

  test('that does not get through to the target in time reports a failure of the target', async () => {
    await using proxy = await rawServer(() => undefined);
    const outcome = await run(
      { url: 'https://target.test/' },
      {},
      { proxyUrl: proxy.url(), signal: timeLimit(100) },
    );
    expect(outcome.failures[0]).toMatchObject({
      code: 'TIMEOUT',
      message: `no connection to target.test through http://127.0.0.1:${proxy.port} within 100 ms`,
    });
  });

  test('that cannot reach the target reports a failure of the target', async () => {
    await using proxy = await wireServer('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    const outcome = await run({ url: 'https://target.test/' }, {}, { proxyUrl: proxy.url() });
    expect(outcome.failures[0]).toMatchObject({ code: 'PROXY_CONNECT_FAILED', network: true });
  });

  test('is not asked for what NO_PROXY names, hop by hop', async () => {
    await using target = await httpServer((request, response) => response.end(`direct ${request.url}`));
    await using proxy = await httpServer((_request, response) => {
      response.writeHead(302, { location: `${target.url()}here` }).end();
    });
    const context = { proxyUrl: proxy.url(), noProxy: '127.0.0.0/8' };
    const outcome = await run({ url: 'http://target.test/', followRedirects: true }, {}, context);
    expect(outcome.detail.response?.body).toBe('direct /here');
    expect(outcome.resolvedAddress).toBe('127.0.0.1');
  });

  test('with a broken address is the agent’s fault', async () => {
    await expect(run({ url: 'http://x.test/' }, {}, { proxyUrl: 'socks5://x' })).rejects.toMatchObject({
      code: 'PROXY_INVALID',
    });
  });
});
