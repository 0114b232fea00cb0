import { sql } from 'kysely';
import { REGIONS } from '../../checks/index.ts';
import { derivedId } from '../../kit/ids.ts';
import type { Db, NewSession } from '../ports.ts';
import { sequenceIdOf, toJson } from '../store/index.ts';
import { ClassNumber, RunState } from '../store/schema.ts';
import { interval } from './sql.ts';

/** Why a run in a region ended at once. */
const NOT_SERVED = 'LOCATION_NOT_SERVED';

export interface Started {
  sessionId: string;
  sequenceIds: string[];
}

/** Ids are functions of check, source, instant, request and location: who starts the same twice starts it once. */
function identify(session: NewSession): Started {
  const { checkId, runSource, scheduledAt, request = '', locations } = session;
  const sessionId = derivedId('session', checkId, runSource, scheduledAt.toISOString(), request);
  return { sessionId, sequenceIds: locations.map((location) => sequenceIdOf(sessionId, location)) };
}

function rowOf(session: NewSession, { sessionId, sequenceIds }: Started): object {
  const { locations, testSession } = session;
  return {
    id: sessionId,
    account_id: session.accountId,
    check_id: session.checkId,
    check_type: session.checkType,
    name: session.name,
    run_source: session.runSource,
    lane: session.lane,
    job_class: ClassNumber[session.jobClass],
    scheduled_at: session.scheduledAt.toISOString(),
    timeout_ms: Math.ceil(session.timeoutMs),
    definition: session.definition,
    test_session_id: testSession?.id ?? null,
    tested_check_id: testSession?.checkId ?? null,
    locations,
    runs: locations.flatMap((location, at) =>
      partsOf(session, sequenceIds[at]!).map((part) => ({
        ...part,
        location,
        is_region: REGION_CODES.has(location),
      })),
    ),
  };
}

/** A suite in parts is one run each, with sequences of their own; what is shown is their whole. */
function partsOf({ definition }: NewSession, sequenceId: string): object[] {
  const total = typeof definition['shards'] === 'number' ? definition['shards'] : 1;
  if (total === 1) return [{ sequence_id: sequenceId, whole_id: null, shard: null, added: {} }];
  return Array.from({ length: total }, (_, at) => ({
    sequence_id: derivedId('part', sequenceId, at + 1),
    whole_id: sequenceId,
    shard: at + 1,
    added: { shard: { index: at + 1, total } },
  }));
}

const REGION_CODES: ReadonlySet<string> = new Set(REGIONS);

/**
 * Inserts sessions with their runs, in one statement however many. What is on demand is due now,
 * whatever clock the caller has; everything else at its instant.
 *
 * A run in a region that nobody serves ends as it begins: waiting for its time in the queue, it would keep
 * its check from running elsewhere.
 */
export async function enqueue(
  db: Db,
  sessions: readonly NewSession[],
  queueExpiryMs: number,
): Promise<Started[]> {
  const started = sessions.map(identify);
  const rows = toJson(sessions.map((session, at) => rowOf(session, started[at]!)));
  await sql`
    with input as materialized (
      select * from json_to_recordset(${rows}::json) as s(
        id uuid, account_id uuid, check_id uuid, check_type text, name text, run_source text, lane smallint,
        job_class smallint, scheduled_at timestamptz, timeout_ms int, definition jsonb, test_session_id uuid, tested_check_id uuid,
        locations text[], runs json)
    ), planned as materialized (
      select s.*, r.location, r.sequence_id, r.whole_id, r.shard, r.added, r.is_region and not exists (
          select 1 from private_location p where p.account_id = s.account_id and p.slug = r.location
        ) as is_unserved
      from input s cross join lateral json_to_recordset(s.runs)
        as r(location text, sequence_id uuid, whole_id uuid, shard smallint, added jsonb, is_region boolean)
    ), opened as (
      insert into check_session (id, account_id, check_id, check_type, name, run_source, run_locations, started_at,
                                 test_session_id, tested_check_id, status, end_reason, stopped_at)
      select s.id, s.account_id, s.check_id, s.check_type, s.name, s.run_source, s.locations, s.scheduled_at,
             s.test_session_id, s.tested_check_id,
             case when p.is_over then 'TIMED_OUT' else 'STARTED' end, p.end_reason,
             case when p.is_over then now() end
      from input s join (
        select id, bool_and(is_unserved) as is_over,
               max(case when is_unserved then ${NOT_SERVED} end) as end_reason
        from planned group by id) p on p.id = s.id
      on conflict (id) do nothing
    )
    insert into run (sequence_id, whole_id, shard, tested_check_id, session_id, check_id, account_id, location, check_type, lane,
                     job_class, run_source, scheduled_at, not_before, expires_at, timeout_ms, payload,
                     state, outcome, end_reason, finished_at)
    select p.sequence_id, p.whole_id, p.shard, p.tested_check_id, p.id, p.check_id, p.account_id, p.location, p.check_type, p.lane,
           p.job_class, p.run_source, p.scheduled_at,
           case when p.lane = 0 then now() else p.scheduled_at end,
           case when p.lane = 0 then now() else greatest(now(), p.scheduled_at) end + ${interval(queueExpiryMs)},
           p.timeout_ms, case when p.is_unserved then '{}' else p.definition || p.added end,
           case when p.is_unserved then ${RunState.expired}::int else ${RunState.queued}::int end,
           case when p.is_unserved then 'TIMED_OUT' end, case when p.is_unserved then ${NOT_SERVED} end,
           case when p.is_unserved then now() end
    from planned p
    on conflict (session_id, sequence_id) do nothing`.execute(db);
  return started;
}
