import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/kit/ids.ts';
import type { LeasedAgent, Topic } from '../../src/service/ports.ts';
import { RunState } from '../../src/service/store/schema.ts';
import { engines } from '../support/databases.ts';
import { failed, resultOf, World } from './fixture.ts';

describe.each(engines())('sessions on $name', (engine) => {
  let world: World;
  let agents: Record<'a' | 'b', LeasedAgent>;
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
    await world.location('a');
    await world.location('b');
    agents = { a: await world.agent('a'), b: await world.agent('b') };
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
  });

  const parallel = () => world.session({ locations: ['a', 'b'] });
  const status = async (id: string) => (await world.sessionRow(id)).status;

  test('goes from STARTED over PROGRESS to its end', async () => {
    const [{ sessionId, sequenceIds }] = (await world.queue.start([parallel()])) as [
      { sessionId: string; sequenceIds: string[] },
    ];
    expect(sequenceIds).toHaveLength(2);
    expect(await world.sessionRow(sessionId)).toMatchObject({
      status: 'STARTED',
      run_locations: ['a', 'b'],
      run_source: 'SCHEDULER',
    });
    const [a] = await world.queue.claim(agents.a, 'light', 1);
    expect(await status(sessionId)).toBe('STARTED');
    await world.queue.accept(agents.a.agentId, [a!]);
    expect(await status(sessionId)).toBe('PROGRESS');
    await world.record('a', resultOf(a!));
    expect(await status(sessionId)).toBe('PROGRESS');
    const [b] = await world.claimed(agents.b, 1);
    await world.record('b', resultOf(b!));
    const row = await world.sessionRow(sessionId);
    expect(row.status).toBe('PASSED');
    expect(row.stopped_at).toBeInstanceOf(Date);
  });

  test.each([
    ['passed', 'degraded', 'PROGRESS', 'DEGRADED'],
    ['degraded', 'passed', 'PROGRESS_DEGRADED', 'DEGRADED'],
    ['failed', 'degraded', 'PROGRESS_FAILED', 'FAILED'],
    ['error', 'passed', 'PROGRESS_FAILED', 'FAILED'],
    ['failed', 'cancelled', 'PROGRESS_FAILED', 'CANCELLED'],
    ['failed', 'expired', 'PROGRESS_FAILED', 'FAILED'],
    ['degraded', 'expired', 'PROGRESS_DEGRADED', 'TIMED_OUT'],
  ] as const)('%s and %s: %s, then %s', async (first, second, between, end) => {
    const flags = {
      passed: {},
      degraded: { isDegraded: true },
      failed,
      error: { hasErrors: true },
      cancelled: { isCancelled: true },
    };
    const [started] = await world.queue.start([parallel()]);
    const [a] = await world.claimed(agents.a, 1);
    await world.record('a', resultOf(a!, flags[first]));
    expect(await status(started!.sessionId)).toBe(between);
    if (second === 'expired') {
      await sql`update run set expires_at = now() where session_id = ${started!.sessionId} and state = 0`.execute(
        world.store.db,
      );
      await world.sweep();
    } else {
      const [b] = await world.claimed(agents.b, 1);
      await world.record('b', resultOf(b!, flags[second]));
    }
    expect(await status(started!.sessionId)).toBe(end);
  });

  test('ends when both parts are recorded at the same moment', async () => {
    const sessions = Array.from({ length: 20 }, parallel);
    const started = await world.queue.start(sessions);
    const [as, bs] = [await world.claimed(agents.a, 20), await world.claimed(agents.b, 20)];
    await Promise.all([
      ...as.map((job) => world.record('a', resultOf(job))),
      ...bs.toReversed().map((job) => world.record('b', resultOf(job))),
    ]);
    for (const { sessionId } of started) expect(await status(sessionId)).toBe('PASSED');
  });

  test('wakes those who wait for it', async () => {
    const heard: Topic[] = [];
    const stop = world.store.onWake((topic) => heard.push(topic));
    const [started] = await world.queue.start([world.session({ locations: ['a'] })]);
    const [job] = await world.claimed(agents.a, 1);
    await expect.poll(() => heard).toContain(`session:${started!.sessionId}`);
    heard.length = 0;
    await world.record('a', resultOf(job!));
    await expect.poll(() => heard).toContain(`session:${started!.sessionId}`);
    stop();
  });

  describe('cancelling', () => {
    test('ends what waits at once and asks the agents of the rest to stop', async () => {
      const [started] = await world.queue.start([parallel()]);
      const { sessionId } = started!;
      const [job] = await world.claimed(agents.a, 1);
      const heard: Topic[] = [];
      const stop = world.store.onWake((topic) => heard.push(topic));
      expect(await world.queue.cancelSession(world.accountId, sessionId)).toBe(true);
      await expect.poll(() => heard).toContain(`agent:${agents.a.agentId}`);
      stop();

      expect(await world.queue.claim(agents.b, 'light', 1)).toEqual([]);
      expect(await world.results(sessionId)).toMatchObject([{ is_cancelled: true, location: 'b' }]);
      const ref = { runId: job!.runId, token: job!.token };
      expect(await world.queue.toCancel(agents.a.agentId)).toEqual([ref]);
      const held = { ...ref, phase: 'running' as const, startedAgoMs: 1 };
      expect(await world.queue.renew(agents.a.agentId, [held])).toEqual({
        ok: [ref],
        lost: [],
        cancel: [ref],
      });
      expect(await status(sessionId)).toBe('PROGRESS');

      await world.record('a', resultOf(job!, { isCancelled: true }));
      expect(await status(sessionId)).toBe('CANCELLED');
      expect(await world.queue.toCancel(agents.a.agentId)).toEqual([]);
    });

    test('one sequence leaves the others alone', async () => {
      const [started] = await world.queue.start([parallel()]);
      const { sessionId, sequenceIds } = started!;
      await world.queue.cancelSession(world.accountId, sessionId, [sequenceIds[0]!]);
      expect(await world.queue.claim(agents.a, 'light', 1)).toEqual([]);
      const [job] = await world.claimed(agents.b, 1);
      await world.record('b', resultOf(job!));
      expect(await status(sessionId)).toBe('CANCELLED');
    });

    test('a run whose agent is lost or gives it back ends as cancelled', async () => {
      for (const how of ['lost', 'given back'] as const) {
        const { sessionId, job } = await world.running(agents.a, world.session({ locations: ['a'] }));
        await world.queue.cancelSession(world.accountId, sessionId);
        if (how === 'given back') await world.queue.release(agents.a.agentId, [job], false);
        else {
          await world.elapse(job.runId, 301_000);
          await world.sweep();
        }
        expect(await world.run(job.runId)).toMatchObject({ state: RunState.cancelled });
        expect(await world.results(sessionId)).toMatchObject([{ is_cancelled: true, result_type: 'FINAL' }]);
        expect(await status(sessionId)).toBe('CANCELLED');
      }
    });

    test('a failed try of a run that is to be cancelled is not repeated', async () => {
      const fields = { retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0 } };
      const { sessionId, job } = await world.running(agents.a, world.session({ locations: ['a'], fields }));
      await world.queue.cancelSession(world.accountId, sessionId);
      await world.record('a', resultOf(job, failed));
      expect(await status(sessionId)).toBe('FAILED');
    });

    test('of a finished session changes nothing, of an unknown one is refused', async () => {
      const { sessionId, job } = await world.running(agents.a, world.session({ locations: ['a'] }));
      await world.record('a', resultOf(job));
      expect(await world.queue.cancelSession(world.accountId, sessionId)).toBe(true);
      expect(await status(sessionId)).toBe('PASSED');
      expect(await world.queue.cancelSession(newId(), sessionId)).toBe(false);
      expect(await world.queue.cancelSession(world.accountId, newId())).toBe(false);
    });
  });

  test('a deleted check leaves nothing in the queue', async () => {
    const session = parallel();
    const [started] = await world.queue.start([session]);
    const [job] = await world.claimed(agents.a, 1);
    await world.queue.forgetCheck(session.checkId);
    expect(await world.queue.claim(agents.b, 'light', 1)).toEqual([]);
    expect(await world.record('a', resultOf(job!))).toEqual(['stored']);
    expect(await status(started!.sessionId)).toBe('CANCELLED');
  });

  describe('expiry', () => {
    async function expired(slug: string, checkType = 'URL'): Promise<object> {
      const [started] = await world.queue.start([world.session({ locations: [slug], checkType })]);
      const { sessionId } = started!;
      await sql`update run set expires_at = now() where session_id = ${sessionId}`.execute(world.store.db);
      await world.sweep();
      expect(await world.results(sessionId)).toEqual([]);
      const run = await world.store.db
        .selectFrom('run')
        .select(['state', 'outcome', 'end_reason'])
        .where('session_id', '=', sessionId)
        .executeTakeFirstOrThrow();
      expect(run).toMatchObject({ state: RunState.expired, outcome: 'TIMED_OUT' });
      const { status, end_reason } = await world.sessionRow(sessionId);
      expect({ status, end_reason }).toEqual({ status: 'TIMED_OUT', end_reason: run.end_reason });
      return run;
    }

    test('says that no agent is connected', async () => {
      await world.location('empty');
      expect(await expired('empty')).toMatchObject({ end_reason: 'NO_AGENT_CONNECTED' });
      const gone = await world.agent('empty');
      await world.store.db
        .updateTable('agent')
        .set({ session_id: null })
        .where('id', '=', gone.agentId)
        .execute();
      expect(await expired('empty')).toMatchObject({ end_reason: 'NO_AGENT_CONNECTED' });
    });

    test('says that all agents are busy', async () => {
      expect(await expired('a')).toMatchObject({ end_reason: 'ALL_AGENTS_BUSY' });
    });

    test('says that no agent can run the type', async () => {
      expect(await expired('a', 'DNS')).toMatchObject({ end_reason: 'NO_CAPABLE_AGENT' });
    });

    test('happens six minutes after a run became due', async () => {
      const [started] = await world.queue.start([world.session({ locations: ['empty'] })]);
      const run = await world.store.db
        .selectFrom('run')
        .selectAll()
        .where('session_id', '=', started!.sessionId)
        .executeTakeFirstOrThrow();
      await world.elapse(run.id, 355_000);
      await world.sweep();
      expect((await world.run(run.id)).state).toBe(RunState.queued);
      await world.elapse(run.id, 6_000);
      await world.sweep();
      expect((await world.run(run.id)).state).toBe(RunState.expired);
    });
  });
});
