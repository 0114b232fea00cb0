/**
 * The queue: the run table itself. Hides claims that skip locked rows, the fence (a token that rises at
 * each claim), lanes, leases and their end, retries, expiry, poison, the counting of results and the
 * status of sessions. The only room that writes run, check_session, check_result and result_late, and
 * that enters what artifacts a result has.
 * Execution is at least once, counting exactly once: the first outcome of each attempt wins. All
 * instants are the database's; the clocks of agents and of this process decide nothing.
 *
 *   queued ─claim─► offered ─accept─► running ─record─► done | cancelled, or queued for the next try
 *      ▲  └─expire─► expired │             │
 *      └──── decline, reap ──┴─ release, reap ──► cancelled | poison when that was the last delivery
 *
 * Decisions
 * - The service decides about retries, in the transaction that stores the failed try: an agent that
 *   stops between two tries loses nothing, and the next try may be another agent's.
 * - Runs are locked with their sessions, in one order everywhere; what deadlocks all the same is repeated.
 */
import type { JobClass } from '../../checks/index.ts';
import type { Job, ResultReceipt, RunResult, Timing } from '../../contract/index.ts';
import type { Log } from '../../kit/log.ts';
import type { LeasedAgent, NewSession, Queue, Store, Trx } from '../ports.ts';
import { repeating, transact } from '../store/index.ts';
import { RunState } from '../store/schema.ts';
import { cancelRuns, forgetRuns } from './cancel.ts';
import { enqueue } from './enqueue.ts';
import { compare, excludeAgent, giveBack, lockAllHeld, lockHeld } from './give-back.ts';
import {
  acceptRuns,
  claimRuns,
  renewRuns,
  runsToCancel,
  scheduledWaitsLongerThan,
  without,
} from './lease.ts';
import { receive } from './receive.ts';
import { claimTopic, type OpenRun } from './run-row.ts';
import { Turns } from './turns.ts';
import { upkeep, type Losses } from './upkeep.ts';

export { EXPIRY_REASONS } from './expiry.ts';
export type { Losses } from './upkeep.ts';

export interface QueueOptions {
  store: Store;
  timing: Timing;
  log: Log;
  /** Days that sessions and late results are kept; default 30. */
  retentionDays?: number;
  losses?: Losses;
}

export function createQueue(options: QueueOptions): Queue {
  const { store, timing, log, retentionDays = 30, losses } = options;
  const { db } = store;
  const turns = new Turns((agent, jobClass, ms) => scheduledWaitsLongerThan(db, agent, jobClass, ms));

  const wakeClaims = (runs: readonly { account_id: string; location: string }[]): void => {
    for (const topic of new Set(runs.map(claimTopic))) store.wake(topic);
  };
  const wakeSessions = (sessionIds: readonly string[]): void => {
    for (const id of new Set(sessionIds)) store.wake(`session:${id}`);
  };
  const changed = (runs: readonly OpenRun[]): void => {
    wakeClaims(runs);
    wakeSessions(runs.map(({ session_id }) => session_id));
  };

  const start = async (sessions: readonly NewSession[], trx?: Trx) => {
    if (sessions.length === 0) return [];
    const started = await enqueue(trx ?? db, sessions, timing.queueExpiryMs);
    if (trx === undefined) wakeClaims(sessions.flatMap(placesOf));
    return started;
  };

  const claim = async (agent: LeasedAgent, jobClass: JobClass, limit: number): Promise<Job[]> => {
    if (limit <= 0 || agent.checkTypes.length === 0) return [];
    const take = async (places: number, fromLane: number): Promise<Job[]> =>
      places > 0 ? claimRuns(db, agent, places, { jobClass, fromLane, acceptMs: timing.acceptMs }) : [];
    const scheduled = await take(await turns.reserved(agent, jobClass, limit), 1);
    const best = await take(limit - scheduled.length, 0);
    turns.took(agent, jobClass, best);
    return [...scheduled, ...best];
  };

  const accept: Queue['accept'] = async (agentId, runs) => {
    if (runs.length === 0) return { ok: [], lost: [] };
    const { ok, begun } = await repeating(() => acceptRuns(db, agentId, runs, timing));
    wakeSessions(begun);
    return { ok, lost: without(runs, ok) };
  };

  /** An agent that runs what it was offered has accepted it, even if its word on that was lost. */
  const renew: Queue['renew'] = async (agentId, runs) => {
    if (runs.length === 0) return { ok: [], lost: [], cancel: [] };
    const { ok, cancel } = await repeating(() => renewRuns(db, agentId, runs, timing.leaseMs));
    const rest = without(runs, ok);
    if (rest.length === 0) return { ok, lost: [], cancel };
    const late = await accept(agentId, rest);
    return { ok: [...ok, ...late.ok], lost: late.lost, cancel };
  };

  const decline: Queue['decline'] = async (agentId, runs, exclude) => {
    const back = await transact(db, async (trx) => {
      const held = await lockHeld(trx, agentId, runs);
      if (exclude) await excludeAgent(trx, agentId, held);
      await giveBack(trx, held, 'returned', timing);
      return held;
    });
    changed(back);
  };

  const release: Queue['release'] = async (agentId, runs, crashed) => {
    const back = await transact(db, async (trx) => {
      const held = await lockHeld(trx, agentId, runs);
      await giveBack(trx, held, crashed ? 'lost' : 'returned', timing);
      return held;
    });
    changed(back);
  };

  const reconcile: Queue['reconcile'] = async (agentId, held) => {
    const { drop, missing } = await transact(db, async (trx) => {
      const compared = compare(await lockAllHeld(trx, agentId), held);
      await giveBack(trx, compared.missing, 'lost', timing);
      return compared;
    });
    changed(missing);
    return { drop };
  };

  const record = async (
    place: { accountId: string; slug: string },
    results: readonly RunResult[],
  ): Promise<ResultReceipt[]> => {
    if (results.length === 0) return [];
    const { receipts, touched, retries } = await receive({ store, timing, log }, place, results);
    wakeSessions(touched.map(({ session_id }) => session_id));
    wakeClaims(
      retries
        .filter(({ waitMs }) => waitMs === 0)
        .map(({ run, location }) => ({ account_id: run.account_id, location })),
    );
    return receipts;
  };

  const cancelSession: Queue['cancelSession'] = async (accountId, sessionId, sequenceIds) => {
    const runs = await transact(db, (trx) => cancelRuns(trx, accountId, sessionId, sequenceIds));
    if (runs === undefined) return false;
    for (const { agent_id, state } of runs) {
      if (state === RunState.running && agent_id !== null) store.wake(`agent:${agent_id}`);
    }
    wakeSessions([sessionId]);
    return true;
  };

  const forgetCheck: Queue['forgetCheck'] = async (checkId, trx) => {
    const runs = await (trx === undefined
      ? transact(db, (own) => forgetRuns(own, checkId))
      : forgetRuns(trx, checkId));
    wakeSessions(runs.map(({ session_id }) => session_id));
  };

  return {
    start,
    claim,
    accept,
    decline,
    renew,
    toCancel: (agentId) => runsToCancel(db, agentId),
    release,
    reconcile,
    record,
    cancelSession,
    forgetCheck,
    loop: (signal) => upkeep({ store, timing, log, retentionDays, losses }, changed, signal),
  };
}

const placesOf = ({ accountId, locations }: NewSession): { account_id: string; location: string }[] =>
  locations.map((location) => ({ account_id: accountId, location }));
