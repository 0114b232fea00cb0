import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MAX_FRAME_BYTES, type Job } from '../../src/contract/index.ts';
import type { Store } from '../../src/service/ports.ts';
import { openStore } from '../../src/service/store/index.ts';
import { RunState } from '../../src/service/store/schema.ts';
import { silentLog } from '../support/databases.ts';
import { connectPoll, connectSocket, hello, welcomed, type Connect } from './client.ts';
import { Place, startReplica, within, type Replica } from './harness.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'vedette-wire-'));
let store: Store;
let replica: Replica;

beforeAll(async () => {
  store = await openStore({ dataDir, log: silentLog });
  replica = await startReplica(store, {
    timing: { acceptMs: 1000, suspectMs: 2000 },
    limits: { pollHoldMs: 2000 },
  });
});

afterAll(async () => {
  await replica.stop();
  await store.close();
  rmSync(dataDir, { recursive: true });
});

const refs = (jobs: readonly Job[]): { runId: number; token: number }[] =>
  jobs.map(({ runId, token }) => ({ runId, token }));
const held = (jobs: readonly Job[]): object[] =>
  refs(jobs).map((run) => ({ ...run, phase: 'running', startedAgoMs: 5 }));
const renewal = (jobs: readonly Job[], free: number): object => ({
  running: held(jobs),
  free,
  clock: { t0: 4711 },
});

const carriers: [string, Connect][] = [
  ['socket', connectSocket],
  ['poll', connectPoll],
];

