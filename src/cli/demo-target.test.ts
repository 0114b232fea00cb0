import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import { decode, encode } from 'dns-packet';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DEMO_HOST, DEMO_NAME, startDemoTarget, type DemoTarget } from './demo-target.ts';

let demo: DemoTarget;
beforeAll(async () => {
  demo = await startDemoTarget(undefined);
});
afterAll(() => demo.close());

test.each([
  ['/', 200],
  ['/api/status', 200],
  ['/outage', 503],
  ['/elsewhere', 404],
])('%s answers %i', async (path, status) => {
  const response = await fetch(`http://${DEMO_HOST}:${demo.ports.http}${path}`);
  expect(response.status).toBe(status);
  await response.text();
});

test('the echo port sends back what it gets', async () => {
  const socket = connect(demo.ports.tcp, DEMO_HOST);
  socket.write('hello');
  const [data] = (await once(socket, 'data')) as [Buffer];
  expect(String(data)).toBe('hello');
  socket.destroy();
});

async function ask(packet: Buffer): Promise<Buffer> {
  const socket = createSocket('udp4');
  socket.send(packet, demo.ports.dns, DEMO_HOST);
  const [reply] = (await once(socket, 'message')) as [Buffer];
  socket.close();
  return reply;
}

const question = (name: string): Buffer => encode({ type: 'query', id: 7, questions: [{ type: 'A', name }] });

test('the name server knows one name', async () => {
  const known = decode(await ask(question(DEMO_NAME.toUpperCase())));
  expect(known.answers).toMatchObject([{ type: 'A', data: DEMO_HOST }]);
  expect(known).toMatchObject({ id: 7, rcode: 'NOERROR' });
  expect(decode(await ask(question('other.test')))).toMatchObject({ rcode: 'NXDOMAIN', answers: [] });
});

test('the name server survives what is not a query', async () => {
  const socket = createSocket('udp4');
  socket.send(Buffer.from('GET / HTTP/1.1'), demo.ports.dns, DEMO_HOST);
  socket.send(encode({ type: 'response', id: 1 }), demo.ports.dns, DEMO_HOST);
  expect(decode(await ask(question(DEMO_NAME))).answers).toHaveLength(1);
  socket.close();
});

test('ports are taken again where they are free', async () => {
  const first = await startDemoTarget(undefined);
  await first.close();
  const second = await startDemoTarget(first.ports);
  expect(second.ports).toEqual(first.ports);
  const third = await startDemoTarget(first.ports);
  expect(third.ports.http).not.toBe(first.ports.http);
  await Promise.all([second.close(), third.close()]);
});
