import { derivedId, newId } from '../src/kit/ids.ts';
import { DEFAULT_TIMING, type Job, type RunResult } from '../src/contract/index.ts';
import { createQueue } from '../src/service/queue/index.ts';
import type { NewSession, Queue } from '../src/service/ports.ts';
import { engines, silentLog } from '../test/support/databases.ts';
import { runResult } from '../test/support/results.ts';
import type { Row } from './report.ts';

const RUNS = 4000;
const BATCH = 10;
const account = { accountId: newId(), slug: 'bench' };
const agent = { agentId: newId(), accountId: account.accountId, location: account.slug, checkTypes: ['URL'] };

/** Jobs per second through claim, accept and result, ten at a time, on each store; no goal as a ratio. */
export async function benchQueue(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const engine of engines()) {
    await engine.start();
    const place = await engine.fresh();
    const store = await place.open();
    try {
      const queue = createQueue({ store, timing: DEFAULT_TIMING, log: silentLog });
      for (let i = 0; i < RUNS; i += 500) await queue.start(Array.from({ length: 500 }, newSession));
      const loops = engine.name === 'postgres' ? 8 : 1;
      const begun = performance.now();
      const finished = await Promise.all(Array.from({ length: loops }, () => drain(queue)));
      const perSecond = finished.reduce((a, b) => a + b, 0) / ((performance.now() - begun) / 1000);
      rows.push({
        name: `queue: claim, accept, result in tens, ${engine.name}, ${loops} at once`,
        ours: `${perSecond.toFixed(0)} jobs/s`,
        peer: '–',
      });
    } finally {
      await store.close();
      await engine.stop();
    }
  }
  return rows;
}

async function drain(queue: Queue): Promise<number> {
  let finished = 0;
  for (;;) {
    const jobs = await queue.claim(agent, 'light', BATCH);
    if (jobs.length === 0) return finished;
    await queue.accept(
      agent.agentId,
      jobs.map(({ runId, token }) => ({ runId, token })),
    );
    const receipts = await queue.record(account, jobs.map(resultOf));
    const lost = receipts.filter((receipt) => receipt.status !== 'stored');
    if (lost.length > 0) throw new Error(`${lost.length} results were not stored: ${lost[0]!.reason}`);
    finished += jobs.length;
  }
}

function newSession(): NewSession {
  return {
    accountId: account.accountId,
    checkId: newId(),
    checkType: 'URL',
    name: 'bench',
    runSource: 'TRIGGER_API',
    lane: 0,
    scheduledAt: new Date(),
    locations: [account.slug],
    definition: { name: 'bench', request: { url: 'http://127.0.0.1/' }, retryStrategy: null },
    jobClass: 'light',
    timeoutMs: 30_000,
  };
}

function resultOf({ runId, sequenceId, token, attempt }: Job): RunResult {
  const now = new Date().toISOString();
  return runResult({
    resultId: derivedId(sequenceId, attempt, token),
    runId,
    sequenceId,
    token,
    attempt,
    startedAt: now,
    stoppedAt: now,
    detail: { apiCheckResult: { response: { status: 200, body: 'x'.repeat(1000) } } },
  });
}
