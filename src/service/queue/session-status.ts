import { sql } from 'kysely';
import type { Trx } from '../ports.ts';

/**
 * A session's status follows from its runs:
 *
 *   STARTED ── first run begins ──► PROGRESS ── a part failed / degraded ──► PROGRESS_FAILED / _DEGRADED
 *      └───────────────┴───────────────┴── all parts over ──► the gravest part:
 *                                             CANCELLED > FAILED > TIMED_OUT > DEGRADED > PASSED
 *
 * The caller has locked the sessions (lockOpen).
 */
export async function refreshSessions(trx: Trx, sessionIds: readonly string[]): Promise<void> {
  const ids = [...new Set(sessionIds)];
  if (ids.length === 0) return;
  await sql`
    update check_session s set status = n.status, end_reason = n.end_reason,
      stopped_at = case when n.is_over then now() end
    from (
      select session_id, bool_and(state >= 3) as is_over, max(end_reason) as end_reason,
        case when bool_and(state >= 3) then
          case when bool_or(outcome = 'CANCELLED') then 'CANCELLED'
            when bool_or(outcome = 'FAILED') then 'FAILED'
            when bool_or(outcome = 'TIMED_OUT') then 'TIMED_OUT'
            when bool_or(outcome = 'DEGRADED') then 'DEGRADED'
            else 'PASSED' end
        when bool_or(outcome = 'FAILED') then 'PROGRESS_FAILED'
        when bool_or(outcome = 'DEGRADED') then 'PROGRESS_DEGRADED'
        when bool_or(first_started_at is not null) then 'PROGRESS'
        else 'STARTED' end as status
      from run where session_id = any(${ids}::uuid[]) group by session_id
    ) n
    where s.id = n.session_id and s.id = any(${ids}::uuid[]) and s.stopped_at is null
      and (s.status is distinct from n.status or s.end_reason is distinct from n.end_reason)`.execute(trx);
}