describe.each(carriers)('a session over the %s', (_kind, connect) => {
  test('begins with a welcome that carries the location, the timing and the clock', async () => {
    const place = await Place.create(store);
    const agent = await connect(replica.url, place.key, hello());
    const { d } = await agent.next('welcome');
    expect(d).toMatchObject({ epoch: 1, protocol: 1, location: place.slug, acceptMs: 1000, drop: [] });
    expect(d.clock.t0).toBe(1000);
    expect(d.clock.t2).toBeGreaterThanOrEqual(d.clock.t1);
    await expect.poll(() => place.agentRows()).toMatchObject([{ epoch: 1, session_id: d.sid }]);
    agent.vanish();
  });

  test('offers a run, takes its accept, renews its lease', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    say('ready', { free: 3 });
    await place.start(replica.queue);
    const { d } = await agent.next('offer');
    expect(d.jobs).toMatchObject([{ checkType: 'URL', name: 'check 0', token: 1, location: place.slug }]);
    say('accept', { runs: refs(d.jobs) });
    const id = say('renew', renewal(d.jobs, 2));
    const lease = await agent.next('lease');
    expect(lease.re).toBe(id);
    expect(lease.d).toMatchObject({ ok: [{ ...refs(d.jobs)[0], leaseMs: 300_000 }], lost: [], cancel: [] });
    expect(lease.d.clock?.t0).toBe(4711);
    expect(await place.runs()).toMatchObject([{ state: RunState.running }]);
    agent.vanish();
  });

  test('offers nothing beyond the credit, and more with new credit', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    await place.start(replica.queue, 5);
    say('ready', { free: 2 });
    const first = await agent.next('offer');
    expect(first.d.jobs).toHaveLength(2);
    say('accept', { runs: refs(first.d.jobs) });
    say('renew', renewal(first.d.jobs, 0));
    await agent.next('lease');
    expect(agent.heard.filter(({ t }) => t === 'offer')).toHaveLength(1);
    say('ready', { free: 3 });
    expect((await agent.next('offer')).d.jobs).toHaveLength(3);
    agent.vanish();
  });

  test('never offers more than the slots, whatever credit the agent claims', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key, { total: 2 });
    await place.start(replica.queue, 4);
    say('ready', { free: 100 });
    expect((await agent.next('offer')).d.jobs).toHaveLength(2);
    agent.vanish();
  });

  test('offers each class what it has room for, and light runs alone to who names no other', async () => {
    const place = await Place.create(store);
    const types = { checkTypes: ['URL', 'BROWSER', 'MULTI_STEP'] };
    const plain = await welcomed(connect, replica.url, place.key, types);
    await place.start(replica.queue, 3, { jobClass: 'browser', checkType: 'BROWSER' });
    await place.start(replica.queue, 2, { jobClass: 'script', checkType: 'MULTI_STEP' });
    await place.start(replica.queue, 1);
    plain.say('ready', { free: 5 });
    const light = await plain.agent.next('offer');
    expect(light.d.jobs.map(({ checkType }) => checkType)).toEqual(['URL']);
    plain.say('accept', { runs: refs(light.d.jobs) });

    const heavy = await welcomed(connect, replica.url, place.key, types);
    heavy.say('ready', { free: 0, freeByClass: { script: 1, browser: 2 } });
    const jobs = [...(await heavy.agent.next('offer')).d.jobs];
    while (jobs.length < 3) jobs.push(...(await heavy.agent.next('offer')).d.jobs);
    expect(jobs.map(({ checkType }) => checkType).toSorted()).toEqual(['BROWSER', 'BROWSER', 'MULTI_STEP']);
    heavy.say('accept', { runs: refs(jobs) });
    heavy.say('renew', { ...renewal(jobs, 0), freeByClass: { script: 1, browser: 0 } });
    expect((await heavy.agent.next('offer')).d.jobs).toMatchObject([{ checkType: 'MULTI_STEP' }]);
    heavy.say('renew', { ...renewal(jobs, 0), freeByClass: { script: 0, browser: 1 } });
    const last = await heavy.agent.next('offer');
    expect(last.d.jobs).toMatchObject([
      { checkType: 'BROWSER', accountId: place.accountId, runSource: 'TRIGGER_API' },
    ]);
    expect(plain.agent.heard.filter(({ t }) => t === 'offer')).toHaveLength(1);
    plain.agent.vanish();
    heavy.agent.vanish();
  });

  test('declined for want of room is offered no more of that class until its next word', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key, {
      checkTypes: ['URL', 'BROWSER'],
    });
    await place.start(replica.queue, 1, { jobClass: 'browser', checkType: 'BROWSER' });
    say('ready', { free: 1, freeByClass: { script: 0, browser: 1 } });
    const { d } = await agent.next('offer');
    say('decline', { runs: refs(d.jobs).map((run) => ({ ...run, reason: 'no_capacity' })) });
    await place.start(replica.queue, 1);
    expect((await agent.next('offer')).d.jobs).toMatchObject([{ checkType: 'URL' }]);
    say('ready', { free: 0, freeByClass: { script: 0, browser: 1 } });
    expect((await agent.next('offer')).d.jobs).toMatchObject([{ checkType: 'BROWSER', token: 2 }]);
    agent.vanish();
  });

  test('takes back an offer that nobody accepts, and says so to a late accept', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    say('ready', { free: 1 });
    await place.start(replica.queue);
    const first = await agent.next('offer');
    say('ready', { free: 0 });
    await expect.poll(() => place.runs(), { timeout: 8000 }).toMatchObject([{ state: RunState.queued }]);
    const id = say('accept', { runs: refs(first.d.jobs) });
    const lease = await agent.next('lease');
    expect(lease).toMatchObject({ re: id, d: { ok: [], lost: [refs(first.d.jobs)[0]] } });
    agent.vanish();
  });

  test('keeps a declined run from an agent that cannot run it, not from others', async () => {
    const place = await Place.create(store);
    const unable = await welcomed(connect, replica.url, place.key);
    unable.say('ready', { free: 1 });
    await place.start(replica.queue);
    const { d } = await unable.agent.next('offer');
    unable.say('decline', { runs: refs(d.jobs).map((run) => ({ ...run, reason: 'unsupported' })) });
    const able = await welcomed(connect, replica.url, place.key);
    able.say('ready', { free: 1 });
    const again = await able.agent.next('offer');
    expect(again.d.jobs[0]).toMatchObject({ runId: d.jobs[0]!.runId, token: 2 });
    expect(unable.agent.heard.filter(({ t }) => t === 'offer')).toHaveLength(1);
    unable.agent.vanish();
    able.agent.vanish();
  });

  test('offers a run declined for lack of room again, once there is new credit', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    say('ready', { free: 1 });
    await place.start(replica.queue);
    const { d } = await agent.next('offer');
    say('decline', { runs: refs(d.jobs).map((run) => ({ ...run, reason: 'no_capacity' })) });
    await expect.poll(() => place.runs()).toMatchObject([{ state: RunState.queued }]);
    say('ready', { free: 1 });
    expect((await agent.next('offer')).d.jobs[0]).toMatchObject({ runId: d.jobs[0]!.runId });
    agent.vanish();
  });

  test('gives only runs of types that the agent knows', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key, { checkTypes: ['TCP'] });
    say('ready', { free: 5 });
    await place.start(replica.queue, 2);
    await place.start(replica.queue, 1, { checkType: 'TCP' });
    expect((await agent.next('offer')).d.jobs).toMatchObject([{ checkType: 'TCP' }]);
    agent.vanish();
  });

  test('pushes a cancellation, and repeats it on the next lease', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    say('ready', { free: 1 });
    const [sessionId] = await place.start(replica.queue);
    const { d } = await agent.next('offer');
    say('accept', { runs: refs(d.jobs) });
    await expect.poll(() => place.runs()).toMatchObject([{ state: RunState.running }]);
    await replica.queue.cancelSession(place.accountId, sessionId!);
    expect((await agent.next('cancel', 1000)).d).toMatchObject({ runs: refs(d.jobs), graceMs: 10_000 });
    say('renew', renewal(d.jobs, 0));
    expect((await agent.next('lease')).d.cancel).toEqual(refs(d.jobs));
    agent.vanish();
  });

  test('gives a released run to the next agent at once', async () => {
    const place = await Place.create(store);
    const first = await welcomed(connect, replica.url, place.key);
    first.say('ready', { free: 1 });
    await place.start(replica.queue);
    const { d } = await first.agent.next('offer');
    first.say('accept', { runs: refs(d.jobs) });
    const second = await welcomed(connect, replica.url, place.key);
    second.say('ready', { free: 1 });
    const id = first.say('release', { runs: refs(d.jobs), reason: 'shutdown' });
    expect((await first.agent.next('ok')).re).toBe(id);
    expect((await second.agent.next('offer')).d.jobs).toMatchObject([{ runId: d.jobs[0]!.runId, token: 2 }]);
    first.agent.vanish();
    second.agent.vanish();
  });

  test('offers nothing to a draining agent, and renews what it holds', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    say('ready', { free: 1 });
    await place.start(replica.queue);
    const { d } = await agent.next('offer');
    say('accept', { runs: refs(d.jobs) });
    say('drain', { deadlineMs: 60_000 });
    await agent.next('ok');
    expect(await place.agentRows()).toMatchObject([{ draining: true }]);
    await place.start(replica.queue);
    say('renew', renewal(d.jobs, 5));
    expect((await agent.next('lease')).d.ok).toHaveLength(1);
    expect(agent.heard.filter(({ t }) => t === 'offer')).toHaveLength(1);
    agent.vanish();
  });

  test('ends with bye: closed with 1000, no longer connected', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    say('bye', { reason: 'drained' });
    expect(await within(2000, agent.closed, 'the close')).toMatchObject({ code: 1000 });
    await expect.poll(() => place.agentRows()).toMatchObject([{ session_id: null }]);
  });

  test('of an agent that came again is closed with 4409; its old epoch is refused', async () => {
    const place = await Place.create(store);
    const agentId = randomUUID();
    const older = await welcomed(connect, replica.url, place.key, { agentId });
    const newer = await welcomed(connect, replica.url, place.key, { agentId });
    expect(await within(2000, older.agent.closed, 'the close')).toMatchObject({ code: 4409 });
    expect(newer.epoch).toBe(older.epoch + 1);
    const id = newer.agent.say('ready', { free: 1 }, { ep: older.epoch });
    expect(await newer.agent.next('refused')).toMatchObject({ re: id, d: { why: 'stale_epoch' } });
    newer.agent.vanish();
  });

  test('learns at its return what it may go on with and what it lost', async () => {
    const place = await Place.create(store);
    const agentId = randomUUID();
    const before = await welcomed(connect, replica.url, place.key, { agentId });
    before.say('ready', { free: 2 });
    await place.start(replica.queue, 1);
    const { d } = await before.agent.next('offer');
    before.say('accept', { runs: refs(d.jobs) });
    await expect.poll(() => place.runs()).toMatchObject([{ state: RunState.running }]);
    before.agent.vanish();
    const kept = { ...refs(d.jobs)[0]!, phase: 'running' as const, startedAgoMs: 900 };
    const lost = { runId: 999_999_999, token: 1, phase: 'running' as const, startedAgoMs: 900 };
    const after = await welcomed(connect, replica.url, place.key, { agentId, running: [kept, lost] });
    expect(after.drop).toMatchObject([{ runId: lost.runId, token: 1 }]);
    expect(await place.runs()).toMatchObject([{ state: RunState.running }]);
    after.agent.vanish();
  });

  test('is closed with 4401 within a second when its key is revoked', async () => {
    const place = await Place.create(store);
    const { agent } = await welcomed(connect, replica.url, place.key);
    await place.revoke();
    expect(await within(1000, agent.closed, 'the close')).toMatchObject({ code: 4401 });
  });

  test('is closed with 4401 at its next renewal when the hint was lost', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    await place.revoke({ wake: false });
    say('renew', renewal([], 1));
    expect(await within(2000, agent.closed, 'the close')).toMatchObject({ code: 4401 });
  });

  test('is sent to connect again when its location is renamed', async () => {
    const place = await Place.create(store);
    const { agent } = await welcomed(connect, replica.url, place.key);
    const slug = `${place.slug}-b`;
    await store.db.updateTable('private_location').set({ slug }).where('id', '=', place.locationId).execute();
    store.wake(`key:${place.keyId}`);
    expect(await within(1000, agent.closed, 'the close')).toMatchObject({ code: 4503 });
  });

  test('gets no offers when it has not renewed for long', async () => {
    const place = await Place.create(store);
    const silent = await welcomed(connect, replica.url, place.key);
    silent.say('ready', { free: 5 });
    await new Promise((resolve) => setTimeout(resolve, 2100));
    await place.start(replica.queue);
    const lively = await welcomed(connect, replica.url, place.key);
    lively.say('ready', { free: 1 });
    await lively.agent.next('offer');
    expect(silent.agent.heard.filter(({ t }) => t === 'offer')).toEqual([]);
    silent.say('renew', renewal([], 5));
    await silent.agent.next('lease');
    await place.start(replica.queue);
    await silent.agent.next('offer');
    silent.agent.vanish();
    lively.agent.vanish();
  });

  test('is refused with a sentence when no protocol is common', async () => {
    const place = await Place.create(store);
    const agent = await connect(replica.url, place.key, hello({ protocol: { min: 2, max: 3 } }));
    const { code, reason } = await within(2000, agent.closed, 'the close');
    expect(code).toBe(4426);
    expect(reason).toBe('this service speaks protocol 1 to 1, the agent 2 to 3: upgrade the service');
  });

  test('survives unknown types and answers unreadable messages, the tenth by closing', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    const unknown = await replica.metric('vedette_agent_messages_total', { type: 'unknown' });
    say('teleport', { to: 'moon' });
    const garbage = [
      null,
      17,
      'x',
      [],
      {},
      { v: 1, t: 'ready' },
      { v: 2, t: 'ready', id: 'a', d: { free: 1 } },
    ];
    for (const each of garbage) agent.sayRaw(each);
    for (const _ of garbage) expect((await agent.next('refused')).d.why).toBe('bad_message');
    expect(await replica.metric('vedette_agent_messages_total', { type: 'unknown' })).toBe(unknown + 1);
    say('renew', renewal([], 1));
    await agent.next('lease');
    say('ready', { free: -1 });
    expect((await agent.next('refused')).d.detail).toContain('ready.d.free');
    agent.sayRaw({ v: 1, t: 'renew', id: 'b', d: JSON.parse('['.repeat(50_000) + ']'.repeat(50_000)) });
    agent.sayRaw({});
    expect(await within(2000, agent.closed, 'the close')).toMatchObject({ code: 4400 });
  });

  test('splits offers that are larger than a frame', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    const filler = 'x'.repeat(400_000);
    await place.start(replica.queue, 5, { definition: { name: 'large', filler } });
    say('ready', { free: 5 });
    const jobs: Job[] = [];
    while (jobs.length < 5) {
      const { d } = await agent.next('offer');
      expect(JSON.stringify(d).length).toBeLessThan(MAX_FRAME_BYTES);
      jobs.push(...d.jobs);
      say('accept', { runs: refs(d.jobs) });
    }
    expect(new Set(jobs.map(({ runId }) => runId)).size).toBe(5);
    agent.vanish();
  });

  test('ends a job that no frame can hold as our error, with the reason', async () => {
    const place = await Place.create(store);
    const { agent, say } = await welcomed(connect, replica.url, place.key);
    const filler = 'x'.repeat(MAX_FRAME_BYTES);
    const [sessionId] = await place.start(replica.queue, 1, { definition: { name: 'huge', filler } });
    await place.start(replica.queue, 1);
    say('ready', { free: 5 });
    expect((await agent.next('offer')).d.jobs).toMatchObject([{ name: 'check 0' }]);
    const results = store.db.selectFrom('check_result').selectAll().where('session_id', '=', sessionId!);
    await expect.poll(() => results.execute()).toMatchObject([{ has_errors: true, has_failures: false }]);
    agent.vanish();
  });
});

describe('fair shares', () => {
  test.each([
    [4, 8],
    [40, 20],
  ])('%i runs go to both of two idle agents with %i places each', async (runs, free) => {
    const place = await Place.create(store);
    const agents = await Promise.all(
      [1, 2].map(async () => welcomed(connectSocket, replica.url, place.key, { total: free })),
    );
    for (const { agent, say } of agents) {
      say('renew', renewal([], free));
      await agent.next('lease');
    }
    await place.start(replica.queue, runs);
    const count = (): number[] =>
      agents.map(({ agent }) =>
        agent.heard.reduce((sum, message) => sum + (message.t === 'offer' ? message.d.jobs.length : 0), 0),
      );
    await expect.poll(() => count().reduce((a, b) => a + b, 0)).toBe(runs);
    expect(Math.min(...count())).toBeGreaterThan(0);
    for (const { agent } of agents) agent.vanish();
  });
});
