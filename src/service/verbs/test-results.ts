import { isUuid } from '../../kit/ids.ts';
import { artifacts, results, runLogs, sequenceIdOf, type ResultRow, type RunLogRow } from '../store/index.ts';
import { openAssetOf, type AssetBytes, type ResultAssets } from './assets.ts';
import type { Caller } from './caller.ts';
import { notFound, Refusal } from './refusal.ts';
import { getTestSession, type TestSession } from './test-sessions.ts';
import { WakeWaiter } from './wake-waiter.ts';

/** Rows of one answer; each is 64 kB at most. */
const MAX_LOG_ROWS = 16;

export interface TestResult {
  result: ResultRow;
  /** The check that was tested; null for one that is stored nowhere. */
  checkId: string | null;
}

/** @param id of a result, or of a sequence: then its final result */
export async function getTestResult(caller: Caller, testSessionId: string, id: string): Promise<TestResult> {
  const session = await getTestSession(caller, testSessionId);
  const wanted = id.toLowerCase();
  const found = session.results.find(
    (each) => each.id === wanted || (each.sequence_id === wanted && each.result_type === 'FINAL'),
  );
  if (found === undefined && partOf(session, wanted) !== undefined) {
    throw new Refusal(
      'notFound',
      `result ${JSON.stringify(id)} is not here: its run has not ended, or had no result`,
    );
  }
  const [result] = found === undefined ? [] : await results.findResults(caller.store.db, [found.id]);
  if (result === undefined) throw notFound('result of the test session', id);
  const part = session.parts.find((each) => each.id === result.session_id);
  return { result, checkId: part?.tested_check_id ?? null };
}

const partOf = ({ row, parts }: TestSession, sequenceId: string) =>
  isUuid(sequenceId)
    ? parts.find((part) => sequenceIdOf(part.id, row.run_location) === sequenceId)
    : undefined;

export async function listTestAssets(
  caller: Caller,
  testSessionId: string,
  id: string,
): Promise<ResultAssets & TestResult> {
  const found = await getTestResult(caller, testSessionId, id);
  return { ...found, assets: await artifacts.artifactsOf(caller.store.db, found.result.id) };
}

export async function openTestAsset(
  caller: Caller,
  testSessionId: string,
  id: string,
  assetId: string,
): Promise<AssetBytes> {
  return openAssetOf(caller, (await listTestAssets(caller, testSessionId, id)).assets, assetId);
}

export interface LogPage {
  rows: RunLogRow[];
  /** Where the next page begins. */
  next: number;
  /** Nothing more will come. */
  isOver: boolean;
}

/**
 * What a run prints while it runs.
 *
 * @param sequenceId of the run
 * @param after the `next` of the page before, 0 from the start
 */
export async function readTestLog(
  caller: Caller,
  testSessionId: string,
  sequenceId: string,
  { after, maxWaitMs, signal }: { after: number; maxWaitMs: number; signal: AbortSignal },
): Promise<LogPage> {
  const part = partOf(await getTestSession(caller, testSessionId), sequenceId.toLowerCase());
  if (part === undefined) throw notFound('sequence of the test session', sequenceId);
  const deadline = performance.now() + maxWaitMs;
  const awake = new WakeWaiter(caller, [part.id]);
  try {
    for (;;) {
      // The end first: what was printed before it is seen then.
      const now = partOf(await getTestSession(caller, testSessionId), sequenceId.toLowerCase());
      const isOver = now === undefined || now.stopped_at !== null;
      const rows = await runLogs.read(caller.store.db, part.id, after, MAX_LOG_ROWS);
      const isLast = rows.length < MAX_LOG_ROWS;
      if (rows.length > 0 || isOver || signal.aborted || performance.now() >= deadline) {
        return { rows, next: rows.at(-1)?.id ?? after, isOver: isOver && isLast };
      }
      await awake.wait(deadline - performance.now(), signal);
    }
  } finally {
    awake.stop();
  }
}
