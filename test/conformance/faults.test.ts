import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Job, RunResult } from '../../src/contract/index.ts';
import { sleep } from '../../src/kit/clock.ts';
import type { LeasedAgent } from '../../src/service/ports.ts';
import { engines } from '../support/databases.ts';
import { resultOf, World } from './fixture.ts';

/**
 * Agents that crash, stall and repeat themselves, on leases of 150 ms, against three invariants:
 * every acknowledged result is stored once, each run has one counted FINAL, each run ends once.
 */
const RUNS = 400;
const AGENTS = 8;
const TIMING = { leaseMs: 150, acceptMs: 100, renewEveryMs: 50, queueExpiryMs: 60_000, maxDeliveries: 1000 };

type Fault = 'none' | 'crash' | 'stall' | 'response lost' | 'duplicate';

/** A seeded generator (mulberry32), so that a failing run can be repeated. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function faultOf(chance: number): Fault {
  if (chance < 0.05) return 'crash';
  if (chance < 0.1) return 'stall';
  if (chance < 0.2) return 'response lost';
  return chance < 0.25 ? 'duplicate' : 'none';
}

describe.each(engines())('faults on $name', (engine) => {
  let world: World;
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9));
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh(), TIMING);
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
  });

  test(`nothing is lost and nothing counted twice (SEED=${seed})`, async () => {
    const injected: Record<string, number> = {};
    const acknowledged = new Map<string, string>();
    const answers: Record<string, number> = {};

    const post = async (results: RunResult[], heard: boolean): Promise<void> => {
      const receipts = await world.queue.record({ accountId: world.accountId, slug: 'here' }, results);
      if (!heard) return;
      for (const { resultId, status } of receipts) {
        acknowledged.set(resultId, status);
        answers[status] = (answers[status] ?? 0) + 1;
      }
    };

    const work = async (job: Job, fault: Fault): Promise<void> => {
      injected[fault] = (injected[fault] ?? 0) + 1;
      const result = resultOf(job, { hasFailures: job.runId % 7 === 0 });
      if (fault === 'crash') return;
      if (fault === 'stall') await sleep(TIMING.leaseMs * 3);
      if (fault === 'response lost') await post([result], false);
      await post([result], true);
      if (fault === 'duplicate') await post([result, result], true);
    };

    const agentLife = async (agent: LeasedAgent, chance: () => number): Promise<void> => {
      while ((await unfinished()) > 0) {
        const jobs = await world.queue.claim(agent, 'light', 1 + Math.floor(chance() * 5));
        const { ok } = await world.queue.accept(agent.agentId, jobs);
        const kept = jobs.filter(({ runId }) => ok.some((ref) => ref.runId === runId));
        await Promise.all(kept.map((job) => work(job, faultOf(chance()))));
        if (jobs.length === 0) await sleep(20);
      }
    };

    const unfinished = async (): Promise<number> => {
      const { count } = await world.store.db
        .selectFrom('run')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('state', '<', 3)
        .executeTakeFirstOrThrow();
      return count;
    };

    const sessions = Array.from({ length: RUNS }, () =>
      world.session({
        fields: { retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0, maxRetries: 1 } },
      }),
    );
    await world.queue.start(sessions);
    const agents = await Promise.all(Array.from({ length: AGENTS }, () => world.agent()));
    const stop = new AbortController();
    const reaper = world.queue.loop(stop.signal);
    await Promise.all(agents.map((agent, n) => agentLife(agent, random(seed + n))));
    stop.abort();
    await reaper;

    expect(injected['crash']).toBeGreaterThan(0);
    expect(injected['stall']).toBeGreaterThan(0);
    await expectOneFinalPerRun();
    await expectEveryAcknowledgedResult(acknowledged);
    console.log(
      `${engine.name}: ${RUNS} runs, injected ${JSON.stringify(injected)}, ${JSON.stringify(answers)}`,
    );
  });

  async function expectOneFinalPerRun(): Promise<void> {
    const { rows } = await sql<{ state: number; finals: number; attempts: number; runs: number }>`
      select r.state, f.finals, f.attempts, count(*) as runs from run r
      cross join lateral (
        select count(*) filter (where result_type = 'FINAL') as finals,
               count(*) filter (where result_type = 'ATTEMPT') - r.attempt as attempts
        from check_result c where c.run_id = r.id) f
      group by 1, 2, 3`.execute(world.store.db);
    expect(rows).toEqual([{ state: 3, finals: 1, attempts: 0, runs: RUNS }]);
    const open = await world.store.db
      .selectFrom('check_session')
      .select('id')
      .where('stopped_at', 'is', null)
      .execute();
    expect(open).toEqual([]);
  }

  async function expectEveryAcknowledgedResult(acknowledged: Map<string, string>): Promise<void> {
    const counted = await world.store.db.selectFrom('check_result').select('id').execute();
    const late = await world.store.db.selectFrom('result_late').select('id').execute();
    const kept = new Set([...counted, ...late].map(({ id }) => id));
    expect(kept.size).toBe(counted.length + late.length);
    for (const [id, status] of acknowledged) {
      expect(['stored', 'duplicate', 'late']).toContain(status);
      expect(kept).toContain(id);
    }
  }
});
