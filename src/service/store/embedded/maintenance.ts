import type pg from 'pg';
import { messageOf } from '../../../kit/errors.ts';
import { monoMs } from '../../../kit/clock.ts';
import type { Log } from '../../../kit/log.ts';
import { backUp, backupIsDue } from './backup.ts';

const LOOK_MS = 1_000;
/** Dead rows that make a vacuum worth while at once; fewer wait for a minute. */
const MANY_DEAD_ROWS = 5_000;
const FEW_DEAD_ROWS = 200;
const VACUUM_AT_LEAST_EVERY_MS = 60_000;
const CHECKPOINT_EVERY_MS = 300_000;
const LARGE_LOG_BYTES = 256 * 1024 * 1024;
const BACKUP_LOOK_MS = 3_600_000;

interface Place {
  pool: pg.Pool;
  folder: string;
  backups: string;
  log: Log;
}

/**
 * What a PostgreSQL server does in the background and the embedded engine does not: without it the
 * queue table grew by 35 MB per 50,000 jobs and a claim took 2.6 ms instead of 0.6 after 200,000.
 *
 * @returns stops, after the step under way
 */
export function startMaintenance(place: Place): () => Promise<void> {
  const state = { vacuumedAt: monoMs(), checkpointAt: monoMs(), backupLookAt: monoMs(), logPosition: 0 };
  let step = Promise.resolve();
  let idle = true;
  const timer = setInterval(() => {
    if (!idle) return;
    idle = false;
    step = look(place, state)
      .catch((error: unknown) => place.log.warn({ reason: messageOf(error) }, 'store maintenance failed'))
      .finally(() => (idle = true));
  }, LOOK_MS).unref();
  return async () => {
    clearInterval(timer);
    await step;
  };
}

interface State {
  vacuumedAt: number;
  checkpointAt: number;
  backupLookAt: number;
  logPosition: number;
}

async function look(place: Place, state: State): Promise<void> {
  const { pool } = place;
  const now = monoMs();
  const minuteOver = now - state.vacuumedAt >= VACUUM_AT_LEAST_EVERY_MS;
  const { rows } = await pool.query<{ name: string }>(
    `select quote_ident(schemaname) || '.' || quote_ident(relname) as name
     from pg_stat_user_tables where n_dead_tup >= $1`,
    [minuteOver ? FEW_DEAD_ROWS : MANY_DEAD_ROWS],
  );
  for (const { name } of rows) await pool.query(`vacuum (analyze) ${name}`);
  if (minuteOver || rows.length > 0) state.vacuumedAt = now;
  await checkpointWhenDue(pool, state, now);
  if (now - state.backupLookAt < BACKUP_LOOK_MS) return;
  state.backupLookAt = now;
  if (backupIsDue(place.folder, place.backups)) await backUp(place);
}

async function checkpointWhenDue(pool: pg.Pool, state: State, now: number): Promise<void> {
  const { rows } = await pool.query<{ at: number }>(
    "select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint as at",
  );
  const at = rows[0]!.at;
  if (state.logPosition === 0) state.logPosition = at;
  const grown = at - state.logPosition;
  if (grown < LARGE_LOG_BYTES && (grown === 0 || now - state.checkpointAt < CHECKPOINT_EVERY_MS)) return;
  await pool.query('checkpoint');
  state.logPosition = at;
  state.checkpointAt = now;
}
