import type { z } from 'zod';
import { checkSchema, findCheckType, REGIONS, type Check, type CheckType } from '../../checks/index.ts';
import { derivedId, isUuid, newId } from '../../kit/ids.ts';
import { parseNaming } from '../../kit/problems.ts';
import { effectiveDefinitions, oversize } from '../definitions/index.ts';
import type { NewSession, Trx } from '../ports.ts';
import {
  checks,
  locations,
  sequenceIdOf,
  testSessions,
  transact,
  type CheckRow,
  type SessionResult,
  type SessionRow,
  type TestSessionFilter,
  type TestSessionRow,
} from '../store/index.ts';
import type { Caller } from './caller.ts';
import type { CancelInput } from './check-sessions.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';
import { invalid } from './problems.ts';
import { missingReferences } from './references.ts';
import { notFound, Refusal } from './refusal.ts';
import {
  withEnvironment,
  type CommandTriggerInput,
  type Metadata,
  type TestRunInput,
  type TestTriggerInput,
} from './test-session-input.ts';
import { WakeWaiter } from './wake-waiter.ts';

export interface TestSession {
  row: TestSessionRow;
  /** One check session each. */
  parts: SessionRow[];
  results: SessionResult[];
}

/** A check as it is to run. */
interface Subject {
  type: CheckType;
  name: string;
  /** Null for a check that is stored nowhere. */
  checkId: string | null;
  definition: Record<string, unknown>;
}

/** What is started; the session's id is new. */
interface Plan {
  id: string;
  name: string;
  place: string;
  projectId: string | null;
  provider: 'TRIGGER' | 'API';
  runSource: NewSession['runSource'];
  recorded: boolean;
  metadata: Metadata;
}

/** Runs stored checks at one place. It counts nowhere but in its session, and alerts nobody. */
export async function triggerTests(caller: Caller, input: TestTriggerInput): Promise<TestSession> {
  const rows = await targetsOf(caller, input);
  if (rows.length === 0) throw new Refusal('notFound', NO_MATCH);
  const { testSessionId } = await startStored(caller, { ...input, shouldRecord: true }, rows);
  return getTestSession(caller, testSessionId);
}

const NO_MATCH = 'no check matches the target';

/** The same for command lines, which ask for the session themselves and tell apart that nothing matched. */
export async function triggerTestsOfCommand(
  caller: Caller,
  input: z.output<typeof CommandTriggerInput>,
): Promise<{ rows: CheckRow[]; testSessionId: string; sequenceIds: Record<string, string> }> {
  const rows = await targetsOf(caller, input);
  if (rows.length === 0) throw new Refusal('forbidden', NO_MATCH, { errorCode: 'ERR_NO_MATCHING_CHECKS' });
  return { rows, ...(await startStored(caller, input, rows)) };
}

/** @returns the sequence of each check by its id */
async function startStored(
  caller: Caller,
  input: TestTriggerInput & { shouldRecord: boolean },
  rows: readonly CheckRow[],
): Promise<{ testSessionId: string; sequenceIds: Record<string, string> }> {
  const { environmentVariables, retryStrategy, refreshCache, runLocation: place, shouldRecord } = input;
  const plan: Plan = {
    id: newId(),
    name: input.name,
    place,
    projectId: null,
    provider: 'TRIGGER',
    runSource: shouldRecord ? 'TRIGGER_RECORD' : 'TRIGGER_NO_RECORD',
    recorded: shouldRecord,
    metadata: input.metadata ?? {},
  };
  const sequences = await start(caller, plan, async (trx) => {
    const definitionOf = await effectiveDefinitions(trx, rows);
    return rows.map((row) => {
      const type = findCheckType(row.type)!;
      const definition = definitionOf(row);
      return {
        type,
        name: row.name,
        checkId: row.id,
        definition: {
          ...definition,
          ...modeOf(type, { refreshCache, streamLogs: false, retryStrategy }),
          environmentVariables: overridden(definition, environmentVariables),
        },
      };
    });
  });
  const sequenceIds = Object.fromEntries(rows.map(({ id }, at) => [id, sequences[at]!]));
  return { testSessionId: plan.id, sequenceIds };
}

/** Runs checks that are stored nowhere. @returns the sequence of each by its logicalId */
export async function runTests(
  caller: Caller,
  input: TestRunInput,
): Promise<{ testSessionId: string; sequenceIds: Record<string, string> }> {
  const place = input.runLocation;
  const { refreshCache, streamLogs, shouldRecord: recorded } = input;
  const plan: Plan = {
    id: newId(),
    name: input.name,
    place,
    projectId: input.project?.logicalId ?? null,
    provider: 'API',
    runSource: recorded ? 'TEST_RECORD' : 'TEST_NO_RECORD',
    recorded,
    metadata: withEnvironment(input.repoInfo, input.environment),
  };
  const sequences = await start(caller, plan, async (trx) => {
    const checksToRun = input.checkRunJobs.map((job, at) => ({ job, ...readJob(job, at, place) }));
    for (const [at, { check }] of checksToRun.entries()) {
      const problems = await missingReferences(trx, caller.accountId, check);
      if (problems.length > 0) throw invalid(problems.map((problem) => `checkRunJobs[${at}].${problem}`));
    }
    const rows = checksToRun.map(({ type, check }) => ({
      account_id: caller.accountId,
      type: type.name,
      group_id: null,
      definition: check,
    }));
    const definitionOf = await effectiveDefinitions(trx, rows);
    return checksToRun.map(({ job, type, check }, at) => ({
      type,
      name: check.name,
      checkId: null,
      definition: {
        ...definitionOf(rows[at]!),
        ...modeOf(type, { refreshCache, streamLogs, retryStrategy: job.testRetryStrategy }),
      },
    }));
  });
  const sequenceIds = Object.fromEntries(
    input.checkRunJobs.map(({ logicalId }, at) => [logicalId, sequences[at]!]),
  );
  return { testSessionId: plan.id, sequenceIds };
}

