import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CONNECT_PATH, type Job } from '../../src/contract/index.ts';
import type { Store } from '../../src/service/ports.ts';
import { RunState } from '../../src/service/store/schema.ts';
import { engines } from '../support/databases.ts';
import { connectPoll, connectSocket, hello, post, welcomed, type Connect } from './client.ts';
import { Place, resultOf, startReplica, within, type Replica } from './harness.ts';

const refs = (jobs: readonly Job[]): object[] => jobs.map(({ runId, token }) => ({ runId, token }));
const carriers: [string, Connect][] = [
  ['socket', connectSocket],
  ['poll', connectPoll],
];

describe.each(engines())('two replicas on one $name store', (engine) => {
  let stores: Store[];
  let one: Replica;
  let two: Replica;

  beforeAll(async () => {
    await engine.start();
    const place = await engine.fresh();
    const first = await place.open();
    // The embedded engine has one process; its replicas share the store.
    stores = engine.name === 'embedded' ? [first] : [first, await place.open()];
    one = await startReplica(first);
    two = await startReplica(stores.at(-1)!);
  });

  afterAll(async () => {
    await Promise.all([one.stop(), two.stop()]);
    for (const store of stores) await store.close();
    await engine.stop();
  });

  test.each(carriers)(
    'a %s is closed with 4409 when its agent connects to the other',
    async (_kind, connect) => {
      const place = await Place.create(stores[0]!);
      const agentId = randomUUID();
      const older = await welcomed(connect, one.url, place.key, { agentId });
      const newer = await welcomed(connect, two.url, place.key, { agentId });
      expect(newer.epoch).toBe(older.epoch + 1);
      expect(await within(3000, older.agent.closed, 'the close')).toMatchObject({ code: 4409 });
      newer.say('renew', { running: [], free: 1, clock: { t0: 1 } });
      await newer.agent.next('lease');
      newer.agent.vanish();
    },
  );

  test('a long poll goes on whichever replica each of its requests reaches', async () => {
    const place = await Place.create(stores[0]!);
    const agentId = randomUUID();
    const agent = await connectPoll([one.url, two.url], place.key, hello({ agentId, total: 1 }));
    const { d: welcome } = await agent.next('welcome');
    const say = (t: string, d: object): string => agent.say(t, d, { ep: welcome.epoch });
    const beat = setInterval(() => say('ready', { free: 1 }), 200);
    for (let round = 0; round < 6; round++) {
      await place.start(one.queue);
      const { d } = await agent.next('offer', 8000);
      say('accept', { runs: refs(d.jobs) });
      await expect.poll(async () => (await place.runs()).at(-1)).toMatchObject({ state: RunState.running });
      const results = d.jobs.map((job) => resultOf(job));
      await two.queue.record({ accountId: place.accountId, slug: place.slug }, results);
    }
    clearInterval(beat);
    expect(await place.agentRows()).toMatchObject([{ epoch: 1, session_id: welcome.sid }]);
    agent.vanish();
  });

  test.each(carriers)('a %s at one replica hears of a revocation at the other', async (_kind, connect) => {
    const place = await Place.create(stores[0]!);
    const { agent } = await welcomed(connect, two.url, place.key);
    await place.revoke();
    expect(await within(1000, agent.closed, 'the close')).toMatchObject({ code: 4401 });
  });

  test('a rolling stop sends agents away, lets nobody in, and the other takes them', async () => {
    const place = await Place.create(stores[0]!);
    const third = await startReplica(stores[0]!);
    const ids = [randomUUID(), randomUUID()];
    const socket = await welcomed(connectSocket, third.url, place.key, { agentId: ids[0]! });
    const poll = await welcomed(connectPoll, third.url, place.key, { agentId: ids[1]! });
    await third.gateway.goAway();
    for (const { agent } of [socket, poll]) {
      const { d } = await agent.next('goaway');
      expect(d.retryAfterMs).toBeLessThanOrEqual(20);
      expect(await within(1000, agent.closed, 'the close')).toMatchObject({ code: 4503 });
    }
    expect(await place.agentRows()).toMatchObject([{ session_id: null }, { session_id: null }]);
    const response = await post(`${third.url}/agent/v1/sessions`, place.key, { messages: [hello()] });
    expect(await response.json()).toMatchObject({ close: { code: 4503 } });
    const refused = await fetch(third.url + CONNECT_PATH).catch((error: unknown) => error);
    expect(refused).toMatchObject({ status: 404 });
    await expect(connectSocket(third.url, place.key, hello())).rejects.toThrow('503');
    const again = await welcomed(connectSocket, two.url, place.key, { agentId: ids[0]! });
    expect(again.epoch).toBe(2);
    again.agent.vanish();
    await third.stop();
  });
});
