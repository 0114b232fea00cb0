import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JobClass } from '../../src/checks/index.ts';
import type { HeldRun, Job } from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';
import type { Topic } from '../../src/service/ports.ts';
import { RunState } from '../../src/service/store/schema.ts';
import { engines } from '../support/databases.ts';
import { resultOf, World } from './fixture.ts';

const refOf = ({ runId, token }: Job) => ({ runId, token });
const held = (job: Job): HeldRun => ({ ...refOf(job), phase: 'running', startedAgoMs: 0 });

describe.each(engines())('leases on $name', (engine) => {
  let world: World;
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
  });

  test('starting the same session twice starts it once', async () => {
    const session = world.session();
    const [first] = await world.queue.start([session]);
    const [second] = await world.queue.start([session]);
    expect(second).toEqual(first);
    const agent = await world.agent();
    expect(await world.claimed(agent, 10)).toHaveLength(1);
  });

  test('a claim hands out what the agent can run, with all that a job needs', async () => {
    await world.location('proxied');
    await sql`update private_location set proxy_url = 'http://proxy:3128' where slug = 'proxied'`.execute(
      world.store.db,
    );
    const agent = await world.agent('proxied', ['URL', 'TCP']);
    const session = world.session({ locations: ['proxied'], fields: { request: { url: 'http://x' } } });
    const dns = world.session({ locations: ['proxied'], checkType: 'DNS' });
    const [started] = await world.queue.start([session, dns]);
    const jobs = await world.queue.claim(agent, 'light', 10);
    expect(jobs).toHaveLength(1);
    expect(jobs[0]).toMatchObject({
      token: 1,
      attempt: 0,
      sequenceId: started!.sequenceIds[0],
      sessionId: started!.sessionId,
      lane: 1,
      checkId: session.checkId,
      checkType: 'URL',
      name: 'a check',
      location: 'proxied',
      proxyUrl: 'http://proxy:3128',
      scheduledAt: session.scheduledAt.toISOString(),
      timeoutMs: 30_000,
      accountId: world.accountId,
      runSource: 'SCHEDULER',
      spec: { name: 'a check', request: { url: 'http://x' } },
    });
  });

  test('a claim takes runs of its class only, however long the others wait', async () => {
    await world.location('classes');
    const agent = await world.agent('classes', ['URL', 'BROWSER']);
    const sessions = (jobClass: JobClass, count: number) =>
      Array.from({ length: count }, () =>
        world.session({ jobClass, checkType: 'BROWSER', locations: ['classes'], fields: { name: jobClass } }),
      );
    await world.queue.start([...sessions('browser', 3), ...sessions('script', 2), ...sessions('light', 1)]);
    const names = async (jobClass: JobClass, limit: number): Promise<string[]> =>
      (await world.queue.claim(agent, jobClass, limit)).map(({ name }) => name);
    expect(await names('light', 10)).toEqual(['light']);
    expect(await names('light', 10)).toEqual([]);
    expect(await names('browser', 2)).toEqual(['browser', 'browser']);
    expect(await names('script', 10)).toEqual(['script', 'script']);
    expect(await names('browser', 2)).toEqual(['browser']);
  });

  test('scheduled browser runs are not starved by browser runs on demand, whatever light runs do', async () => {
    await world.location('classes-starved');
    const agent = await world.agent('classes-starved');
    const sessions = (jobClass: JobClass, lane: 0 | 1) =>
      Array.from({ length: 4 }, () => world.session({ jobClass, lane, locations: ['classes-starved'] }));
    await world.queue.start([...sessions('browser', 0), ...sessions('browser', 1), ...sessions('light', 0)]);
    await sql`update run set not_before = now() - interval '90 s'
      where location = 'classes-starved' and lane = 1`.execute(world.store.db);
    const lanes = async (jobClass: JobClass): Promise<number[]> =>
      (await world.queue.claim(agent, jobClass, 2)).map(({ lane }) => lane);
    expect(await lanes('browser')).toEqual([0, 0]);
    expect(await lanes('light')).toEqual([0, 0]);
    expect(await lanes('browser')).toEqual([1, 0]);
  });

  test('a claim takes lane 0 before 1 before 2, and the longest wait first', async () => {
    await world.location('lanes');
    const agent = await world.agent('lanes');
    const at = (lane: 0 | 1 | 2, name: string) =>
      world.session({ lane, locations: ['lanes'], fields: { name } });
    await world.queue.start([at(2, 'catch-up'), at(1, 'old'), at(1, 'new'), at(0, 'on demand')]);
    const jobs = await world.queue.claim(agent, 'light', 10);
    expect(jobs.map(({ name }) => name)).toEqual(['on demand', 'old', 'new', 'catch-up']);
  });

  test('scheduled runs that waited for a minute get every second place', async () => {
    await world.location('starved');
    const agent = await world.agent('starved');
    const sessions = (lane: 0 | 1, count: number) =>
      Array.from({ length: count }, () => world.session({ lane, locations: ['starved'] }));
    await world.queue.start([...sessions(0, 10), ...sessions(1, 10)]);
    await sql`update run set not_before = now() - interval '90 s' where location = 'starved' and lane = 1`.execute(
      world.store.db,
    );
    expect((await world.queue.claim(agent, 'light', 2)).map(({ lane }) => lane)).toEqual([0, 0]);
    const lanes = [];
    for (let n = 0; n < 6; n++)
      lanes.push(...(await world.queue.claim(agent, 'light', 1)).map(({ lane }) => lane));
    expect(lanes.toSorted((a, b) => a - b)).toEqual([0, 0, 0, 1, 1, 1]);
  });

  test('a run is not due before its time', async () => {
    await world.location('later');
    const agent = await world.agent('later');
    const later = new Date(Date.now() + 60_000);
    await world.queue.start([world.session({ locations: ['later'], scheduledAt: later })]);
    expect(await world.queue.claim(agent, 'light', 10)).toEqual([]);
    const onDemand = world.session({ locations: ['later'], scheduledAt: later, lane: 0 });
    await world.queue.start([onDemand]);
    expect(await world.queue.claim(agent, 'light', 10)).toHaveLength(1);
  });

  test('an offer that is not accepted in time goes to another agent, and the first one has lost it', async () => {
    await world.location('offers');
    const [one, two] = [await world.agent('offers'), await world.agent('offers')];
    await world.queue.start([world.session({ locations: ['offers'] })]);
    const [offer] = await world.queue.claim(one, 'light', 1);
    await world.elapse(offer!.runId, 11_000);
    await world.sweep();
    const [again] = await world.claimed(two, 1);
    expect(again).toMatchObject({ runId: offer!.runId, token: 2 });
    expect(await world.queue.accept(one.agentId, [offer!])).toEqual({ ok: [], lost: [refOf(offer!)] });
    expect((await world.run(offer!.runId)).deliveries).toBe(1);
  });

  test('accepting twice is accepting once', async () => {
    const agent = await world.agent();
    const { job } = await world.running(agent);
    expect(await world.queue.accept(agent.agentId, [job])).toEqual({ ok: [refOf(job)], lost: [] });
    expect((await world.run(job.runId)).deliveries).toBe(1);
  });

  test('a declined run is due again at once, and with exclude never for the same agent', async () => {
    await world.location('declines');
    const [one, two] = [await world.agent('declines'), await world.agent('declines')];
    await world.queue.start([world.session({ locations: ['declines'] })]);
    const [first] = await world.queue.claim(one, 'light', 1);
    await world.queue.decline(one.agentId, [first!], false);
    const [second] = await world.queue.claim(one, 'light', 1);
    expect(second).toMatchObject({ runId: first!.runId, token: 2 });
    await world.queue.decline(one.agentId, [second!], true);
    expect(await world.queue.claim(one, 'light', 1)).toEqual([]);
    expect(await world.queue.claim(two, 'light', 1)).toMatchObject([{ runId: first!.runId, token: 3 }]);
  });

  test('renewing extends the lease, and is refused to other agents and older tokens', async () => {
    const [one, two] = [await world.agent(), await world.agent()];
    const { job } = await world.running(one, world.session({ timeoutMs: 600_000 }));
    await world.elapse(job.runId, 100_000);
    const before = (await world.run(job.runId)).lease_until!;
    expect(await world.queue.renew(one.agentId, [held(job)])).toEqual({
      ok: [refOf(job)],
      lost: [],
      cancel: [],
    });
    expect((await world.run(job.runId)).lease_until!.getTime()).toBeGreaterThan(before.getTime());
    expect((await world.queue.renew(two.agentId, [held(job)])).lost).toEqual([refOf(job)]);
    const stale = { ...held(job), token: job.token - 1 };
    expect((await world.queue.renew(one.agentId, [stale])).lost).toEqual([refOf({ ...job, token: 0 })]);
  });

  test('renewing what was offered accepts it: the word of the agent was lost', async () => {
    await world.location('unheard');
    const agent = await world.agent('unheard');
    await world.queue.start([world.session({ locations: ['unheard'] })]);
    const [job] = await world.queue.claim(agent, 'light', 1);
    expect((await world.queue.renew(agent.agentId, [held(job!)])).ok).toEqual([refOf(job!)]);
    expect(await world.run(job!.runId)).toMatchObject({ state: RunState.running, deliveries: 1 });
  });

  test('a lease ends at the hard limit, however often it is renewed', async () => {
    await world.location('overtime');
    const agent = await world.agent('overtime');
    const { job } = await world.running(agent, world.session({ locations: ['overtime'], timeoutMs: 1_000 }));
    await world.elapse(job.runId, 100_000);
    await world.queue.renew(agent.agentId, [held(job)]);
    const { lease_until, hard_until } = await world.run(job.runId);
    expect(lease_until).toEqual(hard_until);
    await world.elapse(job.runId, 22_000);
    expect((await world.queue.renew(agent.agentId, [held(job)])).ok).toEqual([]);
    await world.sweep();
    expect((await world.run(job.runId)).state).toBe(RunState.queued);
  });

  test('a lost lease is run again, with a new time to wait; the third loss makes it our error', async () => {
    await world.location('deadly');
    const agent = await world.agent('deadly');
    const [started] = await world.queue.start([world.session({ locations: ['deadly'] })]);
    const [probe] = await world.queue.claim(agent, 'light', 1);
    await world.queue.decline(agent.agentId, [probe!], false);
    const runId = probe!.runId;
    for (let delivery = 1; delivery <= 3; delivery++) {
      const [job] = await world.claimed(agent, 1);
      expect(job).toMatchObject({ runId, token: delivery + 1 });
      await world.elapse(runId, 301_000);
      await world.sweep();
    }
    const run = await world.run(runId);
    expect(run).toMatchObject({ state: RunState.poison, outcome: 'FAILED', payload: {} });
    const [final] = await world.results(started!.sessionId);
    expect(final).toMatchObject({ result_type: 'FINAL', has_errors: true, has_failures: false });
    const { detail } = await world.store.db
      .selectFrom('check_result_detail')
      .select('detail')
      .where('result_id', '=', final!.id)
      .executeTakeFirstOrThrow();
    expect(detail['errors']).toMatchObject([
      { message: 'the agent stopped 3 times while running this check' },
    ]);
    expect(await world.sessionRow(started!.sessionId)).toMatchObject({ status: 'FAILED' });
  });

  test('giving back is no loss, dying is', async () => {
    await world.location('returns');
    const agent = await world.agent('returns');
    await world.queue.start([world.session({ locations: ['returns'] })]);
    for (let n = 0; n < 4; n++) {
      const [job] = await world.claimed(agent, 1);
      await world.queue.release(agent.agentId, [job!], false);
    }
    const [job] = await world.claimed(agent, 1);
    expect((await world.run(job!.runId)).deliveries).toBe(1);
    await world.queue.release(agent.agentId, [job!], true);
    expect(await world.run(job!.runId)).toMatchObject({ state: RunState.queued, deliveries: 1 });
  });

  test('after a break what the agent does not hold is due again, what it does not own is dropped', async () => {
    await world.location('breaks');
    const [one, two] = [await world.agent('breaks'), await world.agent('breaks')];
    const sessions = [1, 2].map(() => world.session({ locations: ['breaks'] }));
    await world.queue.start(sessions);
    const [kept, missing] = await world.claimed(one, 2);
    const foreign = { ...held(kept!), runId: 999_999_999 };
    const { drop } = await world.queue.reconcile(one.agentId, [held(kept!), foreign]);
    expect(drop).toEqual([refOf({ ...kept!, runId: 999_999_999 })]);
    expect(await world.claimed(two, 2)).toMatchObject([{ runId: missing!.runId, token: 2 }]);
    expect((await world.queue.renew(one.agentId, [held(kept!)])).ok).toEqual([refOf(kept!)]);
  });

  test('the queue says where there is something to claim', async () => {
    await world.location('woken');
    const heard: Topic[] = [];
    const stop = world.store.onWake((topic) => heard.push(topic));
    await world.queue.start([world.session({ locations: ['woken'] })]);
    await expect.poll(() => heard).toContain(`runs:${world.accountId}/woken`);
    stop();
  });

  test('names of runs that do not exist change nothing', async () => {
    const agent = await world.agent();
    const nobody = [{ runId: 123_456_789, token: 1 }];
    expect(await world.queue.accept(agent.agentId, nobody)).toEqual({ ok: [], lost: nobody });
    expect(await world.queue.accept(newId(), nobody)).toEqual({ ok: [], lost: nobody });
    await world.queue.decline(agent.agentId, nobody, true);
    await world.queue.release(agent.agentId, nobody, true);
    expect(
      await world.queue.accept(agent.agentId, [{ runId: Number.MAX_SAFE_INTEGER, token: 2 ** 40 }]),
    ).toMatchObject({ ok: [] });
  });

  test('20 agents claim at the same time: each run is counted once', async () => {
    await world.location('race');
    const agents = await Promise.all(Array.from({ length: 20 }, () => world.agent('race')));
    const sessions = Array.from({ length: 300 }, () => world.session({ locations: ['race'] }));
    const started = await world.queue.start(sessions);
    const ran: number[] = [];
    await Promise.all(
      agents.map(async (agent) => {
        for (;;) {
          const jobs = await world.claimed(agent, 5);
          if (jobs.length === 0) return;
          ran.push(...jobs.map(({ runId }) => runId));
          const statuses = await world.record('race', ...jobs.map((job) => resultOf(job)));
          expect(new Set(statuses)).toEqual(new Set(['stored']));
        }
      }),
    );
    expect(new Set(ran).size).toBe(300);
    expect(ran).toHaveLength(300);
    const { count } = await world.store.db
      .selectFrom('check_result')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('location', '=', 'race')
      .executeTakeFirstOrThrow();
    expect(count).toBe(300);
    expect((await world.sessionRow(started[0]!.sessionId)).status).toBe('PASSED');
  });
});
