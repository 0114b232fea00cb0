import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { inNamespace, noNamespaces } from '../../../test/support/network-namespace.ts';
import type { RunContext } from '../check-type.ts';
import { Limiter } from '../limiter.ts';
import { OPEN_POLICY } from '../target-policy/index.ts';
import { createResolver } from '../resolver/index.ts';
import { connectInTurn, readAnswer } from './connection.ts';
import { tcp } from './index.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

async function listen(serve: (socket: Socket) => void, address = '127.0.0.1'): Promise<number> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    serve(socket);
  });
  server.listen(0, address);
  await once(server, 'listening');
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

const context = (more: Partial<RunContext> = {}): RunContext => ({
  signal: new AbortController().signal,
  proxyUrl: null,
  resolver: createResolver({ servers: ['127.0.0.1:1'], useOsResolver: false, hostsFile: '/dev/null' }),
  handshakes: new Limiter(1),
  targets: OPEN_POLICY,
  scripts: null,
  ...more,
});

/** Whatever the name, these addresses. */
const resolvingTo = (...addresses: string[]): RunContext =>
  context({
    resolver: {
      resolve: async () => ({
        addresses: addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
        source: 'test',
        durationMs: 0,
      }),
      servers: () => [],
    },
  });

const check = (port: number, request: object = {}, more: object = {}) => ({
  request: { hostname: '127.0.0.1', port, ...request },
  ...more,
});
const assertion = (source: string, comparison: string, target: unknown) => ({ source, comparison, target });
const responseOf = (detail: Record<string, unknown>) => detail['response'] as Record<string, unknown>;

test('a port that accepts is a pass; the response time is the connection', async () => {
  const port = await listen(() => {});
  const outcome = await tcp.run(check(port), context());
  expect(outcome).toMatchObject({ verdict: 'passed', failures: [], resolvedAddress: '127.0.0.1' });
  expect(outcome.responseTimeMs).toBe(outcome.phases['connection']);
  expect(Object.keys(outcome.phases)).toEqual(['dns', 'connection', 'total']);
  expect(outcome.detail).toMatchObject({
    requestError: null,
    response: { error: null, connectedTo: '127.0.0.1' },
  });
});

test('IPv6 works by literal, in brackets and by name', async () => {
  const port = await listen(() => {}, '::1');
  for (const hostname of ['::1', '[::1]', 'localhost']) {
    const outcome = await tcp.run(check(port, { hostname, ipFamily: 'IPv6' }), context());
    expect(outcome).toMatchObject({ verdict: 'passed', resolvedAddress: '::1' });
  }
});

test('data are sent as they stand and the answer is kept', async () => {
  const port = await listen((socket) => socket.on('data', (bytes) => socket.end(`got ${String(bytes)}`)));
  const assertions = [assertion('RESPONSE_DATA', 'EQUALS', 'got a\\r\\nb')];
  const outcome = await tcp.run(check(port, { data: 'a\\r\\nb', assertions }), context());
  expect(outcome).toMatchObject({
    verdict: 'passed',
    detail: { response: { data: 'got a\\r\\nb', truncated: false } },
  });
  expect(outcome.phases['data']).toBeGreaterThanOrEqual(0);
});

test('variables are filled into host, data and targets, as they are', async () => {
  const port = await listen((socket) => socket.on('data', (bytes) => socket.end(bytes)));
  const assertions = [assertion('RESPONSE_DATA', 'EQUALS', '{{WORD}}!')];
  const environmentVariables = [
    { key: 'HOST', value: '127.0.0.1' },
    { key: 'WORD', value: 'a b' },
  ];
  const request = { hostname: '{{HOST}}', data: '{{WORD}}!', assertions };
  expect(await tcp.run(check(port, request, { environmentVariables }), context())).toMatchObject({
    verdict: 'passed',
  });
});

test('a banner is read when it is asserted, even if the server then waits for ever', async () => {
  const port = await listen((socket) => {
    socket.write('220 mail.');
    setTimeout(() => socket.write('example ESMTP\r\n'), 50);
  });
  const assertions = [assertion('RESPONSE_DATA', 'CONTAINS', 'mail.example ESMTP')];
  expect(await tcp.run(check(port, { assertions }), context())).toMatchObject({ verdict: 'passed' });
});

