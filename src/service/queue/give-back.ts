import { sql } from 'kysely';
import type { HeldRun, RunRef, Timing } from '../../contract/index.ts';
import type { Trx } from '../ports.ts';
import { RunState } from '../store/schema.ts';
import { lockOpen, lockSome, type OpenRun } from './run-row.ts';
import { refreshSessions } from './session-status.ts';
import { cancelled, endRuns, insertResults, poisoned } from './settle.ts';
import { interval, named } from './sql.ts';

/**
 * Runs that come back without a result. `returned` by an agent that is well: nothing is counted.
 * `lost` with an agent that stopped or a lease that ended: the delivery stays counted, and the last
 * allowed one makes the run poison. What was to be cancelled ends here in both cases.
 */
export type GivenBack = 'returned' | 'lost';

export async function giveBack(
  trx: Trx,
  runs: readonly OpenRun[],
  how: GivenBack,
  timing: Timing,
): Promise<void> {
  const over = runs.filter((run) => run.cancel_requested).map(cancelled);
  const poison = runs.filter((run) => isPoison(run, how, timing)).map(poisoned);
  const ended = [...over, ...poison];
  const again = runs.filter((run) => !ended.some(({ ending }) => ending.run.id === run.id));
  await endRuns(
    trx,
    ended.map(({ ending }) => ending),
  );
  await insertResults(
    trx,
    ended.map(({ final }) => final),
  );
  await requeue(trx, again, how, timing);
  await refreshSessions(
    trx,
    ended.map(({ ending }) => ending.run.session_id),
  );
}

function isPoison(run: OpenRun, how: GivenBack, timing: Timing): boolean {
  const counts = how === 'lost' && run.state === RunState.running && !run.cancel_requested;
  return counts && run.deliveries >= timing.maxDeliveries;
}

/** An offer that nobody accepted does not get a new time to wait, or it might wait for ever. */
async function requeue(trx: Trx, runs: readonly OpenRun[], how: GivenBack, timing: Timing): Promise<void> {
  if (runs.length === 0) return;
  const refund = how === 'returned' ? 1 : 0;
  await sql`
    update run r set state = 0, agent_id = null, lease_until = null, hard_until = null,
      deliveries = greatest(0, r.deliveries - case when r.state = 2 then ${refund}::int else 0 end),
      expires_at = case when r.state = 2 then now() + ${interval(timing.queueExpiryMs)} else r.expires_at end
    where r.id = any(${runs.map(({ id }) => id)}::bigint[])`.execute(trx);
}

/** The runs of `refs` that are this agent's, locked. */
export async function lockHeld(trx: Trx, agentId: string, refs: readonly RunRef[]): Promise<OpenRun[]> {
  return lockOpen(
    trx,
    sql`r.agent_id = ${agentId} and r.state in (1, 2)
      and exists (select 1 from ${named(refs)} as n(id, token) where n.id = r.id and n.token = r.token)`,
  );
}

/** Everything that is leased or offered to the agent, locked. */
export async function lockAllHeld(trx: Trx, agentId: string): Promise<OpenRun[]> {
  return lockOpen(trx, sql`r.agent_id = ${agentId} and r.state in (1, 2)`);
}

/** Keeps runs from being offered to the agent again. */
export async function excludeAgent(trx: Trx, agentId: string, runs: readonly OpenRun[]): Promise<void> {
  await sql`
    update run set excluded_agents = array_append(excluded_agents, ${agentId}::uuid)
    where id = any(${runs.map(({ id }) => id)}::bigint[])
      and not (excluded_agents @> array[${agentId}::uuid])`.execute(trx);
}

/** What an agent says it holds against what it owns: the runs it must drop, and those that it lost. */
export function compare(
  owned: readonly OpenRun[],
  held: readonly HeldRun[],
): { drop: RunRef[]; missing: OpenRun[] } {
  const ownedKeys = new Set(owned.map(({ id, token }) => `${id} ${token}`));
  const heldKeys = new Set(held.map(({ runId, token }) => `${runId} ${token}`));
  return {
    drop: held
      .filter(({ runId, token }) => !ownedKeys.has(`${runId} ${token}`))
      .map(({ runId, token }) => ({ runId, token })),
    missing: owned.filter(({ id, token }) => !heldKeys.has(`${id} ${token}`)),
  };
}

/**
 * Takes back what was not accepted in time, or, with `leases`, not renewed in time.
 *
 * @returns the runs, at most 500
 */
export async function reap(trx: Trx, timing: Timing, what: 'offers' | 'leases'): Promise<OpenRun[]> {
  const state = what === 'offers' ? RunState.offered : RunState.running;
  const runs = await lockSome(trx, sql`r.state = ${state} and r.lease_until < now()`);
  await giveBack(trx, runs, 'lost', timing);
  return runs;
}
