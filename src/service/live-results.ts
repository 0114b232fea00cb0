import { z } from 'zod';
import { messageOf } from '../kit/errors.ts';
import type { Queue, ServiceContext } from './ports.ts';
import { results, type ResultRow } from './store/index.ts';

/** A result just stored, for a person who watches. */
export interface LiveResult {
  checkId: string;
  checkName: string;
  checkType: string;
  location: string;
  resultType: 'FINAL' | 'ATTEMPT';
  hasFailures: boolean;
  hasErrors: boolean;
  isDegraded: boolean;
  isCancelled: boolean;
  /** ms; null when nothing was measured. */
  responseTimeMs: number | null;
  statusCode: number | null;
  startedAt: Date;
  /** Why it failed, in a sentence; null when it passed. */
  message: string | null;
}

/** Results of suites in parts that are remembered, so that each is told once. */
const MAX_TOLD = 1000;

/** The same queue, whose stored results are also told to `onResult`; receipts never wait for that. */
export function watchResults(
  queue: Queue,
  { store, log }: Pick<ServiceContext, 'store' | 'log'>,
  onResult: (result: LiveResult) => void,
): Queue {
  const told = new Set<string>();
  const tell = async (ids: readonly string[]): Promise<void> => {
    const wholes = new Set(await results.wholesOfParts(store.db, ids));
    for (const row of await results.findResults(store.db, [...ids, ...wholes])) {
      // Parts that end together all find their whole.
      if (told.has(row.id)) continue;
      if (wholes.has(row.id)) told.add(row.id);
      onResult(liveResult(row));
    }
    if (told.size > MAX_TOLD) told.clear();
  };
  const record: Queue['record'] = async (location, batch) => {
    const receipts = await queue.record(location, batch);
    const stored = receipts.filter(({ status }) => status === 'stored').map(({ resultId }) => resultId);
    tell(stored).catch((error: unknown) => log.debug({ reason: messageOf(error) }, 'results not shown'));
    return receipts;
  };
  return { ...queue, record };
}

const Failures = z.object({ errors: z.array(z.object({ message: z.string() })) });

function liveResult(row: ResultRow): LiveResult {
  const failures = Failures.safeParse(row.detail);
  return {
    checkId: row.check_id,
    checkName: row.name,
    checkType: row.check_type,
    location: row.location,
    resultType: row.result_type,
    hasFailures: row.has_failures,
    hasErrors: row.has_errors,
    isDegraded: row.is_degraded,
    isCancelled: row.is_cancelled,
    responseTimeMs: row.response_time,
    statusCode: row.status_code,
    startedAt: row.started_at,
    message: failures.data?.errors[0]?.message ?? null,
  };
}
