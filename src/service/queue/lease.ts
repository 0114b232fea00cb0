import { sql } from 'kysely';
import type { JobClass } from '../../checks/index.ts';
import type { HeldRun, Job, RunRef, Timing } from '../../contract/index.ts';
import type { Db, LeasedAgent } from '../ports.ts';
import { ClassNumber } from '../store/schema.ts';
import { interval, named } from './sql.ts';

/** A try may exceed its own limit by this much before its lease ends for good, ms. */
const OVERTIME_MS = 120_000;

interface ClaimedRow {
  id: number;
  token: number;
  attempt: number;
  sequence_id: string;
  session_id: string;
  account_id: string;
  lane: number;
  run_source: string | null;
  check_id: string;
  tested_check_id: string | null;
  check_type: string;
  location: string;
  scheduled_at: Date;
  not_before: Date;
  timeout_ms: number;
  payload: Record<string, unknown>;
  proxy_url: string | null;
}

/**
 * Takes up to `limit` due runs of a class for the agent, best lane and longest wait first, and raises their fences.
 * Runs that another transaction is taking are skipped, not waited for.
 */
export async function claimRuns(
  db: Db,
  agent: LeasedAgent,
  limit: number,
  options: { jobClass: JobClass; fromLane: number; acceptMs: number },
): Promise<Job[]> {
  const { rows } = await sql<ClaimedRow>`
    with due as materialized (
      select id from run
      where account_id = ${agent.accountId} and location = ${agent.location} and state = 0
        and job_class = ${ClassNumber[options.jobClass]}
        and lane >= ${options.fromLane} and not_before <= now() and expires_at > now()
        and check_type = any(${agent.checkTypes}::text[])
        and not (excluded_agents @> array[${agent.agentId}::uuid])
      order by lane, not_before, id limit ${limit} for update skip locked
    )
    update run r set state = 1, token = r.token + 1, agent_id = ${agent.agentId},
      lease_until = now() + ${interval(options.acceptMs)}
    from due where r.id = due.id
    returning r.id, r.token, r.attempt, r.sequence_id, r.session_id, r.account_id, r.lane, r.run_source,
      r.check_id, r.tested_check_id, r.check_type, r.location, r.scheduled_at, r.not_before, r.timeout_ms, r.payload,
      (select p.proxy_url from private_location p
       where p.account_id = r.account_id and p.slug = r.location) as proxy_url`.execute(db);
  return rows.toSorted(byUrgency).map(jobOf);
}

function byUrgency(a: ClaimedRow, b: ClaimedRow): number {
  return a.lane - b.lane || a.not_before.getTime() - b.not_before.getTime() || a.id - b.id;
}

function jobOf(row: ClaimedRow): Job {
  return {
    runId: row.id,
    token: row.token,
    attempt: row.attempt,
    sequenceId: row.sequence_id,
    sessionId: row.session_id,
    lane: row.lane,
    checkId: row.tested_check_id ?? row.check_id,
    checkType: row.check_type,
    name: typeof row.payload['name'] === 'string' ? row.payload['name'] : '',
    location: row.location,
    proxyUrl: row.proxy_url,
    scheduledAt: row.scheduled_at.toISOString(),
    timeoutMs: row.timeout_ms,
    accountId: row.account_id,
    ...(row.run_source === null ? {} : { runSource: row.run_source }),
    spec: row.payload,
  };
}

/** True when scheduled work of the location and class has waited for longer than `ms`. */
export async function scheduledWaitsLongerThan(
  db: Db,
  agent: LeasedAgent,
  jobClass: JobClass,
  ms: number,
): Promise<boolean> {
  const { rows } = await sql`
    select 1 from run
    where account_id = ${agent.accountId} and location = ${agent.location} and state = 0
      and job_class = ${ClassNumber[jobClass]} and lane = 1 and not_before < now() - ${interval(ms)} and expires_at > now()
      and check_type = any(${agent.checkTypes}::text[])
    limit 1`.execute(db);
  return rows.length > 0;
}

/**
 * Turns offers into leases; a repeated accept changes nothing. The fence and the agent must be the
 * run's present ones.
 *
 * @returns the runs that are leased to the agent now, and the sessions that this began
 */
export async function acceptRuns(
  db: Db,
  agentId: string,
  runs: readonly RunRef[],
  timing: Timing,
): Promise<{ ok: RunRef[]; begun: string[] }> {
  const { rows } = await sql<{ id: number; token: number; session_id: string; begins: boolean }>`
    with mine as materialized (
      select r.id, r.state, r.session_id,
        case when r.state = 1 then now() + (r.timeout_ms + ${OVERTIME_MS}) * interval '1 millisecond'
          else r.hard_until end as hard_until
      from run r join ${named(runs)} as n(id, token) on r.id = n.id and r.token = n.token
      where r.agent_id = ${agentId} and (r.state = 1 or (r.state = 2 and r.hard_until > now()))
      order by r.session_id, r.id for update of r
    ), begun as (
      update check_session s set status = 'PROGRESS'
      from (select distinct session_id from mine) m where s.id = m.session_id and s.status = 'STARTED'
      returning s.id
    ), leased as (
      update run r set state = 2, hard_until = mine.hard_until,
        deliveries = r.deliveries + case when mine.state = 1 then 1 else 0 end,
        lease_until = least(now() + ${interval(timing.leaseMs)}, mine.hard_until),
        first_started_at = coalesce(r.first_started_at, now())
      from mine where r.id = mine.id
      returning r.id, r.token, r.session_id
    )
    select leased.*, begun.id is not null as begins
    from leased left join begun on begun.id = leased.session_id`.execute(db);
  const begun = rows.filter(({ begins }) => begins).map(({ session_id }) => session_id);
  return { ok: rows.map(refOf), begun };
}

/** Extends leases up to their hard limit. @returns the runs that the agent still owns */
export async function renewRuns(
  db: Db,
  agentId: string,
  runs: readonly HeldRun[],
  leaseMs: number,
): Promise<{ ok: RunRef[]; cancel: RunRef[] }> {
  const { rows } = await sql<{ id: number; token: number; cancel_requested: boolean }>`
    with mine as materialized (
      select r.id from run r join ${named(runs)} as n(id, token) on r.id = n.id and r.token = n.token
      where r.agent_id = ${agentId} and r.state = 2 and r.hard_until > now()
      order by r.id for update of r
    )
    update run r set lease_until = least(now() + ${interval(leaseMs)}, r.hard_until)
    from mine where r.id = mine.id
    returning r.id, r.token, r.cancel_requested`.execute(db);
  return { ok: rows.map(refOf), cancel: rows.filter((row) => row.cancel_requested).map(refOf) };
}

export async function runsToCancel(db: Db, agentId: string): Promise<RunRef[]> {
  const { rows } = await sql<{ id: number; token: number }>`
    select id, token from run where agent_id = ${agentId} and state = 2 and cancel_requested
    order by id`.execute(db);
  return rows.map(refOf);
}

const refOf = (row: { id: number; token: number }): RunRef => ({ runId: row.id, token: row.token });

/** The members of `all` that are not in `some`. */
export function without(all: readonly RunRef[], some: readonly RunRef[]): RunRef[] {
  const kept = new Set(some.map(({ runId, token }) => `${runId} ${token}`));
  return all
    .filter(({ runId, token }) => !kept.has(`${runId} ${token}`))
    .map(({ runId, token }) => ({ runId, token }));
}
