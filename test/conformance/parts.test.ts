import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Job } from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';
import type { LeasedAgent, NewSession } from '../../src/service/ports.ts';
import { RunState } from '../../src/service/store/schema.ts';
import { artifacts, wholeResultId } from '../../src/service/store/index.ts';
import { engines } from '../support/databases.ts';
import { failed, resultOf, World } from './fixture.ts';

const bytes = { contentType: 'application/zip', size: 10, sha256: 'a'.repeat(64), state: 'pending' } as const;

describe.each(engines())('suites in parts on $name', (engine) => {
  let world: World;
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
  });

  const suite = (shards: number): NewSession =>
    world.session({ checkType: 'PLAYWRIGHT', jobClass: 'suite', fields: { shards, shard: null } });

  async function started(
    agent: LeasedAgent,
    session: NewSession,
  ): Promise<{ sessionId: string; whole: string; jobs: Job[] }> {
    const [{ sessionId, sequenceIds } = { sessionId: '', sequenceIds: [] }] = await world.queue.start([
      session,
    ]);
    const jobs = await world.queue.claim(agent, 'suite', 10);
    await world.queue.accept(agent.agentId, jobs);
    return { sessionId, whole: sequenceIds[0]!, jobs };
  }

  const agentOf = async (): Promise<LeasedAgent> => world.agent('here', ['PLAYWRIGHT']);

  test('are a run each, whose results are shown as one when all are here', async () => {
    const agent = await agentOf();
    const { sessionId, whole, jobs } = await started(agent, suite(3));
    expect(jobs.map(({ spec }) => spec['shard'])).toEqual([1, 2, 3].map((index) => ({ index, total: 3 })));
    expect(new Set(jobs.map(({ sequenceId }) => sequenceId)).size).toBe(3);

    const [first, second, third] = jobs.map((job, at) =>
      resultOf(job, at === 1 ? failed : {}, {
        responseTimeMs: 100 * (at + 1),
        errors: at === 1 ? [{ code: 'TEST_FAILED', message: 'expected 1', network: false }] : [],
        artifacts: [{ name: 'trace.zip', kind: 'trace', ...bytes }],
        detail: {
          browserCheckResult: { type: 'PLAYWRIGHT_TEST', playwrightTestTraces: ['artifact:trace.zip'] },
        },
      }),
    );
    expect(await world.record('here', first!, second!)).toEqual(['stored', 'stored']);
    expect(await world.results(sessionId)).toEqual([]);
    expect(await world.record('here', first!)).toEqual(['duplicate']);
    expect(await world.record('here', third!)).toEqual(['stored']);

    const results = await world.results(sessionId);
    expect(results).toHaveLength(1);
    expect(results[0]).toMatchObject({
      id: wholeResultId(whole),
      sequence_id: whole,
      result_type: 'FINAL',
      has_failures: true,
      response_time: 300,
    });
    expect(results[0]!.error_group_ids).toHaveLength(1);
    expect((await world.sessionRow(sessionId)).status).toBe('FAILED');
    const { detail } = await world.store.db
      .selectFrom('check_result_detail')
      .select('detail')
      .where('result_id', '=', wholeResultId(whole))
      .executeTakeFirstOrThrow();
    expect(detail).toMatchObject({
      errors: [{ message: 'expected 1' }],
      browserCheckResult: {
        type: 'PLAYWRIGHT_TEST',
        playwrightTestTraces: [1, 2, 3].map((n) => `artifact:shard-${n}/trace.zip`),
      },
    });
    const files = await artifacts.artifactsOf(world.store.db, wholeResultId(whole));
    expect(files.map(({ name }) => name)).toEqual([1, 2, 3].map((n) => `shard-${n}/trace.zip`));
    const announced = await artifacts.findAnnounced(world.store.db, second!.resultId, 'trace.zip', {
      accountId: world.accountId,
      location: 'here',
    });
    expect(announced?.name).toBe('shard-2/trace.zip');
  });

  test('end once when the last two parts come at the same moment', async () => {
    const agent = await agentOf();
    const { sessionId, jobs } = await started(agent, suite(2));
    const receipts = await Promise.all(jobs.map(async (job) => world.record('here', resultOf(job))));
    expect(receipts).toEqual([['stored'], ['stored']]);
    expect(await world.results(sessionId)).toHaveLength(1);
    expect((await world.sessionRow(sessionId)).status).toBe('PASSED');
  });

  test('count once each: what comes twice, or after the whole, is kept apart', async () => {
    const agent = await agentOf();
    const { sessionId, whole, jobs } = await started(agent, suite(2));
    const [first, second] = [jobs[0]!, jobs[1]!];
    expect(await world.record('here', resultOf(first))).toEqual(['stored']);
    expect(await world.record('here', resultOf(first, failed, { resultId: newId() }))).toEqual(['late']);
    expect(await world.record('here', resultOf(second))).toEqual(['stored']);
    const late = resultOf(second, failed, { resultId: newId() });
    expect(await world.record('here', late)).toEqual(['late']);
    expect(await world.record('there', resultOf(second, failed, { resultId: newId() }))).toEqual(['late']);
    expect(await world.results(sessionId)).toMatchObject([
      { id: wholeResultId(whole), has_failures: false, error_group_ids: [] },
    ]);
    expect((await world.sessionRow(sessionId)).status).toBe('PASSED');
    const kept = await world.store.db
      .selectFrom('result_late')
      .select('id')
      .where('session_id', '=', sessionId)
      .execute();
    expect(kept).toHaveLength(3);
  });

  test('that run again count as they were found first, whoever found it', async () => {
    const [lost, other] = [await agentOf(), await agentOf()];
    const { sessionId, jobs } = await started(lost, suite(2));
    for (const { runId } of jobs) await world.elapse(runId, 400_000);
    await world.sweep();
    const again = await world.queue.claim(other, 'suite', 10);
    await world.queue.accept(other.agentId, again);
    expect(again.map(({ runId }) => runId)).toEqual(jobs.map(({ runId }) => runId));
    expect(await world.record('here', resultOf(jobs[0]!))).toEqual(['stored']);
    expect(await world.record('here', ...again.map((job) => resultOf(job, failed)))).toEqual([
      'late',
      'stored',
    ]);
    expect(await world.results(sessionId)).toMatchObject([{ has_failures: true }]);
    expect(await world.record('here', resultOf(jobs[1]!))).toEqual(['late']);
    expect(await world.results(sessionId)).toHaveLength(1);
  });

  test('end in one result when they are cancelled as the last of them arrives', async () => {
    const agent = await agentOf();
    for (let round = 0; round < 10; round++) {
      const { sessionId, jobs } = await started(agent, suite(2));
      await world.record('here', resultOf(jobs[0]!));
      const isCancelled = round % 2 === 0;
      await Promise.all([
        world.queue.cancelSession(world.accountId, sessionId),
        world.record('here', resultOf(jobs[1]!, { isCancelled })),
      ]);
      const results = await world.results(sessionId);
      expect(results).toMatchObject([{ is_cancelled: isCancelled, has_errors: false }]);
      expect((await world.sessionRow(sessionId)).status).toBe(isCancelled ? 'CANCELLED' : 'PASSED');
    }
  });

  test('that no agent could run end in time, without a result', async () => {
    const [{ sessionId } = { sessionId: '' }] = await world.queue.start([
      { ...suite(2), locations: ['nobody'] },
    ]);
    const runs = await world.store.db
      .selectFrom('run')
      .select('id')
      .where('session_id', '=', sessionId)
      .execute();
    for (const { id } of runs) await world.elapse(id, 400_000);
    await world.sweep();
    expect(await world.sessionRow(sessionId)).toMatchObject({
      status: 'TIMED_OUT',
      end_reason: 'NO_AGENT_CONNECTED',
    });
    expect(await world.results(sessionId)).toEqual([]);
  });

  test('are cancelled as one: what waits ends at once, what runs says so itself', async () => {
    const agent = await agentOf();
    const [{ sessionId, sequenceIds } = { sessionId: '', sequenceIds: [''] }] = await world.queue.start([
      suite(2),
    ]);
    const [job] = await world.queue.claim(agent, 'suite', 1);
    await world.queue.accept(agent.agentId, [job!]);
    expect(await world.queue.cancelSession(world.accountId, sessionId, [sequenceIds[0]!])).toBe(true);
    expect(await world.queue.toCancel(agent.agentId)).toHaveLength(1);
    expect(await world.results(sessionId)).toEqual([]);
    await world.record('here', resultOf(job!, { isCancelled: true }));
    const results = await world.results(sessionId);
    expect(results).toHaveLength(1);
    expect(results[0]).toMatchObject({ is_cancelled: true, has_failures: false, has_errors: false });
    expect((await world.sessionRow(sessionId)).status).toBe('CANCELLED');
  });

  test('wait for their turn for hours; with a part that nobody took they are our error, and say which', async () => {
    const agent = await agentOf();
    const [{ sessionId } = { sessionId: '' }] = await world.queue.start([suite(2)]);
    const [job] = await world.queue.claim(agent, 'suite', 1);
    await world.queue.accept(agent.agentId, [job!]);
    await world.record('here', resultOf(job!));
    const waiting = await world.store.db
      .selectFrom('run')
      .select('id')
      .where('session_id', '=', sessionId)
      .where('state', '=', 0)
      .executeTakeFirstOrThrow();
    await world.elapse(waiting.id, 3_600_000);
    await world.sweep();
    expect((await world.run(waiting.id)).state).toBe(RunState.queued);
    await world.elapse(waiting.id, 4 * 3_600_000);
    await world.sweep();
    const [result] = await world.results(sessionId);
    expect(result).toMatchObject({ has_errors: true, has_failures: false });
    const { detail } = await world.store.db
      .selectFrom('check_result_detail')
      .select('detail')
      .where('result_id', '=', result!.id)
      .executeTakeFirstOrThrow();
    expect(detail['errors']).toMatchObject([
      { code: 'PART_MISSING', message: expect.stringMatching(/^part 2 of 2 has no result: /) as string },
    ]);
    expect((await world.sessionRow(sessionId)).status).toBe('TIMED_OUT');
  });
});

