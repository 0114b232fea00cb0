import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { createHash, randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { OpenGate } from '../../../src/agent/egress/index.ts';
import { until } from '../../support/fake-service.ts';
import { listenOn } from '../../support/targets/ports.ts';
import { startEgress, type Policy } from './bench.ts';

/** A gate by hand: what a process could send there that has thrown our own code away. */

const echo = createServer({ allowHalfOpen: true }, (socket) => {
  socket.on('error', () => socket.destroy());
  socket.pipe(socket);
});
const resetting = createServer((socket) => {
  socket.on('error', () => socket.destroy());
  socket.once('data', () => socket.resetAndDestroy());
});
let echoPort: number;
let resettingPort: number;
beforeAll(async () => {
  echoPort = await listenOn(echo);
  resettingPort = await listenOn(resetting);
});
afterAll(() => {
  echo.close();
  resetting.close();
});

async function openGate(policy: Policy = {}) {
  const egress = startEgress(policy);
  return { egress, gate: await egress.open() };
}

async function dialIn({ port }: OpenGate): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => socket.once('close', () => resolve()));

/** Everything until the other side ends or resets it. */
async function heard(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.once('end', () => socket.destroy());
  if (!socket.destroyed) await closed(socket);
  return Buffer.concat(chunks);
}

type Told = Record<string, unknown>;

/** Asks on a connection of its own; waits for the answer. */
async function ask(gate: OpenGate, ...questions: object[]): Promise<Told[]> {
  const socket = await dialIn(gate);
  let text = '';
  socket.setEncoding('utf8').on('data', (more: string) => (text += more));
  socket.write(questions.map((question) => `${JSON.stringify(question)}\n`).join(''));
  const lines = (): string[] => text.split('\n').slice(0, -1);
  await until('answers', () => lines().length >= questions.length || socket.destroyed);
  socket.destroy();
  return lines().map((line) => JSON.parse(line) as Told);
}

/** A silent connection and what is answered about it. */
async function dial(gate: OpenGate, address: string, port: number, host: string | null = null) {
  const socket = await dialIn(gate);
  const [told] = await ask(gate, { n: 1, dial: socket.localPort, host, address, port });
  return { socket, told };
}

const socksRequest = (host: string | Buffer, port: number): Buffer => {
  const name = Buffer.from(host);
  const end = Buffer.from([port >> 8, port & 0xff]);
  return Buffer.concat([Buffer.from([5, 1, 0, 5, 1, 0, 3, name.length]), name, end]);
};

describe('a way', () => {
  test('carries both directions whole, however much it is', async () => {
    const { gate } = await openGate();
    const { socket, told } = await dial(gate, '127.0.0.1', echoPort);
    expect(told).toEqual({ n: 1, connected: true });
    const sent = randomBytes(32 * 1024 * 1024);
    const back = buffer(socket);
    // An end passes as an end: the echo comes after it.
    socket.end(sent);
    const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
    expect(digest(await back)).toBe(digest(sent));
  });

  test('passes a reset as a reset', async () => {
    const { gate } = await openGate();
    const { socket } = await dial(gate, '127.0.0.1', resettingPort);
    const reset = new Promise((resolve) => socket.once('error', resolve));
    socket.resume().write('anything');
    expect(await reset).toMatchObject({ code: 'ECONNRESET' });
  });

  test('ends with its gate', async () => {
    const { gate } = await openGate();
    const { socket } = await dial(gate, '127.0.0.1', echoPort);
    gate.close();
    expect((await heard(socket)).length).toBe(0);
    const late = connect(gate.port, '127.0.0.1');
    expect(await new Promise((resolve) => late.once('error', resolve))).toMatchObject({
      code: 'ECONNREFUSED',
    });
  });

  test('is there again, at the same port, after the process has ended', async () => {
    const { egress, gate } = await openGate();
    const { port } = gate;
    const { socket } = await dial(gate, '127.0.0.1', echoPort);
    const pid = egress.pid!;
    process.kill(pid, 'SIGKILL');
    await heard(socket);
    await until('a new process', () => egress.pid !== pid);
    await until('the port again', async () => {
      const again = connect(port, '127.0.0.1');
      const isOpen = await new Promise((resolve) =>
        again.once('connect', () => resolve(true)).once('error', () => resolve(false)),
      );
      again.destroy();
      return isOpen === true;
    });
    expect(gate).toMatchObject({ port, wasInterrupted: true });
    expect((await dial(gate, '127.0.0.1', echoPort)).told).toMatchObject({ connected: true });
  });
});

