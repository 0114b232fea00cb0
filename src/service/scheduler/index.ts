/**
 * The scheduler: turns due checks into sessions. Hides when each check is due (plan.ts), which location
 * comes next, that a check never overlaps itself, and what a stop leaves behind. Every replica of the
 * service runs one: rows are taken with SKIP LOCKED and session ids are functions of check and tick, so
 * there is no leader and nothing starts twice.
 */
import { sql } from 'kysely';
import { findCheckType } from '../../checks/index.ts';
import { backoffMs, sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import { effectiveDefinitions, type DefinitionOf } from '../definitions/index.ts';
import type { NewSession, Queue, Store, Trx } from '../ports.ts';
import { planTick, type Tick } from './plan.ts';

export { firstTick } from './plan.ts';

export interface Scheduler {
  /** Starts what is due until the signal aborts. */
  loop(signal: AbortSignal): Promise<void>;
}

const BATCH = 500;
/** New checks and changes of other replicas are seen within this, ms. */
const POLL_MS = 1_000;
/** What is due but locked by another replica is not asked for without a pause, ms. */
const LEAST_PAUSE_MS = 10;

interface DueCheck {
  id: string;
  account_id: string;
  type: string;
  name: string;
  group_id: number | null;
  run_locations: string[];
  interval_ms: number;
  definition: Record<string, unknown>;
  next_at: Date;
  ticks: number;
  busy: boolean;
  now: Date;
}

export function createScheduler(context: { store: Store; queue: Queue; log: Log }): Scheduler {
  const { store, log } = context;
  return {
    loop: async (signal) => {
      for (let failures = 0; !signal.aborted;) {
        let pauseMs = POLL_MS;
        try {
          const due = await startDue(context);
          pauseMs = due === BATCH ? 0 : await untilNext(store);
          failures = 0;
        } catch (error) {
          pauseMs = POLL_MS + backoffMs(failures++, 500, 10_000);
          log.warn({ reason: messageOf(error) }, 'scheduling failed');
        }
        await sleep(pauseMs, signal).catch(() => undefined);
      }
    },
  };
}

/** One batch in one transaction. @returns how many checks were due */
async function startDue(context: { store: Store; queue: Queue; log: Log }): Promise<number> {
  const { store, queue, log } = context;
  const { due, sessions } = await store.db.transaction().execute(async (trx) => {
    const rows = await lockDue(trx);
    const definitionOf = await effectiveDefinitions(trx, rows);
    const due = rows.map((row) => merged(row, definitionOf, log));
    const ticks = due.map((check) => ({ check, tick: planOf(check) }));
    const started = ticks.flatMap(({ check, tick }) => sessionOf(check, tick, log));
    const ids = await queue.start(started, trx);
    const sessionIds = new Map(started.map(({ checkId }, at) => [checkId, ids[at]!.sessionId]));
    await advance(trx, ticks, sessionIds);
    return { due, sessions: started };
  });
  const places = sessions.flatMap(({ accountId, locations }) =>
    locations.map((slug) => `${accountId}/${slug}`),
  );
  for (const place of new Set(places)) store.wake(`runs:${place}`);
  return due.length;
}

async function lockDue(trx: Trx): Promise<DueCheck[]> {
  const { rows } = await sql<DueCheck>`
    select c.id, c.account_id, c.type, c.name, c.group_id, c.run_locations, c.interval_ms, c.definition, c.next_at,
      c.ticks, now() as now,
      exists (select 1 from check_session s where s.id = c.last_session_id and s.stopped_at is null) as busy
    from check_def c where c.next_at <= now()
    order by c.next_at limit ${BATCH} for update of c skip locked`.execute(trx);
  return rows;
}

/** A definition that cannot be merged must not keep the other checks from running: its type refuses it. */
function merged(row: DueCheck, definitionOf: DefinitionOf, log: Log): DueCheck {
  try {
    return { ...row, definition: definitionOf(row) };
  } catch (error) {
    log.error({ checkId: row.id, type: row.type, reason: messageOf(error) }, 'definition not merged');
    return { ...row, definition: {} };
  }
}

function planOf(check: DueCheck): Tick {
  return planTick(
    {
      id: check.id,
      intervalMs: check.interval_ms,
      nextAt: check.next_at,
      ticks: check.ticks,
      locations: check.run_locations,
      runParallel: check.definition['runParallel'] === true,
      busy: check.busy,
    },
    check.now,
  );
}

/** A definition that its type cannot read must not keep the other checks from running. */
function sessionOf(check: DueCheck, { start }: Tick, log: Log): NewSession[] {
  if (start === undefined) return [];
  try {
    const type = findCheckType(check.type);
    if (type === undefined) throw new Error('this build does not know the type');
    return [
      {
        accountId: check.account_id,
        checkId: check.id,
        checkType: check.type,
        name: check.name,
        runSource: 'SCHEDULER',
        lane: start.lane,
        scheduledAt: start.scheduledAt,
        locations: start.locations,
        definition: check.definition,
        jobClass: type.jobClass(check.definition),
        timeoutMs: type.timeoutMs(check.definition),
      },
    ];
  } catch (error) {
    log.error({ checkId: check.id, type: check.type, reason: messageOf(error) }, 'check not started');
    return [];
  }
}

async function advance(
  trx: Trx,
  ticks: readonly { check: DueCheck; tick: Tick }[],
  sessionIds: ReadonlyMap<string, string>,
): Promise<void> {
  if (ticks.length === 0) return;
  await sql`
    update check_def c set next_at = t.next_at,
      ticks = c.ticks + case when t.session_id is null then 0 else 1 end,
      last_session_id = coalesce(t.session_id, c.last_session_id)
    from unnest(${ticks.map(({ check }) => check.id)}::uuid[],
                ${ticks.map(({ tick }) => tick.nextAt.toISOString())}::timestamptz[],
                ${ticks.map(({ check }) => sessionIds.get(check.id) ?? null)}::uuid[]) as t(id, next_at, session_id)
    where c.id = t.id`.execute(trx);
}

/** Time to the next due tick by the database's clock, at most one poll interval, ms. */
async function untilNext(store: Store): Promise<number> {
  const { rows } = await sql<{ wait: number | null }>`
    select extract(epoch from min(next_at) - clock_timestamp())::float8 * 1000 as wait
    from check_def where next_at is not null`.execute(store.db);
  return Math.max(LEAST_PAUSE_MS, Math.min(POLL_MS, rows[0]?.wait ?? POLL_MS));
}