describe.each(engines())('errors that come again on $name', (engine) => {
  let world: World;
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
  });

  async function check(): Promise<string> {
    const id = newId();
    await world.store.db
      .insertInto('check_def')
      .values({
        id,
        account_id: world.accountId,
        type: 'URL',
        name: 'a check',
        activated: true,
        tags: [],
        run_locations: ['here'],
        group_id: null,
        interval_ms: 60_000,
        definition: '{}',
        last_session_id: null,
      })
      .execute();
    return id;
  }

  const failing = async (checkId: string, ...messages: string[]) => {
    const agent = await world.agent();
    const { sessionId, job } = await world.running(agent, world.session({ checkId }));
    const errors = messages.map((message) => ({ code: 'ECONNREFUSED', message, network: true }));
    await world.record('here', resultOf(job, failed, { errors }));
    return (await world.results(sessionId))[0]!.error_group_ids;
  };

  const groupsOf = async (checkId: string) =>
    world.store.db.selectFrom('error_group').selectAll().where('check_id', '=', checkId).execute();

  test('are one group of their check, however their numbers differ', async () => {
    const checkId = await check();
    const first = await failing(checkId, 'connect ECONNREFUSED 10.0.0.1:443', 'and what came of it');
    expect(first).toHaveLength(1);
    await world.store.db.updateTable('error_group').set({ archived_until_next_event: true }).execute();
    expect(await failing(checkId, 'connect ECONNREFUSED 10.0.0.2:443')).toEqual(first);
    const groups = await groupsOf(checkId);
    expect(groups).toHaveLength(1);
    expect(groups[0]).toMatchObject({
      id: first[0],
      raw_error_message: 'connect ECONNREFUSED 10.0.0.2:443',
      cleaned_error_message: 'connect ECONNREFUSED <n>.<n>:<n>',
      archived_until_next_event: false,
    });
    expect(groups[0]!.last_seen > groups[0]!.first_seen).toBe(true);
    expect(await failing(checkId, 'certificate has expired')).not.toEqual(first);
    expect(await groupsOf(checkId)).toHaveLength(2);
  });

  test('are others of another check, and none of a check that is gone', async () => {
    const [one, other, gone] = [await check(), await check(), newId()];
    expect(await failing(one, 'refused')).not.toEqual(await failing(other, 'refused'));
    await failing(gone, 'refused');
    expect(await groupsOf(gone)).toEqual([]);
  });
});
