import { sql } from 'kysely';
import { derivedId } from '../../kit/ids.ts';
import type { Db, NewSession } from '../ports.ts';
import { toJson } from '../store/index.ts';
import { ClassNumber } from '../store/schema.ts';
import { interval } from './sql.ts';

export interface Started {
  sessionId: string;
  sequenceIds: string[];
}

/** Ids are functions of check, source, instant, request and location: who starts the same twice starts it once. */
function identify(session: NewSession): Started {
  const { checkId, runSource, scheduledAt, request = '', locations } = session;
  const sessionId = derivedId('session', checkId, runSource, scheduledAt.toISOString(), request);
  return { sessionId, sequenceIds: locations.map((location) => derivedId('sequence', sessionId, location)) };
}

function rowOf(session: NewSession, { sessionId, sequenceIds }: Started): object {
  const { locations } = session;
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
    locations,
    runs: locations.map((location, at) => ({ location, sequence_id: sequenceIds[at] })),
  };
}

/**
 * Inserts sessions with their runs, in two statements however many. What is on demand is due now,
 * whatever clock the caller has; everything else at its instant.
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
        job_class smallint, scheduled_at timestamptz, timeout_ms int, definition jsonb, locations text[], runs json)
    ), opened as (
      insert into check_session (id, account_id, check_id, check_type, name, run_source, run_locations, started_at)
      select id, account_id, check_id, check_type, name, run_source, locations, scheduled_at from input
      on conflict (id) do nothing
    )
    insert into run (sequence_id, session_id, check_id, account_id, location, check_type, lane,
                     job_class, run_source, scheduled_at, not_before, expires_at, timeout_ms, payload)
    select r.sequence_id, s.id, s.check_id, s.account_id, r.location, s.check_type, s.lane,
           s.job_class, s.run_source, s.scheduled_at,
           case when s.lane = 0 then now() else s.scheduled_at end,
           case when s.lane = 0 then now() else greatest(now(), s.scheduled_at) end + ${interval(queueExpiryMs)},
           s.timeout_ms, s.definition
    from input s cross join lateral json_to_recordset(s.runs) as r(location text, sequence_id uuid)
    on conflict (session_id, sequence_id) do nothing`.execute(db);
  return started;
}
