import { sql } from 'kysely';
import type { Trx } from '../ports.ts';
import { RunState } from '../store/schema.ts';
import { lockOpen, type OpenRun } from './run-row.ts';
import { refreshSessions } from './session-status.ts';
import { cancelled, endRuns, insertResults, mergeWholes } from './settle.ts';

/**
 * Cancels the unfinished runs of a session. What no agent has accepted ends now; the agents of the
 * others are asked to stop, and their FINAL says isCancelled.
 *
 * @param sequenceIds only these; all without
 * @returns the runs concerned, or undefined when the account has no such session
 */
export async function cancelRuns(
  trx: Trx,
  accountId: string,
  sessionId: string,
  sequenceIds?: readonly string[],
): Promise<OpenRun[] | undefined> {
  const { rows: known } = await sql`
    select 1 from check_session where id = ${sessionId} and account_id = ${accountId}`.execute(trx);
  if (known.length === 0) return undefined;
  const wanted =
    sequenceIds === undefined
      ? sql`true`
      : sql`coalesce(r.whole_id, r.sequence_id) = any(${[...sequenceIds]}::uuid[])`;
  const open = await lockOpen(trx, sql`r.session_id = ${sessionId} and r.state < 3 and ${wanted}`);
  const running = open.filter(({ state }) => state === RunState.running);
  const waiting = open.filter(({ state }) => state !== RunState.running).map(cancelled);
  await sql`
    update run set cancel_requested = true
    where id = any(${running.map(({ id }) => id)}::bigint[])`.execute(trx);
  await endRuns(
    trx,
    waiting.map(({ ending }) => ending),
  );
  await insertResults(
    trx,
    waiting.map(({ final }) => final),
  );
  await refreshSessions(trx, [sessionId]);
  return open;
}

/**
 * Ends the runs of a check that nobody has accepted. They leave no result. Two conditions, each of
 * which has its partial index.
 */
export async function forgetRuns(trx: Trx, checkId: string): Promise<OpenRun[]> {
  const ofCheck = sql`r.id in (
    select id from run where state = 0 and check_id = ${checkId}
    union all select id from run where state in (1, 2) and check_id = ${checkId})`;
  const runs = await lockOpen(trx, sql`${ofCheck} and r.state in (0, 1)`);
  await endRuns(
    trx,
    runs.map((run) => cancelled(run).ending),
  );
  await mergeWholes(trx, runs);
  await refreshSessions(
    trx,
    runs.map(({ session_id }) => session_id),
  );
  return runs;
}
