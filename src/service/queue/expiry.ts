import { sql } from 'kysely';
import type { Timing } from '../../contract/index.ts';
import type { Trx } from '../ports.ts';
import { ClassNumber, RunState } from '../store/schema.ts';
import { lockSome, type OpenRun } from './run-row.ts';
import { refreshSessions } from './session-status.ts';
import { endRuns, mergeWholes } from './settle.ts';
import { interval } from './sql.ts';

/** How long a suite waits while the agents that could run it are busy: six of forty minutes before it. */
const SUITE_WAIT_MS = 4 * 3_600_000;

/** Why nobody took a run in its time. */
export const EXPIRY_REASONS = ['NO_AGENT_CONNECTED', 'NO_CAPABLE_AGENT', 'ALL_AGENTS_BUSY'] as const;
export type ExpiryReason = (typeof EXPIRY_REASONS)[number];

export interface ExpiredRun {
  run: OpenRun;
  endReason: ExpiryReason;
}

export interface ConnectedAgent {
  id: string;
  account_id: string;
  location: string;
  check_types: string[];
}

/** @param agents those connected at the run's location */
export function expiryReason(
  run: Pick<OpenRun, 'check_type' | 'excluded_agents'>,
  agents: readonly Pick<ConnectedAgent, 'id' | 'check_types'>[],
): ExpiryReason {
  if (agents.length === 0) return 'NO_AGENT_CONNECTED';
  const capable = agents.some(
    ({ id, check_types }) => check_types.includes(run.check_type) && !run.excluded_agents.includes(id),
  );
  return capable ? 'ALL_AGENTS_BUSY' : 'NO_CAPABLE_AGENT';
}

/**
 * Ends runs whose time in the queue is over, but for suites that are only waiting for their turn. They leave no result, since nothing was observed; the
 * session says TIMED_OUT and why. @returns the runs, at most 500
 */
export async function expire(trx: Trx, timing: Timing): Promise<ExpiredRun[]> {
  const runs = await lockSome(trx, sql`r.state = 0 and r.expires_at <= now()`);
  if (runs.length === 0) return [];
  const agents = await connectedAgents(trx, runs, timing);
  const late = runs.map((run) => ({
    run,
    endReason: expiryReason(run, agents.filter(servesPlaceOf(run))),
  }));
  const busy = late.filter(({ endReason }) => endReason === 'ALL_AGENTS_BUSY').map(({ run }) => run.id);
  const patient = await prolongSuites(trx, busy, timing);
  const expired = late.filter(({ run }) => !patient.has(run.id));
  await endRuns(
    trx,
    expired.map((each) => ({ ...each, state: RunState.expired, outcome: 'TIMED_OUT' })),
  );
  const ended = expired.map(({ run }) => run);
  await mergeWholes(trx, ended);
  await refreshSessions(
    trx,
    ended.map(({ session_id }) => session_id),
  );
  return expired;
}

/** Behind a suite of an hour the next one waits longer than anything else would, and parts wait for parts. */
async function prolongSuites(trx: Trx, ids: readonly number[], timing: Timing): Promise<Set<number>> {
  if (ids.length === 0) return new Set();
  const { rows } = await sql<{ id: number }>`
    update run set expires_at = now() + ${interval(timing.queueExpiryMs)}
    where id = any(${[...ids]}::bigint[]) and job_class = ${ClassNumber.suite}
      and now() < not_before + ${interval(SUITE_WAIT_MS)}
    returning id`.execute(trx);
  return new Set(rows.map(({ id }) => id));
}

const servesPlaceOf =
  (run: OpenRun) =>
  (agent: ConnectedAgent): boolean =>
    agent.account_id === run.account_id && agent.location === run.location;

/** Agents with a live session at the places of `runs`. */
async function connectedAgents(
  trx: Trx,
  runs: readonly OpenRun[],
  timing: Timing,
): Promise<ConnectedAgent[]> {
  const { rows } = await sql<ConnectedAgent>`
    select a.id, l.account_id, l.slug as location, a.check_types
    from agent a join private_location l on l.id = a.location_id
    where a.session_id is not null and a.last_seen > now() - ${interval(timing.suspectMs)}
      and l.account_id = any(${runs.map(({ account_id }) => account_id)}::uuid[])
      and l.slug = any(${runs.map(({ location }) => location)}::text[])`.execute(trx);
  return rows;
}
