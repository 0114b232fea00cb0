import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { CONNECT_PATH, MAX_FRAME_BYTES } from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';
import type { Store } from '../../src/service/ports.ts';
import { agents, openStore } from '../../src/service/store/index.ts';
import { silentLog } from '../support/databases.ts';
import { connectPoll, connectSocket, hello, openSocket, post, welcomed } from './client.ts';
import { changed, Place, startReplica, within, type Replica } from './harness.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'vedette-wire-'));
let store: Store;
/** Ordinary, and one whose bounds are within reach of a test. */
let replica: Replica;
let strict: Replica;

beforeAll(async () => {
  store = await openStore({ dataDir, log: silentLog });
  replica = await startReplica(store);
  strict = await startReplica(store, {
    limits: {
      helloMs: 300,
      pingEveryMs: 150,
      pollHoldMs: 200,
      pollSilenceMs: 600,
      unwelcomed: 3,
      sessionsPerLocation: 2,
    },
  });
});

afterAll(async () => {
  await Promise.all([replica.stop(), strict.stop()]);
  await store.close();
  rmSync(dataDir, { recursive: true });
});

/** Asks for an upgrade and takes the plain answer. */
async function upgrade(
  path: string,
  headers: Record<string, string>,
): Promise<{ status: number; body: unknown }> {
  const asked = request(replica.url + path, {
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      ...headers,
    },
  }).end();
  const [response] = await once(asked, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return { status: response.statusCode, body: JSON.parse(Buffer.concat(chunks).toString()) };
}

const closeOf = async (socket: WebSocket): Promise<{ code: number; reason: string }> => {
  socket.on('error', () => undefined);
  const [code, reason] = await once(socket, 'close');
  return { code, reason: String(reason) };
};

async function opened(url: string, key: string): Promise<WebSocket> {
  const socket = openSocket(url, key);
  await once(socket, 'open');
  return socket;
}

describe('without a living key', () => {
  const bad: [string, Record<string, string>][] = [
    ['no header', {}],
    ['another scheme', { authorization: 'Basic cGxfOg==' }],
    ['an unknown key', { authorization: `Bearer pl_${'0'.repeat(32)}` }],
    ['an API key', { authorization: `Bearer cu_${'0'.repeat(32)}` }],
    ['a key of 5,000 characters', { authorization: `Bearer pl_${'0'.repeat(5000)}` }],
  ];
  const refusal = { statusCode: 401, error: 'Unauthorized', message: expect.stringContaining('pl_') };

  test.each(bad)('an upgrade with %s is answered 401', async (_what, headers) => {
    expect(await upgrade(CONNECT_PATH, headers)).toEqual({ status: 401, body: refusal });
  });

  test.each(['/agent/v1/sessions', `/agent/v1/sessions/${newId()}/poll`, '/agent/v1/results'])(
    'POST %s is answered 401',
    async (path) => {
      const response = await post(replica.url + path, `pl_${'0'.repeat(32)}`, {});
      expect([response.status, await response.json()]).toEqual([401, refusal]);
    },
  );

  test('a revoked key is refused at once, although it was just used', async () => {
    const place = await Place.create(store);
    const { agent } = await welcomed(connectSocket, replica.url, place.key);
    await place.revoke();
    await within(1000, agent.closed, 'the close');
    const { status } = await upgrade(CONNECT_PATH, { authorization: `Bearer ${place.key}` });
    expect(status).toBe(401);
  });

  test('one of two keys is revoked without harm to the other', async () => {
    const place = await Place.create(store);
    await place.addKey(newId(), 'pl_second0000000000000000000000000');
    const first = await welcomed(connectSocket, replica.url, place.key);
    const second = await welcomed(connectSocket, replica.url, 'pl_second0000000000000000000000000');
    await place.revoke();
    await within(1000, first.agent.closed, 'the close');
    second.say('renew', { running: [], free: 1, clock: { t0: 1 } });
    await second.agent.next('lease');
    second.agent.vanish();
  });

  test('a held poll is answered with 4401 within a second of the revocation', async () => {
    const place = await Place.create(store);
    const { agent } = await welcomed(connectPoll, replica.url, place.key);
    await place.revoke();
    expect((await within(1000, agent.closed, 'the close')).code).toBe(4401);
  });
});

