import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commonProtocol, type Job } from '../../src/contract/index.ts';
import type { Store } from '../../src/service/ports.ts';
import { openStore } from '../../src/service/store/index.ts';
import { RunState } from '../../src/service/store/schema.ts';
import { silentLog } from '../support/databases.ts';
import { connectPoll, connectSocket, hello, post, welcomed, type Connect, type WireAgent } from './client.ts';
import { Place, resultOf, startReplica, within, type Replica } from './harness.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'vedette-wire-'));
let store: Store;
/** This build's protocol; a build whose protocol is one ahead; a build that takes agents from 1.4.0 on. */
let present: Replica;
let later: Replica;
let demanding: Replica;

beforeAll(async () => {
  store = await openStore({ dataDir, log: silentLog });
  present = await startReplica(store);
  later = await startReplica(store, { protocol: { min: 1, max: 2 } });
  demanding = await startReplica(store, { minAgentVersion: '1.4.0' });
});

afterAll(async () => {
  await Promise.all([present.stop(), later.stop(), demanding.stop()]);
  await store.close();
  rmSync(dataDir, { recursive: true });
});

const carriers: [string, Connect][] = [
  ['socket', connectSocket],
  ['poll', connectPoll],
];
const refs = (jobs: readonly Job[]): object[] => jobs.map(({ runId, token }) => ({ runId, token }));
const running = (job: Job) =>
  ({ runId: job.runId, token: job.token, phase: 'running', startedAgoMs: 100 }) as const;

/** A message exactly as agents of protocol 1 sent it on its first day, with `d` changed where it must be. */
function asFirstSent(name: string, d: object = {}): { t: string; d: object } {
  const file = join(import.meta.dirname, '../contract/golden/protocol-1', `FromAgent.${name}.json`);
  const message = JSON.parse(readFileSync(file, 'utf8'));
  return { ...message, id: randomUUID(), d: { ...message.d, ...d } };
}

async function deliver(replica: Replica, place: Place, job: Job): Promise<unknown> {
  const body = {
    agentId: randomUUID(),
    sentAt: new Date().toISOString(),
    clockOffsetMs: 0,
    results: [resultOf(job)],
  };
  const response = await post(`${replica.url}/agent/v1/results`, place.key, body);
  expect(response.status).toBe(200);
  return response.json();
}

describe('the protocol that both ends speak', () => {
  test.each([
    [{ min: 1, max: 1 }, { min: 1, max: 1 }, 1],
    [{ min: 1, max: 1 }, { min: 1, max: 2 }, 1],
    [{ min: 1, max: 2 }, { min: 1, max: 1 }, 1],
    [{ min: 2, max: 3 }, { min: 1, max: 2 }, 2],
    [{ min: 1, max: 3 }, { min: 2, max: 3 }, 3],
    [{ min: 2, max: 3 }, { min: 1, max: 1 }, undefined],
    [{ min: 1, max: 1 }, { min: 2, max: 3 }, undefined],
    [{ min: 2, max: 1 }, { min: 1, max: 2 }, undefined],
  ])('agent %o and service %o: %s', (agent, service, common) => {
    expect(commonProtocol(agent, service)).toBe(common);
  });
});