/** Suites have no retries but their own. */
function modeOf(
  type: CheckType,
  mode: { refreshCache: boolean; streamLogs: boolean; retryStrategy: unknown },
): Record<string, unknown> {
  const { refreshCache, streamLogs, retryStrategy } = mode;
  if (type.lane === 'suite') return { refreshCache, streamLogs, isTestSession: true };
  return { retryStrategy, doubleCheck: false };
}

function overridden(
  { environmentVariables }: Record<string, unknown>,
  own: TestTriggerInput['environmentVariables'],
): unknown[] {
  const before = (environmentVariables ?? []) as { key: string }[];
  return [...new Map([...before, ...own].map((each) => [each.key, each])).values()];
}

type TestJob = TestRunInput['checkRunJobs'][number];

/** @throws Refusal `invalid` */
function readJob(job: TestJob, at: number, place: string): { type: CheckType; check: Check } {
  const { checkType } = job;
  const type = findCheckType(checkType);
  if (type === undefined) throw invalid([`checkRunJobs[${at}].checkType: ${checkType} does not run here`]);
  const fields = Object.fromEntries(Object.entries(job).filter(([name]) => !NOT_OF_CHECKS.has(name)));
  const here = isRegion(place) ? { locations: [place] } : { privateLocations: [place] };
  const parsed = parseNaming(checkSchema(type), { ...fields, ...here }, 'the check');
  if (!parsed.success) throw invalid(parsed.problems.map((problem) => `checkRunJobs[${at}].${problem}`));
  return { type, check: parsed.data as Check };
}

/** What a job says beside its check, and what the session says in its place. */
const NOT_OF_CHECKS: ReadonlySet<string> = new Set([
  'checkType',
  'logicalId',
  'testRetryStrategy',
  'sourceInfo',
  'filePath',
  'group',
  'groupId',
  'locations',
  'privateLocations',
]);

const isRegion = (place: string): boolean => REGIONS.some((region) => region === place);

/** The checks of the target: by id, by tags, or all. */
async function targetsOf(caller: Caller, { target }: Pick<TestTriggerInput, 'target'>): Promise<CheckRow[]> {
  const { db } = caller.store;
  const { checkId, matchTags, allowDeactivated = false } = target ?? {};
  const byTags =
    checkId !== undefined && matchTags === undefined
      ? []
      : await checks.matchingChecks(db, caller.accountId, matchTags, allowDeactivated);
  if (checkId === undefined) return byTags;
  const ids = [...new Set([checkId].flat().map((id) => id.toLowerCase()))];
  const byId = await checks.findChecks(db, caller.accountId, ids);
  const missing = ids.find((id) => !byId.some((row) => row.id === id));
  if (missing !== undefined) throw notFound('check', missing);
  const asleep = byId.find(({ activated }) => !activated && !allowDeactivated);
  if (asleep !== undefined) {
    throw invalid([`target.checkId: ${asleep.id} is deactivated; allowDeactivated lets it run`]);
  }
  return [...byId, ...byTags.filter((row) => !ids.includes(row.id))];
}

/** Stores the session with its runs, in one transaction. @returns the sequence of each subject */
async function start(
  caller: Caller,
  plan: Plan,
  subjectsOf: (trx: Trx) => Promise<Subject[]>,
): Promise<string[]> {
  const started = await transact(caller.store.db, async (trx) => {
    const known = await locations.holdSlugs(trx, caller.accountId, [plan.place]);
    if (!known.has(plan.place) && !isRegion(plan.place)) {
      throw invalid([
        `runLocation: ${JSON.stringify(plan.place)} is neither a private location nor a region`,
      ]);
    }
    const subjects = await subjectsOf(trx);
    const tooLarge = subjects.map(({ definition }) => oversize(definition)).find((why) => why !== null);
    if (tooLarge !== undefined) throw invalid([`body: a check ${tooLarge}`]);
    await testSessions.insertTestSession(trx, {
      id: plan.id,
      account_id: caller.accountId,
      name: plan.name,
      project_id: plan.projectId,
      provider: plan.provider,
      run_source: plan.runSource,
      run_location: plan.place,
      recorded: plan.recorded,
      metadata: JSON.stringify(plan.metadata),
    });
    const scheduledAt = new Date();
    const sessions = subjects.map((subject, at) => newSession(caller, plan, subject, at, scheduledAt));
    return caller.queue.start(sessions, trx);
  });
  caller.store.wake(`runs:${caller.accountId}/${plan.place}`);
  return started.map(({ sequenceIds }) => sequenceIds[0]!);
}