test('an answer long after the greeting is waited for while an assertion is not met', async () => {
  const port = await listen((socket) => {
    socket.write('220 hello\r\n');
    socket.once('data', () => void setTimeout(() => socket.write('250 ok\r\n'), 700));
  });
  const assertions = [assertion('RESPONSE_DATA', 'CONTAINS', '250')];
  const outcome = await tcp.run(check(port, { data: 'EHLO me\r\n', assertions }), context());
  expect(outcome).toMatchObject({
    verdict: 'passed',
    detail: { response: { data: '220 hello\r\n250 ok\r\n' } },
  });
});

test('a failed assertion fails the check and is shown with its value', async () => {
  const port = await listen((socket) => socket.end('-ERR'));
  const assertions = [
    assertion('RESPONSE_DATA', 'CONTAINS', '+OK'),
    assertion('RESPONSE_TIME', 'LESS_THAN', 5000),
  ];
  const outcome = await tcp.run(check(port, { assertions }), context());
  expect(outcome.verdict).toBe('failed');
  expect(outcome.failures).toMatchObject([{ code: 'ASSERTION', network: false }]);
  expect(outcome.detail['assertions']).toMatchObject([{ actual: '-ERR', passed: false }, { passed: true }]);
});

test('a refused connection is named with its address and system error', async () => {
  const port = await closedPort();
  const outcome = await tcp.run(check(port), context());
  expect(outcome).toMatchObject({
    verdict: 'failed',
    responseTimeMs: null,
    failures: [
      { code: 'ECONNREFUSED', message: `127.0.0.1 port ${port}: connection refused`, network: true },
    ],
  });
  expect(responseOf(outcome.detail)['error']).toMatchObject({
    code: 'ECONNREFUSED',
    errno: -111,
    syscall: 'connect',
    address: '127.0.0.1',
    port,
  });
});

test('the next address is tried when one refuses', async () => {
  const port = await listen(() => {}, '127.0.0.2');
  const outcome = await tcp.run(
    check(port, { hostname: 'two.example' }),
    resolvingTo('127.0.0.1', '127.0.0.2'),
  );
  expect(outcome).toMatchObject({ verdict: 'passed', resolvedAddress: '127.0.0.2' });
});

test.each([
  ['256.1.1.1', 'ERR_INVALID_IP_ADDRESS'],
  ['a..b', 'ENOTFOUND'],
])('the host %s fails with %s', async (hostname, code) => {
  const outcome = await tcp.run(check(80, { hostname }), context());
  expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code, network: true }] });
  expect(responseOf(outcome.detail)['error']).toMatchObject({ code, hostname, syscall: 'queryA' });
});

test('an unreachable resolver is the fault of the agent, with what is known so far', async () => {
  const failing = tcp.run(check(80, { hostname: 'a.example' }), context());
  await expect(failing).rejects.toMatchObject({
    name: 'AgentFault',
    code: 'RESOLVER_UNREACHABLE',
    detail: { request: { hostname: 'a.example' }, requestError: expect.stringContaining('127.0.0.1:1') },
  });
});

const skipped = noNamespaces === '' ? '' : ` (skipped: needs ${noNamespaces})`;
const moduleOf = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);

test.skipIf(noNamespaces !== '')(`a missing route is the fault of the agent${skipped}`, async () => {
  const found = await inNamespace(
    '',
    `const { tcp } = await import(${moduleOf('./index.ts')});
     const { createResolver } = await import(${moduleOf('../resolver/index.ts')});
     const { OPEN_POLICY: targets } = await import(${moduleOf('../target-policy/index.ts')});
     const resolver = createResolver({ useOsResolver: false });
     const context = { signal: new AbortController().signal, resolver, targets };
     const spec = { request: { hostname: '192.0.2.1', port: 80 } };
     console.log(JSON.stringify(await tcp.run(spec, context).catch(({ name, code }) => [name, code])));`,
  );
  expect(found).toEqual(['AgentFault', 'NETWORK_UNREACHABLE']);
});