test('an upgrade elsewhere is answered 404', async () => {
  const place = await Place.create(store);
  const headers = { authorization: `Bearer ${place.key}` };
  expect(await upgrade('/chat', headers)).toMatchObject({ status: 404, body: { error: 'Not Found' } });
});

test('keys and locations show when they were used last', async () => {
  const place = await Place.create(store);
  const { agent } = await welcomed(connectSocket, replica.url, place.key);
  const key = store.db
    .selectFrom('private_location_key')
    .select('last_used_at')
    .where('id', '=', place.keyId);
  const location = store.db
    .selectFrom('private_location')
    .select('last_seen')
    .where('id', '=', place.locationId);
  await expect.poll(async () => (await key.executeTakeFirst())?.last_used_at).toBeInstanceOf(Date);
  expect((await location.executeTakeFirst())?.last_seen).toBeInstanceOf(Date);
  agent.vanish();
});

describe('a socket', () => {
  test('that says nothing is closed', async () => {
    const place = await Place.create(store);
    const socket = await opened(strict.url, place.key);
    expect(await within(2000, closeOf(socket), 'the close')).toEqual({
      code: 4400,
      reason: 'no hello within 300 ms',
    });
  });

  test('that begins with something else is told so and closed', async () => {
    const place = await Place.create(store);
    const agent = await connectSocket(replica.url, place.key, undefined);
    agent.say('ready', { free: 3 });
    expect((await agent.next('refused')).d.why).toBe('not_welcome');
    expect(await agent.closed).toEqual({ code: 4400, reason: 'hello comes first' });
  });

  test('that sends binary or broken frames is refused, then closed', async () => {
    const place = await Place.create(store);
    const socket = await opened(replica.url, place.key);
    const closed = closeOf(socket);
    for (let sent = 0; sent < 5; sent++) {
      socket.send(Buffer.from([0, 255, 254]));
      socket.send('{"v":1,');
    }
    expect(await within(2000, closed, 'the close')).toMatchObject({ code: 4400 });
  });

  test.each([
    ['a frame over 1 MiB', 1009, (socket: WebSocket) => socket.send('x'.repeat(MAX_FRAME_BYTES + 1))],
    [
      'text that is not UTF-8',
      1007,
      (socket: WebSocket) => socket.send(Buffer.from([0xc3, 0x28]), { binary: false }),
    ],
  ])('that sends %s is closed with %i', async (_what, code, send) => {
    const place = await Place.create(store);
    const { agent } = await welcomed(connectSocket, replica.url, place.key);
    const socket = await opened(replica.url, place.key);
    const closed = closeOf(socket);
    send(socket);
    expect(await within(2000, closed, 'the close')).toMatchObject({ code });
    agent.say('renew', { running: [], free: 1, clock: { t0: 1 } });
    await agent.next('lease');
    agent.vanish();
  });

  test('that breaks off within the handshake does no harm', async () => {
    const { port } = new URL(replica.url);
    for (let tries = 0; tries < 20; tries++) {
      const socket = connectTcp(Number(port), '127.0.0.1');
      await once(socket, 'connect');
      socket.write(
        `GET ${CONNECT_PATH} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n`,
      );
      socket.write(`authorization: Bearer pl_${'0'.repeat(32)}\r\n\r\n`);
      socket.resetAndDestroy();
    }
    expect((await post(`${replica.url}/agent/v1/sessions`, 'pl_x', {})).status).toBe(401);
  });

  test('whose peer answers no ping is cut', async () => {
    const place = await Place.create(store);
    const socket = new WebSocket(strict.url.replace('http', 'ws') + CONNECT_PATH, {
      headers: { authorization: `Bearer ${place.key}` },
      autoPong: false,
    });
    await once(socket, 'open');
    socket.send(JSON.stringify(hello()));
    await expect.poll(() => place.agentRows()).toMatchObject([{ epoch: 1 }]);
    expect(await within(2000, closeOf(socket), 'the cut')).toMatchObject({ code: 1006 });
    await expect.poll(() => place.agentRows()).toMatchObject([{ session_id: null }]);
  });

  test('beyond those that may wait for a welcome is closed with 4429', async () => {
    const place = await Place.create(store);
    const waiting = await Promise.all([1, 2, 3].map(async () => opened(strict.url, place.key)));
    const fourth = await opened(strict.url, place.key);
    expect(await within(1000, closeOf(fourth), 'the close')).toMatchObject({ code: 4429 });
    await Promise.all(waiting.map(closeOf));
    const { agent } = await welcomed(connectSocket, strict.url, place.key);
    agent.vanish();
  });

  test('beyond those that a location may have is closed with 4429', async () => {
    const place = await Place.create(store);
    const both = await Promise.all([1, 2].map(async () => welcomed(connectSocket, strict.url, place.key)));
    const third = await connectSocket(strict.url, place.key, hello());
    expect(await within(1000, third.closed, 'the close')).toMatchObject({ code: 4429 });
    for (const { agent } of both) agent.vanish();
  });

  test('may say 5,000 things at once; each is answered in its order', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connectSocket, replica.url, place.key);
    const ids = Array.from({ length: 5000 }, () => say('release', { runs: [], reason: 'shutdown' }));
    await expect.poll(() => agent.heard.length, { timeout: 15_000 }).toBe(5001);
    expect(agent.heard.slice(1).map(({ re }) => re)).toEqual(ids);
    agent.vanish();
  });

  test('may say hello again: the session before it has ended', async () => {
    const place = await Place.create(store);
    const agentId = randomUUID();
    const { agent, epoch } = await welcomed(connectSocket, replica.url, place.key, { agentId });
    agent.sayRaw(hello({ agentId }));
    expect((await agent.next('welcome')).d.epoch).toBe(epoch + 1);
    agent.say('ready', { free: 1 }, { ep: epoch });
    expect((await agent.next('refused')).d.why).toBe('stale_epoch');
    expect(await place.agentRows()).toHaveLength(1);
    agent.vanish();
  });
});

