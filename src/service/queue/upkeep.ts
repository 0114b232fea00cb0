import { sql } from 'kysely';
import type { Timing } from '../../contract/index.ts';
import { jitter, monoMs, sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import type { Db, Store } from '../ports.ts';
import { transact } from '../store/index.ts';
import { expire, type ExpiryReason } from './expiry.ts';
import { reap } from './give-back.ts';
import type { OpenRun } from './run-row.ts';
import { interval } from './sql.ts';

const SWEEP_MS = 1_000;
const CLEAN_MS = 600_000;
const DAY_MS = 86_400_000;
/** An agent's spool keeps results for a day; their runs must still be known when they arrive. */
const RUNS_KEPT_MS = 2 * DAY_MS;
/** Test sessions that nobody wanted to keep can still be read for a day. */
const UNRECORDED_KEPT_MS = DAY_MS;
const BATCH = 2_000;

/** Told once per run, after the commit, in the process that ended it. */
export interface Losses {
  /** No agent took it in its time. */
  expired(location: string, reason: ExpiryReason): void;
  /** The agent that had it fell silent. */
  silent(location: string): void;
}

/**
 * Ends leases and waits that are over, and removes old rows, until the signal aborts. Every replica of
 * the service may do it: rows that another one has locked are skipped.
 *
 * Leases that ran out while the service was away are the service's fault, not their agents': for
 * `settleMs` after a start or a failure of the store agents may come back and renew before any lease
 * is ended.
 */
export async function upkeep(
  context: { store: Store; timing: Timing; log: Log; retentionDays: number; losses?: Losses | undefined },
  changed: (runs: readonly OpenRun[]) => void,
  signal: AbortSignal,
): Promise<void> {
  const { store, timing, log, retentionDays, losses } = context;
  let cleanedAt = monoMs() - CLEAN_MS * Math.random();
  let reapFrom = monoMs() + timing.settleMs;
  while (!signal.aborted) {
    try {
      const offers = await transact(store.db, (trx) => reap(trx, timing, 'offers'));
      const leases =
        monoMs() >= reapFrom ? await transact(store.db, (trx) => reap(trx, timing, 'leases')) : [];
      const reaped = [...offers, ...leases];
      for (const { location } of leases) losses?.silent(location);
      if (reaped.length > 0) log.info({ runs: reaped.length }, 'leases ended without a result');
      const expired = await transact(store.db, (trx) => expire(trx, timing));
      if (expired.length > 0) log.warn({ runs: expired.length }, 'runs expired: no agent took them in time');
      for (const { run, endReason } of expired) losses?.expired(run.location, endReason);
      changed([...reaped, ...expired.map(({ run }) => run)]);
      if (monoMs() - cleanedAt > CLEAN_MS) {
        cleanedAt = monoMs();
        await removeOldRows(store.db, retentionDays, signal);
      }
    } catch (error) {
      reapFrom = monoMs() + timing.settleMs;
      log.warn({ reason: messageOf(error) }, 'queue upkeep failed');
    }
    await sleep(jitter(SWEEP_MS, 0.2), signal).catch(() => undefined);
  }
}

/**
 * Runs go two days after their end, with the results of their parts; sessions, late results and errors that
 * do not come again go with the raw results. Each statement looks
 * at the oldest rows only and takes a bounded number, so that nothing waits for it.
 */
export async function removeOldRows(db: Db, retentionDays: number, signal?: AbortSignal): Promise<void> {
  const old = interval(retentionDays * DAY_MS);
  const statements = [
    sql`with oldest as materialized (select id from run order by id limit ${BATCH})
      delete from run r using oldest
      where r.id = oldest.id and r.state >= 3 and r.finished_at < now() - ${interval(RUNS_KEPT_MS)}
      returning r.id`,
    sql`delete from check_session where id in
      (select id from check_session where started_at < now() - ${old} limit ${BATCH}) returning id`,
    sql`delete from result_late where id in
      (select id from result_late where received_at < now() - ${old} limit ${BATCH}) returning id`,
    sql`delete from run_part where run_id in
      (select run_id from run_part where created_at < now() - ${interval(RUNS_KEPT_MS)} limit ${BATCH})
      returning run_id`,
    sql`delete from error_group where id in
      (select id from error_group where last_seen < now() - ${old} limit ${BATCH}) returning id`,
    sql`delete from test_session where id in (
      select id from test_session
      where created_at < now() - case when recorded then ${old} else ${interval(UNRECORDED_KEPT_MS)} end
      limit ${BATCH}) returning id`,
  ];
  for (const statement of statements) {
    while (signal?.aborted !== true) {
      const { rows } = await statement.execute(db);
      if (rows.length < BATCH) break;
    }
  }
}
