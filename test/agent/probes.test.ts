import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { ExecutorFault } from '../../src/agent/ports.ts';
import { ProbePool, type PoolOptions } from '../../src/agent/probes/index.ts';
import type { Job } from '../../src/contract/index.ts';
import { standInJob, STAND_IN_PROBE } from '../support/agent.ts';
import { until } from '../support/fake-service.ts';

const NEVER = new AbortController().signal;

interface TestPool extends AsyncDisposable {
  pool: ProbePool;
  ended: string[];
  run(job: Job): Promise<number>;
}

async function startPool(options: Partial<PoolOptions> = {}): Promise<TestPool> {
  const ended: string[] = [];
  const pool = new ProbePool({
    size: 2,
    perProbe: 4,
    heapMb: 48,
    setup: { useOsResolver: false },
    extraCaCerts: undefined,
    log: pino({ level: 'silent' }),
    entry: STAND_IN_PROBE,
    ...options,
  });
  pool.events.onEnded = (cause) => ended.push(cause);
  const stop = new AbortController();
  const kept = pool.keep(stop.signal);
  const { size = 2 } = options;
  await until('the probes', () => pool.processes.filter(({ state }) => state === 'ready').length === size);
  return {
    pool,
    ended,
    run: async (job) => {
      const finished = await pool.run(job, NEVER);
      const found = finished?.report.detail['apiCheckResult'] as { pid: number } | undefined;
      return found?.pid ?? 0;
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await kept;
    },
  };
}

describe('probe processes', () => {
  test('tries go to the least loaded process, many at once, the rest waits in order', async () => {
    await using p = await startPool();
    const jobs = Array.from({ length: 10 }, () => standInJob({ sleepMs: 100 }));
    const running = jobs.map((job) => p.run(job));
    expect(p.pool.processes.map(({ load }) => load)).toEqual([4, 4]);
    expect(p.pool.waiting).toBe(2);
    const pids = await Promise.all(running);
    expect(new Set(pids).size).toBe(2);
    expect(p.pool.waiting).toBe(0);
  });

  test('a try that is aborted ends at once; its place is free when the process lets go', async () => {
    await using p = await startPool({ size: 1 });
    const stop = new AbortController();
    const run = p.pool.run(standInJob({ sleepMs: 20_000 }), stop.signal);
    stop.abort();
    expect(await run).toBeUndefined();
    await until('the free place', () => p.pool.processes[0]?.load === 0);
    expect(p.ended).toEqual([]);
  });

  test('the innocent tries of a crashed process are begun again; the guilty one is reported after two', async () => {
    await using p = await startPool({ size: 1 });
    const innocent = Array.from({ length: 3 }, () => p.run(standInJob({ sleepMs: 400 })));
    const guilty = p.pool.run(standInJob({ end: 'exit', sleepMs: 50 }), NEVER);
    await expect(guilty).rejects.toMatchObject({ code: 'PROBE_CRASHED' });
    await expect(guilty).rejects.toBeInstanceOf(ExecutorFault);
    expect((await Promise.all(innocent)).every((pid) => pid > 0)).toBe(true);
    expect(p.ended).toEqual(['crash', 'crash']);
  });

  test('a heap that is full ends the process with its cause named', async () => {
    await using p = await startPool({ size: 1 });
    await expect(p.pool.run(standInJob({ end: 'leak' }), NEVER)).rejects.toMatchObject({
      code: 'PROBE_CRASHED',
    });
    expect(p.ended).toEqual(['out_of_memory', 'out_of_memory']);
  });

  test('a process whose event loop is blocked is ended and replaced', { timeout: 60_000 }, async () => {
    await using p = await startPool({ size: 1, silentBeats: 2 });
    const guilty = p.pool.run(standInJob({ end: 'hang' }), NEVER);
    const innocent = p.run(standInJob({ sleepMs: 200 }));
    await expect(guilty).rejects.toMatchObject({ code: 'PROBE_CRASHED' });
    expect(await innocent).toBeGreaterThan(0);
    expect(p.ended).toEqual(['hung', 'hung']);
  });

  test('a try that outlives its time is ended from outside, and its process replaced', async () => {
    await using p = await startPool({ size: 1, graceMs: 100 });
    const [before] = p.pool.processes;
    const run = p.pool.run(standInJob({ sleepMs: 2_000, deaf: true }, { timeoutMs: 100 }), NEVER);
    await expect(run).rejects.toMatchObject({ code: 'TRY_OVERDUE' });
    await until('the replacement', () =>
      p.pool.processes.some(({ pid, state }) => pid !== before?.pid && state === 'ready'),
    );
    expect(await p.run(standInJob())).not.toBe(before?.pid);
  });

  test('a process that served its share is replaced without a gap', async () => {
    await using p = await startPool({ size: 1, recycleTries: 3 });
    const pids = new Set<number>();
    await until(
      'a second process',
      () => pids.size > 1 || void p.run(standInJob()).then((pid) => pids.add(pid)),
    );
    expect(p.ended.filter((cause) => cause !== 'replaced')).toEqual([]);
  });

  test('a program that does not start is reported with what it said', async () => {
    const stop = new AbortController();
    const pool = new ProbePool({
      size: 1,
      perProbe: 1,
      heapMb: 48,
      setup: { useOsResolver: false },
      extraCaCerts: undefined,
      log: pino({ level: 'silent' }),
      entry: new URL('../support/not-there.ts', import.meta.url),
    });
    const kept = pool.keep(stop.signal);
    const error = await until('the error', () => pool.startError);
    expect(error).toContain('not-there.ts');
    expect(pool.ready).toBe(false);
    stop.abort();
    await kept;
  });
});
