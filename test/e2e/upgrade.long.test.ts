import { once } from 'node:events';
import { createServer } from 'node:http';
import { sql } from 'kysely';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Store } from '../../src/service/ports.ts';
import { engines, type Place } from '../support/databases.ts';
import {
  startAgentProcess,
  startServiceProcess,
  type AgentProcess,
  type ServiceProcess,
} from '../support/processes.ts';
import { waitUntil } from '../support/programs.ts';
import { makeCheck, makeLocation, restOf, trigger, type Rest } from '../support/rest.ts';
import { startBalancer } from '../support/targets/balancer.ts';
import { listenOn } from '../support/targets/ports.ts';

const TICKING = 30;
const EVERY_SECONDS = 10;
const ANSWER_AFTER_MS = 1500;
/** Load goes on for this long between two replacements, so that each is under it. */
const BETWEEN_MS = 4000;
/** More than the balancer below needs to see that a replica is not ready. */
const DRAIN_SECONDS = '1';

/** Counts by run and sequence what a rolling upgrade may lose or double. */
interface Count {
  sessions: number;
  passed: number;
  runs: number;
  /** FINAL results. */
  counted: number;
  /** Sequences with another number of FINAL results than one. */
  uneven: number;
  late: number;
  /** The longest time in which no check was started by the scheduler. */
  pauseSeconds: number;
}

async function count({ db }: Store): Promise<Count> {
  const { rows } = await sql<Count>`
    with finals as (
      select r.id, count(c.id)::int as n from run r
      left join check_result c on c.sequence_id = r.sequence_id and c.result_type = 'FINAL' and c.run_id = r.id
      group by r.id
    ), ticks as (
      select scheduled_at - lag(scheduled_at) over (order by scheduled_at) as since
      from run where run_source = 'SCHEDULER'
    )
    select (select count(*)::int from check_session) as sessions,
      (select count(*)::int from check_session where status = 'PASSED') as passed,
      (select count(*)::int from run) as runs,
      (select count(*)::int from check_result where result_type = 'FINAL') as counted,
      (select count(*)::int from finals where n <> 1) as uneven,
      (select count(*)::int from result_late) as late,
      (select extract(epoch from max(since))::float8 from ticks) as "pauseSeconds"`.execute(db);
  return rows[0]!;
}

const isOver = async ({ db }: Store): Promise<boolean> => {
  const { rows } = await sql<{ n: number }>`select count(*)::int as n from run where state < 3`.execute(db);
  return rows[0]!.n === 0;
};

const postgres = engines().find(({ name }) => name === 'postgres');

describe.skipIf(postgres === undefined)('a rolling upgrade under load', () => {
  let place: Place;
  let store: Store;
  beforeAll(async () => {
    await postgres!.start();
    place = await postgres!.fresh();
    store = await place.open();
  });
  afterAll(async () => {
    await store.close();
    await postgres!.stop();
  });

  test('two agents, then two replicas of the service, one by one: nothing lost, nothing doubled', async () => {
    await using parts = new AsyncDisposableStack();
    const startReplica = async (port?: number): Promise<ServiceProcess> =>
      parts.use(await startServiceProcess(place, { SERVICE_DRAIN_SECONDS: DRAIN_SECONDS }, port));
    const replicas = [await startReplica(), await startReplica()];
    const balancer = parts.use(await startBalancer(replicas.map(({ port }) => port)));
    await waitUntil(async () => (await fetch(`${balancer.url}/health`).catch(() => undefined))?.ok === true);
    const turnedAwayAtFirst = balancer.turnedAway;
    const rest = restOf(balancer.url);
    const location = await makeLocation(rest, 'here');
    const startAgent = async (): Promise<AgentProcess> =>
      parts.use(await startAgentProcess(balancer.url, location.key, { JOB_CONCURRENCY: '10' }));
    const agents = [await startAgent(), await startAgent()];
    const target = parts.use(await startTarget());

    const checks = await startChecks(rest, location.slugName, target.url);
    const onDemand = triggerAlong(rest, checks[0]!);
    const began = performance.now();
    await delay(BETWEEN_MS);
    for (const agent of agents) {
      expect(await agent.stop(), agent.output()).toBe(0);
      await startAgent();
      await delay(BETWEEN_MS);
    }
    for (const replica of replicas) {
      expect(await replica.stop(), replica.output()).toBe(0);
      await startReplica(replica.port);
      await delay(BETWEEN_MS);
    }
    const asked = await onDemand.stop();
    // Not by deactivating them, which drops what waits.
    await sql`update check_def set next_at = null`.execute(store.db);
    const minutes = (performance.now() - began) / 60_000;
    await waitUntil(() => isOver(store), 30_000, 'the end of the last run');

    const counts = await count(store);
    const perMinute = Math.round(counts.runs / minutes);
    console.log(
      `rolling upgrade: ${counts.runs} runs (${asked} on demand), ${perMinute} a minute, ${target.arrived()} requests; ` +
        `${counts.passed} passed, ${counts.uneven} not counted once, ${counts.late} late; longest pause of the scheduler ${counts.pauseSeconds.toFixed(1)} s`,
    );
    expect(perMinute).toBeGreaterThanOrEqual(100);
    expect(balancer.turnedAway).toBe(turnedAwayAtFirst);
    expect(counts).toEqual({
      sessions: counts.runs,
      passed: counts.runs,
      runs: counts.runs,
      counted: counts.runs,
      uneven: 0,
      late: 0,
      pauseSeconds: expect.any(Number),
    });
    // A tick is skipped while the run of the one before goes on; all thirty are not.
    expect(counts.pauseSeconds).toBeLessThan(EVERY_SECONDS);
    expect(target.arrived(), 'every run was executed once').toBe(counts.runs);
  }, 240_000);
});

/** A site that takes its time, so that whoever is stopped has runs under way. */
async function startTarget(): Promise<AsyncDisposable & { url: string; arrived(): number }> {
  let arrived = 0;
  const server = createServer((_request, response) => {
    arrived += 1;
    setTimeout(() => response.end('here'), ANSWER_AFTER_MS);
  });
  const port = await listenOn(server);
  return {
    url: `http://127.0.0.1:${port}`,
    arrived: () => arrived,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Checks of every ten seconds. @returns their ids */
async function startChecks(rest: Rest, slug: string, url: string): Promise<string[]> {
  return Promise.all(
    Array.from({ length: TICKING }, async () =>
      makeCheck(rest, 'url', slug, {
        activated: true,
        frequency: 0,
        frequencyOffset: EVERY_SECONDS,
        request: { url: `${url}/` },
      }),
    ),
  );
}

/** A client that starts a check twice a second, each time over a connection of its own; every call must succeed. */
function triggerAlong(rest: Rest, checkId: string): { stop(): Promise<number> } {
  let stopped = false;
  const calls = (async () => {
    let made = 0;
    for (; !stopped; made++) {
      await trigger(rest, checkId);
      await delay(500);
    }
    return made;
  })();
  calls.catch(() => undefined);
  return {
    stop: () => {
      stopped = true;
      return calls;
    },
  };
}