function newSession(
  caller: Caller,
  { id, place, runSource }: Plan,
  { type, name, checkId, definition }: Subject,
  at: number,
  scheduledAt: Date,
): NewSession {
  return {
    accountId: caller.accountId,
    // Nobody's, so that no check counts what its tests find.
    checkId: derivedId('tested', id, checkId ?? at),
    testSession: { id, checkId },
    checkType: type.name,
    name,
    runSource,
    lane: 0,
    scheduledAt,
    locations: [place],
    definition,
    jobClass: type.jobClass(definition),
    timeoutMs: type.timeoutMs(definition),
  };
}

export async function getTestSession(caller: Caller, id: string): Promise<TestSession> {
  const row = await existing(caller, id);
  const [session] = await withParts(caller, [row]);
  return session!;
}

async function withParts(caller: Caller, rows: readonly TestSessionRow[]): Promise<TestSession[]> {
  const { db } = caller.store;
  const parts = await testSessions.partsOf(
    db,
    rows.map(({ id }) => id),
  );
  const results = await testSessions.resultsOfParts(db, parts);
  return rows.map((row) => {
    const own = parts.filter(({ test_session_id }) => test_session_id === row.id);
    const ids = new Set(own.map(({ id }) => id));
    return { row, parts: own, results: results.filter(({ session_id }) => ids.has(session_id)) };
  });
}

export const isOver = ({ parts }: Pick<TestSession, 'parts'>): boolean =>
  parts.every(({ stopped_at }) => stopped_at !== null);

/** @throws Refusal `notFinal` after `maxWaitMs`, or when the signal aborts */
export async function awaitTestSession(
  caller: Caller,
  id: string,
  maxWaitMs: number,
  signal: AbortSignal,
): Promise<TestSession> {
  const deadline = performance.now() + maxWaitMs;
  let session = await getTestSession(caller, id);
  const awake = new WakeWaiter(
    caller,
    session.parts.map((part) => part.id),
  );
  try {
    while (!isOver(session) && !signal.aborted && performance.now() < deadline) {
      await awake.wait(deadline - performance.now(), signal);
      session = await getTestSession(caller, id);
    }
  } finally {
    awake.stop();
  }
  if (isOver(session)) return session;
  throw new Refusal('notFinal', 'the test session has not finished yet; ask again');
}

/** Ends its suites; checks of other types take no longer than minutes and go on to their end. */
export async function cancelTestSession(
  caller: Caller,
  id: string,
  { sequenceId }: z.output<typeof CancelInput>,
): Promise<void> {
  const { row, parts } = await getTestSession(caller, id);
  const wanted = sequenceId?.map((each) => each.toLowerCase());
  const known = new Map(parts.map((part) => [sequenceIdOf(part.id, row.run_location), part]));
  const missing = wanted?.find((each) => !known.has(each));
  if (missing !== undefined) {
    throw new Refusal('notFound', `sequenceId: this test session has no sequence "${missing}"`);
  }
  for (const [sequence, part] of known) {
    const isSuite = findCheckType(part.check_type)?.lane === 'suite';
    if (!isSuite || (wanted !== undefined && !wanted.includes(sequence))) continue;
    await caller.queue.cancelSession(caller.accountId, part.id);
  }
}

export async function listTestSessions(
  caller: Caller,
  filter: TestSessionFilter,
  page: { limit: number; nextId?: string | undefined },
): Promise<{ sessions: TestSession[]; nextId: string | null }> {
  const walk = `test sessions of ${caller.accountId}`;
  const after = page.nextId === undefined ? undefined : decodeCursor(walk, page.nextId);
  const { db } = caller.store;
  const found = await testSessions.listTestSessions(db, caller.accountId, filter, page.limit + 1, after);
  const rows = found.slice(0, page.limit);
  const last = rows.at(-1);
  const isMore = found.length > page.limit && last !== undefined;
  return {
    sessions: await withParts(caller, rows),
    nextId: isMore ? encodeCursor(walk, { startedAtMicros: last.createdAtMicros, id: last.id }) : null,
  };
}

/** Private locations that the sessions ran at, by slug. */
export async function locationIdsOf(
  caller: Caller,
  sessions: readonly TestSession[],
): Promise<ReadonlyMap<string, string>> {
  if (sessions.length === 0) return new Map();
  const all = await locations.listLocations(caller.store.db, caller.accountId);
  return new Map(all.map(({ slug, id }) => [slug, id]));
}

async function existing(caller: Caller, id: string): Promise<TestSessionRow> {
  const { db } = caller.store;
  const row = isUuid(id) ? await testSessions.findTestSession(db, caller.accountId, id) : undefined;
  if (row === undefined) throw notFound('test session', id);
  return row;
}