describe('what belongs to the agent', () => {
  test.each(['127.0.0.1', '127.9.9.9', '0.0.0.0', '::ffff:127.0.0.1', '::', '::1'])('%s', async (address) => {
    const { egress, gate } = await openGate({ allowed: '*' });
    const health = createHttpServer((_request, response) => response.end('health'));
    const port = await listenOn(health);
    onTestFinished(() => void health.close());
    egress.protect([port]);
    const { told } = await dial(gate, address, port);
    expect(told).toEqual({
      n: 1,
      blocked: `${address} port ${port} belongs to this agent itself, so no check may reach it`,
      code: 'ERR_TARGET_BLOCKED',
    });
    expect((await dial(gate, address, gate.port)).told).toMatchObject({ blocked: expect.any(String) });
    const other = await egress.open();
    expect((await dial(gate, address, other.port)).told).toMatchObject({ blocked: expect.any(String) });
    expect(gate.refusals[0]).toMatchObject({ by: 'script' });
  });

  test('by a name, from a browser', async () => {
    const { gate } = await openGate();
    const socket = await dialIn(gate);
    socket.write(socksRequest('localhost', gate.port));
    expect((await heard(socket)).subarray(0, 4)).toEqual(Buffer.from([5, 0, 5, 2]));
    expect(gate.refusals[0]).toEqual({
      code: 'TARGET_BLOCKED',
      by: 'browser',
      sentence: expect.stringContaining('belongs to this agent'),
    });
  });
});

describe('a name that is not true', () => {
  test('counts for nothing', async () => {
    const { gate } = await openGate({ allowed: 'localhost' });
    expect((await dial(gate, '127.0.0.1', echoPort, 'localhost')).told).toMatchObject({
      blocked: expect.any(String),
    });
    // Each line of questions is a connection of its own here; names belong to the gate.
    await ask(gate, { n: 1, resolve: 'localhost', family: 4 });
    expect((await dial(gate, '127.0.0.1', echoPort, 'localhost')).told).toMatchObject({ connected: true });
    expect((await dial(gate, '127.0.0.2', echoPort, 'localhost')).told).toMatchObject({
      blocked: `127.0.0.2 port ${echoPort} is not in ALLOWED_TARGETS of this agent`,
    });
  });
});

