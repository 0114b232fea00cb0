import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { startDnsServer, type TestDnsServer } from '../../test/support/dns-server.ts';
import { execute, createEnvironment } from './execute.ts';

/** Every type of check asks the policy, with the address that it connects to. */
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const CLOUD = '169.254.169.254';
const OPEN = { blocked: '', allowed: '' };

async function nameServer(addresses: string[] = [CLOUD]): Promise<TestDnsServer> {
  const server = await startDnsServer(({ name, type }) => ({
    type: 'response',
    answers: type === 'A' ? addresses.map((data) => ({ name, type: 'A' as const, ttl: 0, data })) : [],
  }));
  closers.push(() => server.close());
  return server;
}

async function run(
  checkType: string,
  request: object,
  more: { policy?: typeof OPEN; servers?: string[]; proxyUrl?: string } = {},
) {
  const { policy = OPEN, servers = [(await nameServer()).text], proxyUrl = null } = more;
  const environment = createEnvironment({ useOsResolver: false, servers, hostsFile: '/dev/null', policy });
  return execute(
    { checkType, spec: { request }, timeoutMs: 5000, proxyUrl },
    environment,
    new AbortController().signal,
  );
}

async function webServer(location?: string): Promise<{ port: number; asked: () => number }> {
  let count = 0;
  const server = createServer((_request, response) => {
    count++;
    response
      .writeHead(location === undefined ? 200 : 302, location === undefined ? {} : { location })
      .end('ok');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, asked: () => count };
}

const url = (address: string) => ({ url: address, assertions: [] });
const blocked = (sentence: RegExp) => ({
  flags: { hasErrors: true, hasFailures: false },
  errors: [{ code: 'TARGET_BLOCKED', message: expect.stringMatching(sentence) as unknown }],
});

test.each([
  ['URL', url('http://evil.test/'), /^evil\.test \(169\.254\.169\.254\) port 80 is where a cloud/],
  ['URL', url('https://evil.test/'), /^evil\.test \(169\.254\.169\.254\) port 443/],
  ['URL', url('http://0251.0376.0251.0376/latest'), /^169\.254\.169\.254 port 80/],
  ['URL', url('http://2852039166/'), /^169\.254\.169\.254 port 80/],
  ['URL', url('http://[::ffff:a9fe:a9fe]/'), /^::ffff:a9fe:a9fe port 80/],
  ['API', { ...url('http://evil.test:8080/'), method: 'GET' }, /port 8080 is where/],
  ['TCP', { hostname: 'evil.test', port: 80 }, /^evil\.test \(169\.254\.169\.254\) port 80/],
  ['ICMP', { hostname: 'evil.test' }, /^evil\.test \(169\.254\.169\.254\) is where/],
  [
    'DNS',
    { recordType: 'A', query: 'a.test', nameServer: 'evil.test' },
    /^evil\.test \(169\.254\.169\.254\) port 53/,
  ],
  [
    'DNS',
    { recordType: 'A', query: 'a.test', nameServer: CLOUD, protocol: 'TCP', port: 5353 },
    /^169\.254\.169\.254 port 5353/,
  ],
] as const)('%s %o: the fault of the agent, in a sentence', async (checkType, request, sentence) => {
  expect(await run(checkType, request)).toMatchObject(blocked(sentence));
});

test('a redirect leads nowhere else', async () => {
  const { port, asked } = await webServer('http://evil.test/latest/meta-data/');
  const report = await run('URL', url(`http://127.0.0.1:${port}/`));
  expect(report).toMatchObject(blocked(/^evil\.test \(169\.254\.169\.254\) port 80/));
  expect(asked()).toBe(1);
});

test('of the addresses of a name only those that are open are tried', async () => {
  const { port, asked } = await webServer();
  const { text } = await nameServer([CLOUD, '127.0.0.1']);
  const report = await run('URL', url(`http://both.test:${port}/`), { servers: [text] });
  expect(report).toMatchObject({ flags: { hasFailures: false, hasErrors: false } });
  expect(report.measured.resolvedAddress).toBe('127.0.0.1');
  expect(asked()).toBe(1);
});

test('the settings of the owner', async () => {
  const { port } = await webServer();
  const closed = { blocked: `127.0.0.0/8:${port}`, allowed: '' };
  expect(await run('TCP', { hostname: 'localhost', port }, { policy: closed })).toMatchObject(
    blocked(/is blocked by 127\.0\.0\.0\/8:\d+ in BLOCKED_TARGETS of this agent$/),
  );
  const some = { blocked: '', allowed: '*.example' };
  expect(await run('TCP', { hostname: 'localhost', port }, { policy: some })).toMatchObject(
    blocked(/^localhost \(127\.0\.0\.1\) port \d+ is not in ALLOWED_TARGETS of this agent$/),
  );
});

test("the agent's own name servers are no target", async () => {
  const policy = { blocked: '127.0.0.0/8', allowed: '' };
  const report = await run('DNS', { recordType: 'A', query: 'a.test' }, { policy });
  expect(report).toMatchObject({ flags: { hasErrors: false, hasFailures: false } });
});

test('behind a proxy: what is plain from here is not asked of it; the proxy itself is no target', async () => {
  const { port, asked } = await webServer();
  const proxyUrl = `http://127.0.0.1:${port}`;
  const policy = { blocked: '127.0.0.0/8', allowed: '' };
  for (const host of ['evil.test', CLOUD, 'metadata.google.internal']) {
    expect(await run('URL', url(`http://${host}/`), { policy, proxyUrl })).toMatchObject(
      blocked(/where a cloud/),
    );
  }
  expect(asked()).toBe(0);
  const { text } = await nameServer(['203.0.113.9']);
  const report = await run('URL', url('http://shop.test/'), { policy, proxyUrl, servers: [text] });
  expect(report).toMatchObject({ flags: { hasErrors: false, hasFailures: false } });
  expect(asked()).toBe(1);
  // A name that only the proxy can resolve.
  const nobody = await run('URL', url('http://inside.test/'), { policy, proxyUrl, servers: ['127.0.0.1:1'] });
  expect(nobody).toMatchObject({ flags: { hasErrors: false, hasFailures: false } });
  expect(asked()).toBe(2);
});