describe('a long poll', () => {
  const pollPath = (sid: string): string => `/agent/v1/sessions/${sid}/poll`;

  async function open(url: string, key: string): Promise<string> {
    const response = await post(`${url}/agent/v1/sessions`, key, { messages: [hello()] });
    const reply = (await response.json()) as { messages: { d: { sid: string } }[] };
    return reply.messages[0]!.d.sid;
  }

  test('of an unknown session, or of another location, is answered 404', async () => {
    const [place, other] = [await Place.create(store), await Place.create(store)];
    const sid = await open(replica.url, place.key);
    for (const [each, key] of [
      [newId(), place.key],
      ['x', place.key],
      [sid, other.key],
    ] as const) {
      const response = await post(replica.url + pollPath(each), key, { messages: [], wait: false });
      expect(response.status).toBe(404);
    }
  });

  test.each([
    ['no list', { wait: true }, 'messages'],
    ['no wait', { messages: [] }, 'wait'],
    ['a list', [], 'body'],
  ])('with %s as its body is answered 400 that names the field', async (_what, body, field) => {
    const place = await Place.create(store);
    const sid = await open(replica.url, place.key);
    const response = await post(replica.url + pollPath(sid), place.key, body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: 'Bad Request',
      message: expect.stringContaining(field),
    });
  });

  test.each([
    ['not JSON', '{"messages":', 400],
    ['over 1 MiB', JSON.stringify({ messages: ['x'.repeat(MAX_FRAME_BYTES)], wait: false }), 413],
  ])('with a body that is %s is answered %3$i', async (_what, body, status) => {
    const place = await Place.create(store);
    const headers = { authorization: `Bearer ${place.key}`, 'content-type': 'application/json' };
    const response = await fetch(`${replica.url}/agent/v1/sessions`, { method: 'POST', headers, body });
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ statusCode: status });
  });

  test('opened without a hello is closed with 4400', async () => {
    const place = await Place.create(store);
    const message = { v: 1, t: 'ready', id: 'a', d: { free: 1 } };
    const response = await post(`${replica.url}/agent/v1/sessions`, place.key, { messages: [message] });
    expect(await response.json()).toMatchObject({ messages: [{ t: 'refused' }], close: { code: 4400 } });
  });

  test('is let go by a later one, and when its time is up', async () => {
    const place = await Place.create(store);
    const sid = await open(replica.url, place.key);
    const first = post(replica.url + pollPath(sid), place.key, { messages: [], wait: true });
    await new Promise((resolve) => setTimeout(resolve, 100));
    const stop = new AbortController();
    const second = post(replica.url + pollPath(sid), place.key, { messages: [], wait: true }, stop.signal);
    expect(await (await first).json()).toEqual({ messages: [] });
    stop.abort();
    await expect(second).rejects.toThrow();
    const short = await open(strict.url, place.key);
    const response = await post(strict.url + pollPath(short), place.key, { messages: [], wait: true });
    expect(await response.json()).toEqual({ messages: [] });
  });

  test('that was hung up loses nothing: the next one brings it', async () => {
    const place = await Place.create(store);
    const sid = await open(replica.url, place.key);
    const path = replica.url + pollPath(sid);
    const stop = new AbortController();
    const held = post(path, place.key, { messages: [], wait: true }, stop.signal);
    await new Promise((resolve) => setTimeout(resolve, 100));
    stop.abort();
    await expect(held).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 50));
    const ready = { v: 1, t: 'ready', id: 'a', d: { free: 1 } };
    await post(path, place.key, { messages: [ready], wait: false });
    await place.start(replica.queue);
    const reply = await (await post(path, place.key, { messages: [], wait: true })).json();
    expect(reply).toMatchObject({ messages: [{ t: 'offer' }] });
  });

  test('not seen for long ends its session', async () => {
    const place = await Place.create(store);
    await open(strict.url, place.key);
    expect(await place.agentRows()).toMatchObject([{ session_id: expect.any(String) }]);
    await expect.poll(() => place.agentRows(), { timeout: 3000 }).toMatchObject([{ session_id: null }]);
  });
});