describe.each(carriers)('over the %s', (_kind, connect) => {
  const refusalOf = async (agent: WireAgent) => within(2000, agent.closed, 'the close');

  test('an agent of the protocol before is served by a service of the next, from hello to bye', async () => {
    const place = await Place.create(store);
    const first = asFirstSent('hello', { agentId: randomUUID(), running: [] });
    const agent = await connect(later.url, place.key, first);
    const { d: welcome } = await agent.next('welcome');
    expect(welcome.protocol).toBe(1);
    const say = (name: string, d: object): void =>
      agent.sayRaw({ ...asFirstSent(name, d), ep: welcome.epoch });

    say('ready', { free: 2 });
    await place.start(later.queue);
    const { d: offer } = await agent.next('offer');
    say('accept', { runs: refs(offer.jobs) });
    say('renew', { running: offer.jobs.map(running), free: 1 });
    const lease = await agent.next('lease');
    expect(lease.d.ok).toMatchObject(refs(offer.jobs));
    expect(await deliver(later, place, offer.jobs[0]!)).toMatchObject({ receipts: [{ status: 'stored' }] });
    say('drain', { deadlineMs: 1000 });
    await agent.next('ok');
    say('bye', {});
    expect(await agent.closed).toMatchObject({ code: 1000 });
    expect(await place.runs()).toMatchObject([{ state: RunState.done, token: 1 }]);
  });

  test('an agent of the next protocol talks to a service of the one before', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, present.url, place.key, {
      protocol: { min: 1, max: 2 },
      version: '99.0.0',
    });
    expect(agent.heard[0]).toMatchObject({ t: 'welcome', d: { protocol: 1 } });
    say('forecast', { ofProtocol: 2 });
    say('ready', { free: 1, freeByMood: { calm: 1 } });
    await place.start(present.queue);
    const { d } = await agent.next('offer');
    say('accept', { runs: refs(d.jobs), gladly: true });
    expect(await deliver(present, place, d.jobs[0]!)).toMatchObject({ receipts: [{ status: 'stored' }] });
    expect(agent.heard.filter(({ t }) => t === 'refused')).toEqual([]);
    agent.vanish();
  });

  test('no common protocol: the sentence says which end to upgrade', async () => {
    const place = await Place.create(store);
    const ahead = await connect(present.url, place.key, hello({ protocol: { min: 2, max: 3 } }));
    expect(await refusalOf(ahead)).toEqual({
      code: 4426,
      reason: 'this service speaks protocol 1 to 1, the agent 2 to 3: upgrade the service',
    });
    const behind = await connect(later.url, place.key, hello({ protocol: { min: 0, max: 0 } }));
    expect(await refusalOf(behind)).toEqual({
      code: 4426,
      reason: 'this service speaks protocol 1 to 2, the agent 0 to 0: upgrade the agent',
    });
  });

  test('an agent that is too old is refused with what to do; one that is not works', async () => {
    const place = await Place.create(store);
    for (const version of ['1.3.9', '0.9.0', 'homemade']) {
      const agent = await connect(demanding.url, place.key, hello({ version }));
      expect(await refusalOf(agent)).toEqual({
        code: 4426,
        reason: `agent ${version} is too old for this service: upgrade it to 1.4.0 or newer`,
      });
    }
    const endless = await connect(demanding.url, place.key, hello({ version: `0.${'1'.repeat(98)}` }));
    expect((await refusalOf(endless)).reason).toMatch(
      /…? is too old for this service: upgrade it to 1.4.0 or newer$/,
    );
    expect(await place.agentRows()).toEqual([]);

    const { agent, say } = await welcomed(connect, demanding.url, place.key, { version: '1.4.0' });
    expect(agent.heard[0]).toMatchObject({ d: { minAgentVersion: '1.4.0' } });
    say('ready', { free: 1 });
    await place.start(demanding.queue);
    await agent.next('offer');
    agent.vanish();
  });

  test('an agent that became too old ends what it has before it is refused', async () => {
    const place = await Place.create(store);
    const agentId = randomUUID();
    const before = await welcomed(connect, present.url, place.key, { agentId, version: '1.3.0' });
    before.say('ready', { free: 5 });
    await place.start(present.queue);
    const { d } = await before.agent.next('offer');
    const [job] = d.jobs;
    before.say('accept', { runs: refs(d.jobs) });
    await expect.poll(() => place.runs()).toMatchObject([{ state: RunState.running }]);

    const after = await welcomed(connect, demanding.url, place.key, {
      agentId,
      version: '1.3.0',
      running: [running(job!)],
    });
    expect(after.drop).toEqual([]);
    await place.start(demanding.queue, 2);
    after.say('renew', { running: [running(job!)], free: 4, clock: { t0: 1 } });
    expect((await after.agent.next('lease')).d.ok).toMatchObject(refs([job!]));
    expect(await deliver(demanding, place, job!)).toMatchObject({ receipts: [{ status: 'stored' }] });
    after.say('renew', { running: [], free: 5, clock: { t0: 1 } });
    expect(await refusalOf(after.agent)).toMatchObject({ code: 4426 });
    expect(after.agent.heard.filter(({ t }) => t === 'offer')).toEqual([]);
    const states = (await place.runs()).map(({ state }) => state);
    expect(states).toEqual([RunState.done, RunState.queued, RunState.queued]);
    before.agent.vanish();
  });
});
