import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/kit/ids.ts';
import { RunState } from '../../src/service/store/schema.ts';
import { engines } from '../support/databases.ts';
import { failed, resultOf, World } from './fixture.ts';

describe.each(engines())('results on $name', (engine) => {
  let world: World;
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
  });

  test('the first outcome is counted, with its detail; the same again is a duplicate', async () => {
    const agent = await world.agent();
    const { sessionId, job } = await world.running(agent);
    const result = resultOf(job, { isDegraded: true });
    expect(await world.record('here', result)).toEqual(['stored']);
    expect(await world.record('here', result, result)).toEqual(['duplicate', 'duplicate']);
    const rows = await world.results(sessionId);
    expect(rows).toMatchObject([
      {
        id: result.resultId,
        result_type: 'FINAL',
        attempts: 0,
        is_degraded: true,
        response_time: 12.5,
        status_code: 200,
        phases: { total: 12.5 },
        run_id: job.runId,
        sequence_id: job.sequenceId,
        name: 'a check',
        location: 'here',
      },
    ]);
    const { detail } = await world.store.db
      .selectFrom('check_result_detail')
      .select('detail')
      .where('result_id', '=', result.resultId)
      .executeTakeFirstOrThrow();
    expect(detail).toEqual({
      errors: [],
      measured: { eventLoopDelayMs: 0.4, resolvedAddress: '127.0.0.1' },
      apiCheckResult: { statusCode: 200 },
    });
    expect(await world.run(job.runId)).toMatchObject({
      state: RunState.done,
      outcome: 'DEGRADED',
      payload: {},
    });
    expect(await world.sessionRow(sessionId)).toMatchObject({ status: 'DEGRADED' });
  });

  test('the same result twice in one batch is counted once', async () => {
    const agent = await world.agent();
    const { sessionId, job } = await world.running(agent);
    const result = resultOf(job);
    expect(await world.record('here', result, result)).toEqual(['stored', 'duplicate']);
    expect(await world.results(sessionId)).toHaveLength(1);
  });

  test('evidence from an ended lease counts when it is first, and the repetition loses its lease', async () => {
    await world.location('stale');
    const [one, two] = [await world.agent('stale'), await world.agent('stale')];
    const { sessionId, job } = await world.running(one, world.session({ locations: ['stale'] }));
    await world.elapse(job.runId, 301_000);
    await world.sweep();
    const [again] = await world.claimed(two, 1);
    expect(await world.record('stale', resultOf(job))).toEqual(['stored']);
    const { lost } = await world.queue.renew(two.agentId, [
      { runId: again!.runId, token: again!.token, phase: 'running', startedAgoMs: 5 },
    ]);
    expect(lost).toHaveLength(1);
    expect(await world.record('stale', resultOf(again!, failed))).toEqual(['late']);
    expect(await world.results(sessionId)).toHaveLength(1);
    const late = await world.store.db
      .selectFrom('result_late')
      .selectAll()
      .where('session_id', '=', sessionId)
      .execute();
    expect(late).toMatchObject([{ run_id: job.runId, body: { token: 2 } }]);
  });

  test('what does not belong together is rejected', async () => {
    await world.location('elsewhere');
    const { job } = await world.running(await world.agent());
    const good = resultOf(job);
    const reject = async (slug: string, ...results: (typeof good)[]) =>
      expect(await world.record(slug, ...results)).toEqual(results.map(() => 'rejected'));
    await reject('here', { ...good, runId: 999_999_999 });
    await reject('here', { ...good, sequenceId: newId() });
    await reject('here', { ...good, token: good.token + 1 });
    await reject('elsewhere', good);
    const foreign = await world.queue.record({ accountId: newId(), slug: 'here' }, [good]);
    expect(foreign).toMatchObject([{ status: 'rejected', reason: 'there is no such run' }]);
    expect(await world.record('here', good)).toEqual(['stored']);
  });

  test('a row that the store refuses does not refuse its neighbours', async () => {
    const agent = await world.agent();
    const jobs = [];
    for (let n = 0; n < 5; n++) jobs.push((await world.running(agent)).job);
    const results = jobs.map((job) => resultOf(job));
    results[2] = { ...results[2]!, statusCode: 2 ** 40 };
    expect(await world.record('here', ...results)).toEqual([
      'stored',
      'stored',
      'rejected',
      'stored',
      'stored',
    ]);
  });

  test('bodies of targets may hold what jsonb refuses', async () => {
    const agent = await world.agent();
    const { job } = await world.running(agent);
    const detail = { apiCheckResult: { body: 'a\0b\ud800' } };
    expect(await world.record('here', resultOf(job, {}, { detail }))).toEqual(['stored']);
  });

  test('a missing partition makes the receipt `retry`, and is made', async () => {
    const { job } = await world.running(await world.agent());
    const { scheduled_at } = await world.run(job.runId);
    const day = scheduled_at.toISOString().slice(0, 10).replaceAll('-', '');
    await sql`drop table ${sql.table(`check_result_${day}`)}`.execute(world.store.db);
    await sql`drop table ${sql.table(`check_result_detail_${day}`)}`.execute(world.store.db);
    const [receipt] = await world.queue.record({ accountId: world.accountId, slug: 'here' }, [resultOf(job)]);
    expect(receipt).toMatchObject({ status: 'retry', afterMs: expect.any(Number) });
    expect(await world.record('here', resultOf(job))).toEqual(['stored']);
  });

  test('a batch of 100 is one transaction, and each session ends', async () => {
    await world.location('batch');
    const agent = await world.agent('batch');
    const sessions = Array.from({ length: 100 }, () => world.session({ locations: ['batch'] }));
    const started = await world.queue.start(sessions);
    const jobs = await world.claimed(agent, 100);
    const statuses = await world.record('batch', ...jobs.map((job) => resultOf(job)));
    expect(new Set(statuses)).toEqual(new Set(['stored']));
    const { rows } = await sql<{ count: number; transactions: number }>`
      select count(*) as count, count(distinct xmin::text) as transactions from check_result
      where location = 'batch'`.execute(world.store.db);
    expect(rows).toEqual([{ count: 100, transactions: 1 }]);
    const open = await world.store.db
      .selectFrom('check_session')
      .select('id')
      .where(
        'id',
        'in',
        started.map(({ sessionId }) => sessionId),
      )
      .where('stopped_at', 'is', null)
      .execute();
    expect(open).toEqual([]);
  });
});