test('when the store fails, newcomers are sent away and the rest goes on', async () => {
  const place = await Place.create(store);
  const agentId = randomUUID();
  const failing = await startReplica(store, {
    queue: (queue) =>
      changed(queue, {
        reconcile: async () => Promise.reject(new Error('no store')),
        renew: async () => Promise.reject(new Error('no store')),
      }),
  });
  const { agent, say } = await welcomed(connectSocket, failing.url, place.key, { agentId });
  say('renew', { running: [], free: 1, clock: { t0: 1 } });
  say('release', { runs: [], reason: 'shutdown' });
  await agent.next('ok');
  const again = await connectSocket(failing.url, place.key, hello({ agentId }));
  expect(await within(2000, again.closed, 'the close')).toMatchObject({ code: 4503 });
  expect(failing.gateway.connectedAgents()).toBe(0);
  await failing.stop();
});

test('agents unseen for 14 days are forgotten, others kept', async () => {
  const place = await Place.create(store);
  const { agent } = await welcomed(connectSocket, replica.url, place.key);
  const gone = await welcomed(connectSocket, replica.url, place.key);
  gone.say('bye', { reason: 'test' });
  await gone.agent.closed;
  await expect
    .poll(async () => (await place.agentRows()).filter((row) => row.session_id === null))
    .toHaveLength(1);
  await store.db
    .updateTable('agent')
    .set({ last_seen: new Date(Date.now() - 15 * 86_400_000) })
    .where('location_id', '=', place.locationId)
    .where('session_id', 'is', null)
    .execute();
  await agents.pruneAgents(store.db, 14);
  expect(await place.agentRows()).toHaveLength(1);
  agent.vanish();
});

test('an agent that was thought gone is found again by its renewal', async () => {
  const place = await Place.create(store);
  const { agent, say, sid } = await welcomed(connectSocket, replica.url, place.key);
  await store.db
    .updateTable('agent')
    .set({ last_seen: new Date(Date.now() - 3_600_000) })
    .where('location_id', '=', place.locationId)
    .execute();
  await agents.clearSilentSessions(store.db, 90_000);
  expect(await place.agentRows()).toMatchObject([{ session_id: null }]);
  say('renew', { running: [], free: 1, clock: { t0: 1 } });
  await agent.next('lease');
  expect(await place.agentRows()).toMatchObject([{ session_id: sid }]);
  agent.vanish();
});
