import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Job } from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';
import type { LeasedAgent, NewSession } from '../../src/service/ports.ts';
import { RunState } from '../../src/service/store/schema.ts';
import { engines } from '../support/databases.ts';
import { failed, resultOf, World } from './fixture.ts';

describe.each(engines())('retries on $name', (engine) => {
  let world: World;
  let places = 0;
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
  });

  /** A place of its own with one agent, so that nothing else is claimed there. */
  async function place(): Promise<{ slug: string; agent: LeasedAgent }> {
    const slug = `place-${++places}`;
    await world.location(slug);
    return { slug, agent: await world.agent(slug) };
  }

  /** Fails a session's run until it ends; returns the waits before each retry in seconds. */
  async function failUntilEnd(
    retryStrategy: object,
    network = false,
  ): Promise<{ waits: number[]; id: string }> {
    const { slug, agent } = await place();
    const session = world.session({ locations: [slug], fields: { retryStrategy } });
    const [started] = await world.queue.start([session]);
    const waits: number[] = [];
    for (let n = 0; n < 12; n++) {
      const [job] = await world.claimed(agent, 1);
      expect(job?.attempt).toBe(n);
      const errors = [{ code: 'X', message: 'x', network }];
      expect(await world.record(slug, resultOf(job!, failed, { errors }))).toEqual(['stored']);
      const run = await world.run(job!.runId);
      if (run.state >= RunState.done) break;
      const { finished } = await timesOf(job!);
      const wait = run.not_before.getTime() - finished;
      expect(run.expires_at.getTime() - run.not_before.getTime()).toBe(world.timing.queueExpiryMs);
      waits.push(Math.round(wait / 1000));
      await world.elapse(run.id, wait + 1);
    }
    return { waits, id: started!.sessionId };
  }

  async function timesOf(job: Job): Promise<{ finished: number }> {
    const row = await world.store.db
      .selectFrom('check_result')
      .select('created_at')
      .where('run_id', '=', job.runId)
      .where('attempts', '=', job.attempt)
      .executeTakeFirstOrThrow();
    return { finished: row.created_at.getTime() };
  }

  test.each([
    ['FIXED', { type: 'FIXED', baseBackoffSeconds: 5, maxRetries: 2 }, [5, 5]],
    ['LINEAR', { type: 'LINEAR', baseBackoffSeconds: 5, maxRetries: 3 }, [5, 10, 15]],
    ['EXPONENTIAL', { type: 'EXPONENTIAL', baseBackoffSeconds: 3, maxRetries: 3 }, [3, 9, 27]],
    ['SINGLE_RETRY', { type: 'SINGLE_RETRY', baseBackoffSeconds: 7, maxRetries: 5 }, [7]],
    [
      'the budget',
      { type: 'FIXED', baseBackoffSeconds: 20, maxRetries: 9, maxDurationSeconds: 50 },
      [20, 20],
    ],
  ])(
    '%s: one ATTEMPT per failed try, then FINAL, under one sequence id',
    async (_name, strategy, expected) => {
      const { waits, id } = await failUntilEnd(strategy);
      expect(waits).toEqual(expected);
      const rows = await world.results(id);
      expect(rows.map(({ result_type }) => result_type)).toEqual([...expected.map(() => 'ATTEMPT'), 'FINAL']);
      expect(rows.map(({ attempts }) => attempts)).toEqual([...expected, 0].map((_, n) => n));
      expect(new Set(rows.map(({ sequence_id }) => sequence_id)).size).toBe(1);
      expect(await world.sessionRow(id)).toMatchObject({ status: 'FAILED' });
    },
  );

  test('onlyOn NETWORK_ERROR retries transport failures only', async () => {
    const strategy = { type: 'SINGLE_RETRY', baseBackoffSeconds: 1, onlyOn: ['NETWORK_ERROR'] };
    expect((await failUntilEnd(strategy, false)).waits).toEqual([]);
    expect((await failUntilEnd(strategy, true)).waits).toEqual([1]);
  });

  test('none without a strategy', async () => {
    const { slug, agent } = await place();
    const { job } = await world.running(agent, world.session({ locations: [slug] }));
    await world.record(slug, resultOf(job, failed));
    expect((await world.run(job.runId)).state).toBe(RunState.done);
  });

  test('a passing retry makes the session pass; the failed try stays as ATTEMPT', async () => {
    const { slug, agent } = await place();
    const session = world.session({
      locations: [slug],
      fields: { retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0 } },
    });
    const { sessionId, job } = await world.running(agent, session);
    await world.record(slug, resultOf(job, { hasErrors: true }));
    expect(await world.sessionRow(sessionId)).toMatchObject({ status: 'PROGRESS', stopped_at: null });
    const [retry] = await world.claimed(agent, 1);
    expect(retry).toMatchObject({ runId: job.runId, attempt: 1, token: 2 });
    await world.record(slug, resultOf(retry!));
    expect(await world.sessionRow(sessionId)).toMatchObject({ status: 'PASSED' });
    expect((await world.results(sessionId)).map((row) => [row.result_type, row.attempts])).toEqual([
      ['ATTEMPT', 0],
      ['FINAL', 1],
    ]);
    expect(await world.record(slug, resultOf(job, { hasErrors: true }))).toEqual(['duplicate']);
  });

  test('an outcome of an attempt that was repeated already is late', async () => {
    const { slug, agent } = await place();
    const session = world.session({
      locations: [slug],
      fields: { retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0 } },
    });
    const { job } = await world.running(agent, session);
    await world.elapse(job.runId, 301_000);
    await world.sweep();
    const [again] = await world.claimed(agent, 1);
    expect(await world.record(slug, resultOf(again!, failed))).toEqual(['stored']);
    expect(await world.record(slug, resultOf(job, failed))).toEqual(['late']);
  });

  describe('elsewhere', () => {
    async function twoPlaces(fields: object, change: Partial<NewSession> = {}) {
      const [one, two] = [await place(), await place()];
      const checkId = newId();
      await world.store.db
        .insertInto('check_def')
        .values({
          id: checkId,
          account_id: world.accountId,
          type: 'URL',
          name: 'moving',
          activated: true,
          tags: [],
          run_locations: ['eu-west-1', one.slug, two.slug],
          interval_ms: 60_000,
          definition: '{}',
          next_at: null,
          last_session_id: null,
        })
        .execute();
      const session = world.session({ checkId, locations: [one.slug], ...change });
      session.definition = { name: 'moving', ...fields };
      const { job } = await world.running(one.agent, session);
      await world.record(one.slug, resultOf(job, failed));
      return { one, two, location: (await world.run(job.runId)).location };
    }

    test('doubleCheck retries once, at once, in another location that has an agent', async () => {
      const { two, location } = await twoPlaces({ doubleCheck: true });
      expect(location).toBe(two.slug);
      const [job] = await world.claimed(two.agent, 1);
      expect(await world.record(two.slug, resultOf(job!, failed))).toEqual(['stored']);
      expect((await world.run(job!.runId)).state).toBe(RunState.done);
    });

    test('sameRegion false moves, sameRegion true stays', async () => {
      const strategy = { type: 'FIXED', baseBackoffSeconds: 0 };
      const moved = await twoPlaces({ retryStrategy: { ...strategy, sameRegion: false } });
      expect(moved.location).toBe(moved.two.slug);
      const stayed = await twoPlaces({ retryStrategy: { ...strategy, sameRegion: true } });
      expect(stayed.location).toBe(stayed.one.slug);
    });

    test('parallel checks stay where they are', async () => {
      const { one, location } = await twoPlaces({ doubleCheck: true, runParallel: true });
      expect(location).toBe(one.slug);
    });
  });
});
