import { sql } from 'kysely';
import { jitter, sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import type { Db, Trx } from '../ports.ts';

/**
 * Results live in one partition per UTC day of their scheduled_at, so that retention is a DROP and
 * never a DELETE. Days are made ahead; a result whose day is missing is answered `retry`.
 */
const PARTITIONED = ['check_result', 'check_result_detail', 'artifact'] as const;
const DAYS_AHEAD = 7;
const DAYS_BACK = 1;
const UPKEEP_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** Any number, the same in every process: one of them at a time changes partitions. */
const LOCK_KEY = 7_311_204;

/** Makes the partitions of yesterday to in a week; cheap when they exist. */
export async function ensurePartitions(db: Db): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(${LOCK_KEY})`.execute(trx);
    const present = new Set((await listPartitions(trx)).map(({ name }) => name));
    const now = await databaseNow(trx);
    for (let day = -DAYS_BACK; day <= DAYS_AHEAD; day++) {
      const start = startOfDay(new Date(now.getTime() + day * DAY_MS));
      for (const parent of PARTITIONED) {
        if (!present.has(partitionName(parent, start))) await addPartition(trx, parent, start);
      }
    }
  });
}

/** Attached after its creation: that blocks nobody, while CREATE … PARTITION OF waits for all readers. */
async function addPartition(trx: Trx, parent: string, start: Date): Promise<void> {
  const name = sql.table(partitionName(parent, start));
  const end = new Date(start.getTime() + DAY_MS);
  await sql`create table ${name} (like ${sql.table(parent)} including defaults including constraints)`.execute(
    trx,
  );
  await sql`alter table ${sql.table(parent)} attach partition ${name}
    for values from (${sql.lit(start.toISOString())}) to (${sql.lit(end.toISOString())})`.execute(trx);
}

/** Drops the days that are wholly older than `retentionDays`. @returns names of the dropped ones */
export async function dropOldPartitions(db: Db, retentionDays: number): Promise<string[]> {
  return db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(${LOCK_KEY})`.execute(trx);
    const now = await databaseNow(trx);
    const oldest = startOfDay(new Date(now.getTime() - retentionDays * DAY_MS));
    const old = (await listPartitions(trx)).filter(({ start }) => start < oldest);
    for (const { name } of old) await sql`drop table ${sql.table(name)}`.execute(trx);
    return old.map(({ name }) => name);
  });
}

/** Keeps the days as they should be; runs until the signal aborts. */
export async function partitionLoop(
  db: Db,
  options: { retentionDays: number; log: Log; signal: AbortSignal },
): Promise<void> {
  const { retentionDays, log, signal } = options;
  while (!signal.aborted) {
    await sleep(jitter(UPKEEP_MS, 0.5), signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      await ensurePartitions(db);
      const dropped = await dropOldPartitions(db, retentionDays);
      if (dropped.length > 0) log.info({ dropped }, 'old results dropped');
    } catch (error) {
      log.warn({ reason: messageOf(error) }, 'partition upkeep failed');
    }
  }
}

async function listPartitions(trx: Trx): Promise<{ name: string; start: Date }[]> {
  const { rows } = await sql<{ name: string }>`
    select child.relname as name from pg_inherits
      join pg_class child on child.oid = inhrelid
      join pg_class parent on parent.oid = inhparent
      where parent.relkind = 'p' and parent.relname = any(${[...PARTITIONED]})`.execute(trx);
  return rows.map(({ name }) => ({ name, start: startOf(name) }));
}

async function databaseNow(trx: Trx): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select now()`.execute(trx);
  return rows[0]!.now;
}

const partitionName = (parent: string, start: Date): string =>
  `${parent}_${start.toISOString().slice(0, 10).replaceAll('-', '')}`;

const startOf = (name: string): Date =>
  new Date(name.replace(/^.*_(\d{4})(\d{2})(\d{2})$/, '$1-$2-$3T00:00:00.000Z'));

function startOfDay(instant: Date): Date {
  return new Date(Math.floor(instant.getTime() / DAY_MS) * DAY_MS);
}
