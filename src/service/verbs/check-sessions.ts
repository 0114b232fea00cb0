import { z } from 'zod';
import { findCheckType } from '../../checks/index.ts';
import { isUuid, newId } from '../../kit/ids.ts';
import { effectiveDefinitions } from '../definitions/index.ts';
import type { NewSession } from '../ports.ts';
import { checks, sessions } from '../store/index.ts';
import type { CheckRow, SessionResult, SessionRow, SessionRun } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { notFound, Refusal } from './refusal.ts';
import { WakeWaiter } from './wake-waiter.ts';

const MAX_TARGETS = 1000;

const Tags = z.array(z.string()).min(1).max(100);
export const TriggerInput = z.strictObject({
  target: z
    .strictObject({
      /** Checks with all tags of an inner list; of any of the lists. */
      matchTags: z.array(Tags).max(100).optional(),
      checkId: z.union([z.uuid(), z.array(z.uuid()).min(1).max(MAX_TARGETS)]).optional(),
    })
    .optional(),
  /** Suites install their dependencies anew. */
  refreshCache: z.boolean().default(false),
});

export const CancelInput = z.strictObject({
  sequenceId: z.array(z.uuid()).min(1).max(MAX_TARGETS).optional(),
});

const FINAL = new Set(['PASSED', 'FAILED', 'DEGRADED', 'TIMED_OUT', 'CANCELLED']);

export interface Session {
  row: SessionRow;
  results: SessionResult[];
  runs: SessionRun[];
}

/** Starts each target now at all its locations; it counts and alerts as a scheduled run does. */
export async function trigger(caller: Caller, input: z.output<typeof TriggerInput>): Promise<SessionRow[]> {
  const { target = {}, refreshCache } = input;
  return startNow(caller, await targetsOf(caller, target), { runSource: 'TRIGGER_API', refreshCache });
}

interface Start {
  runSource: NewSession['runSource'];
  refreshCache: boolean;
}

/** @throws Refusal `notFound` when none of them has a place to run */
export async function startNow(caller: Caller, rows: readonly CheckRow[], how: Start): Promise<SessionRow[]> {
  const targets = rows.filter((row) => row.run_locations.length > 0);
  if (targets.length === 0) throw new Refusal('notFound', 'no activated check matches the target');
  const scheduledAt = new Date();
  const definitionOf = await effectiveDefinitions(caller.store.db, targets);
  const started = await caller.queue.start(
    targets.map((row) => newSession({ ...row, definition: toRun(definitionOf(row), how) }, how, scheduledAt)),
  );
  return sessions.findSessions(
    caller.store.db,
    started.map((each) => each.sessionId),
  );
}

/** Checks named by id run even when deactivated; tags, or no target at all, mean activated ones. */
async function targetsOf(
  caller: Caller,
  { checkId, matchTags }: NonNullable<z.output<typeof TriggerInput>['target']>,
): Promise<CheckRow[]> {
  const { db } = caller.store;
  const byTags =
    matchTags === undefined && checkId !== undefined
      ? []
      : await checks.activeChecks(db, caller.accountId, matchTags);
  if (checkId === undefined) return byTags;
  const ids = [...new Set([checkId].flat().map((id) => id.toLowerCase()))];
  const byId = await checks.findChecks(db, caller.accountId, ids);
  const missing = ids.find((id) => !byId.some((row) => row.id === id));
  if (missing !== undefined) throw notFound('check', missing);
  return [...byId, ...byTags.filter((row) => !ids.includes(row.id))];
}

const toRun = (definition: Record<string, unknown>, { refreshCache }: Start): Record<string, unknown> =>
  'refreshCache' in definition ? { ...definition, refreshCache } : definition;

/** @param row with the definition that it runs with */
function newSession(row: CheckRow, { runSource }: Start, scheduledAt: Date): NewSession {
  const type = findCheckType(row.type)!;
  return {
    accountId: row.account_id,
    checkId: row.id,
    checkType: row.type,
    name: row.name,
    runSource,
    lane: 0,
    scheduledAt,
    request: newId(),
    locations: row.run_locations,
    definition: row.definition,
    jobClass: type.jobClass(row.definition),
    timeoutMs: type.timeoutMs(row.definition),
  };
}

export async function getSession(caller: Caller, id: string): Promise<Session> {
  const row = await existing(caller, id);
  const { db } = caller.store;
  const [results, runs] = await Promise.all([
    sessions.resultsOfSession(db, row),
    sessions.runsOfSession(db, row.id),
  ]);
  return { row, results, runs };
}

/**
 * Waits until the session is final.
 *
 * @throws Refusal `notFinal` after `maxWaitMs`, or when the signal aborts
 */
export async function awaitSession(
  caller: Caller,
  id: string,
  maxWaitMs: number,
  signal: AbortSignal,
): Promise<Session> {
  const deadline = performance.now() + maxWaitMs;
  const awake = new WakeWaiter(caller, [id]);
  try {
    while (!signal.aborted) {
      const { status } = await existing(caller, id);
      if (FINAL.has(status)) return await getSession(caller, id);
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) break;
      await awake.wait(leftMs, signal);
    }
  } finally {
    awake.stop();
  }
  throw new Refusal('notFinal', 'the check session has not finished yet; ask again');
}

/** Runs under way are told to stop; the session is CANCELLED when all have ended. */
export async function cancelSession(
  caller: Caller,
  id: string,
  { sequenceId }: z.output<typeof CancelInput>,
): Promise<void> {
  const { results, runs } = await getSession(caller, id);
  const wanted = sequenceId?.map((each) => each.toLowerCase());
  // Runs that ended days ago are known by their results alone.
  const known = new Set([...runs, ...results].map(({ sequence_id }) => sequence_id));
  const missing = wanted?.find((each) => !known.has(each));
  if (missing !== undefined) {
    throw new Refusal('notFound', `sequenceId: this check session has no sequence "${missing}"`);
  }
  await caller.queue.cancelSession(caller.accountId, id, wanted);
}

async function existing(caller: Caller, id: string): Promise<SessionRow> {
  const row = isUuid(id) ? await sessions.findSession(caller.store.db, caller.accountId, id) : undefined;
  if (row === undefined) throw notFound('check session', id);
  return row;
}