test.skipIf(noNamespaces !== '')(`a black hole is given up in time${skipped}`, async () => {
  const found = await inNamespace(
    // A cable whose other end nobody listens at.
    `ip link add d0 type veth peer name d1 && ip link set d1 up && ip link set d0 up &&
     ip addr add 192.0.2.1/24 dev d0 && ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev d0`,
    `const { connectInTurn } = await import(${moduleOf('./connection.ts')});
     const targets = [{ address: '192.0.2.9', port: 80 }];
     const { attempts } = await connectInTurn(targets, new AbortController().signal, 200);
     console.log(JSON.stringify(attempts));`,
  );
  expect(found).toMatchObject([{ error: { code: 'SOCKET_TIMEOUT', address: '192.0.2.9', port: 80 } }]);
});

test('shouldFail turns a refusal into a pass and a connection into a failure', async () => {
  const closed = await tcp.run(check(await closedPort(), {}, { shouldFail: true }), context());
  expect(closed).toMatchObject({ verdict: 'passed', failures: [], responseTimeMs: null });
  const open = await tcp.run(check(await listen(() => {}), {}, { shouldFail: true }), context());
  expect(open).toMatchObject({ verdict: 'failed', failures: [{ code: 'SHOULD_FAIL', network: false }] });
});

test('the thresholds apply to the connection', async () => {
  const port = await listen(() => {});
  const over = await tcp.run(check(port, {}, { maxResponseTime: 0 }), context());
  expect(over).toMatchObject({
    verdict: 'failed',
    overMaxResponseTime: true,
    failures: [{ code: 'MAX_RESPONSE_TIME' }],
  });
  const slow = await tcp.run(check(port, {}, { degradedResponseTime: 0 }), context());
  expect(slow).toMatchObject({ verdict: 'degraded', overMaxResponseTime: false, failures: [] });
  const off = await tcp.run(
    check(port, {}, { degradedResponseTime: null, maxResponseTime: null }),
    context(),
  );
  expect(off.verdict).toBe('passed');
});

test('a reset before the first byte is a failure, one after it ends the data', async () => {
  const data = 'hello';
  const reset = await listen((socket) => socket.on('data', () => socket.resetAndDestroy()));
  const outcome = await tcp.run(check(reset, { data }), context());
  expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code: 'ECONNRESET', network: true }] });
  const late = await listen((socket) =>
    socket.on('data', () => socket.write('bye', () => setTimeout(() => socket.resetAndDestroy(), 20))),
  );
  expect(await tcp.run(check(late, { data }), context())).toMatchObject({
    verdict: 'passed',
    detail: { response: { data: 'bye' } },
  });
});

test('an endless answer is cut at 1 MB and says so; bytes that are no text do no harm', async () => {
  const port = await listen((socket) => {
    const more = (error?: Error | null): void => {
      if (!error) socket.write(Buffer.alloc(65_536, 0xff), more);
    };
    more();
  });
  const outcome = await tcp.run(check(port, { data: 'x' }), context());
  const { data, truncated } = responseOf(outcome.detail);
  expect(truncated).toBe(true);
  expect(Buffer.byteLength(String(data))).toBeLessThanOrEqual(65_536);
});

test('a peer that never speaks is given up after the time for the whole answer', async () => {
  const port = await listen(() => {});
  const result = await connectInTurn([{ address: '127.0.0.1', port }], context().signal);
  if (!('socket' in result)) throw new Error('not connected');
  const limits = { silenceMs: 10, wholeMs: 30, bytes: 10 };
  expect(await readAnswer(result.socket, context().signal, () => true, limits)).toMatchObject({
    truncated: false,
    error: null,
  });
  result.socket.destroy();
});

test('a cancelled run ends at once', async () => {
  const port = await listen(() => {});
  const cancel = new AbortController();
  const running = tcp.run(check(port, { data: 'x' }), context({ signal: cancel.signal }));
  setTimeout(() => cancel.abort(new Error('cancelled')), 50);
  await expect(running).rejects.toThrow('cancelled');
});