describe('a program that knows proxies for HTTP only', () => {
  const asked = async (request: string): Promise<string> => {
    const { gate } = await openGate();
    const socket = await dialIn(gate);
    socket.write(request);
    const [first] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    return first.toString('latin1');
  };

  test('gets a tunnel', async () => {
    const { gate } = await openGate();
    const socket = await dialIn(gate);
    socket.write(`CONNECT 127.0.0.1:${echoPort} HTTP/1.1\r\nhost: x\r\n\r\n`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toBe('HTTP/1.1 200 Connection established\r\n\r\n');
    socket.write('hello');
    expect(String(((await once(socket, 'data')) as [Buffer])[0])).toBe('hello');
    socket.destroy();
  });

  test('has its request handed on as the target wants it', async () => {
    const head = `GET http://127.0.0.1:${echoPort}/a?b HTTP/1.1\r\nhost: x\r\nproxy-authorization: y\r\n\r\n`;
    expect(await asked(head)).toBe('GET /a?b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
  });

  test.each([
    'GET / HTTP/1.1\r\n\r\n',
    'CONNECT  HTTP/1.1\r\n\r\n',
    'GET https://a.example/ HTTP/1.1\r\n\r\n',
  ])('is told that %j is none for a proxy', async (request) =>
    expect(await asked(request)).toMatch(/^HTTP\/1\.1 400 /),
  );
});

describe('what is not understood ends its connection and no other', () => {
  const oneLine = (value: unknown): string => `${JSON.stringify(value)}\n`;
  test.each([
    ['TLS', Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0])],
    ['SOCKS4', Buffer.from([4, 1, 0, 80, 127, 0, 0, 1, 0])],
    ['a line that never ends', `{"n":1,"resolve":"${'x'.repeat(1 << 20)}`],
    ['no JSON', '{"n":1,\n'],
    ['a question with more in it', oneLine({ n: 1, resolve: 'a.example', family: 4, also: true })],
    ['an address that is a name', oneLine({ n: 1, dial: 5, host: null, address: 'localhost', port: 80 })],
    ['a port that is none', oneLine({ n: 1, dial: 70_000, host: null, address: '127.0.0.1', port: 80 })],
    ['SOCKS without a method that is known', Buffer.from([5, 1, 2])],
    ['SOCKS to be connected to', Buffer.from([5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80])],
    ['SOCKS for datagrams', Buffer.from([5, 1, 0, 5, 3, 0, 1, 127, 0, 0, 1, 0, 80])],
    ['a name with an end of string in it', socksRequest('localhost\0.example', 80)],
    ['a name with a line end in it', socksRequest('localhost\r\nx', 80)],
    ['an empty name', socksRequest('', 80)],
    ['more than it may say yet', Buffer.concat([socksRequest('localhost', 80), Buffer.from('GET /')])],
  ])('%s', async (_what, bytes) => {
    const { gate } = await openGate();
    const { socket: other } = await dial(gate, '127.0.0.1', echoPort);
    const socket = await dialIn(gate);
    socket.write(bytes);
    const answer = await heard(socket);
    expect(answer.length).toBeLessThan(16);
    expect(answer.includes(Buffer.from([5, 0, 0]))).toBe(false);
    other.end('still here');
    expect((await buffer(other)).toString()).toBe('still here');
  });

  test('bytes before the way is open', async () => {
    const { gate } = await openGate();
    const socket = await dialIn(gate);
    socket.write('early');
    expect((await heard(socket)).length).toBe(0);
  });
});

test('a connection that never says what it is goes after ten seconds, and nobody leads it but its owner', async () => {
  const { egress, gate } = await openGate();
  const other = await egress.open();
  const silent = await dialIn(gate);
  const slow = await dialIn(gate);
  slow.write(Buffer.from([5]));
  const startedMs = performance.now();
  const question = { n: 1, dial: silent.localPort, host: null, address: '127.0.0.1', port: echoPort };
  const [[told]] = await Promise.all([ask(other, question), heard(silent), heard(slow)]);
  expect(told).toMatchObject({ errno: expect.any(Number) });
  const tookMs = performance.now() - startedMs;
  expect(tookMs).toBeGreaterThan(9_000);
  expect(tookMs).toBeLessThan(20_000);
});

test('a thousand questions at once are all answered, and a flood of connections harms no other gate', async () => {
  const { egress, gate } = await openGate();
  const questions = Array.from({ length: 1000 }, (_, n) => ({ n, resolve: 'localhost', family: 4 }));
  expect(await ask(gate, ...questions)).toHaveLength(1000);
  const flood = Array.from({ length: 1500 }, () => connect(gate.port, '127.0.0.1').on('error', () => {}));
  onTestFinished(() => flood.forEach((socket) => socket.destroy()));
  const other = await egress.open();
  expect((await dial(other, '127.0.0.1', echoPort)).told).toMatchObject({ connected: true });
});
