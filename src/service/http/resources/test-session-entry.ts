import { z } from 'zod';
import { REGIONS } from '../../../checks/index.ts';
import { sequenceIdOf, type SessionResult, type SessionRow } from '../../store/index.ts';
import { isOver, type TestSession } from '../../verbs/index.ts';
import { RUN_END_REASONS } from './check-session-entry.ts';
import { CheckTypeName, Instant, instant, instantOrNull } from './shapes.ts';

export const TEST_STATUSES = ['RUNNING', 'FAILED', 'PASSED', 'CANCELLED'] as const;
type TestStatus = (typeof TEST_STATUSES)[number];

const Metadata = z.looseObject({
  environment: z.string().optional(),
  repoUrl: z.string().nullable().optional(),
  commitId: z.string().nullable().optional(),
  commitOwner: z.string().nullable().optional(),
  commitMessage: z.string().nullable().optional(),
  branchName: z.string().nullable().optional(),
});

const TestResultEntry = z.strictObject({
  testSessionResultId: z.uuid().describe('The same before and after the run ends'),
  testSessionResultLink: z.url(),
  sequenceId: z.uuid(),
  checkId: z.uuid().nullable().describe('Null for a check that is stored nowhere'),
  checkType: CheckTypeName,
  name: z.string(),
  runLocation: z.string(),
  errorGroupIds: z.array(z.uuid()),
  resultType: z.enum(['FINAL', 'ATTEMPT', 'PENDING']),
  status: z.enum(TEST_STATUSES),
  hasErrors: z.boolean(),
  hasFailures: z.boolean(),
  isDegraded: z.boolean(),
  isCancelled: z.boolean(),
  aborted: z.boolean().describe('It ended without a result'),
  message: z.string().nullable().describe('Why it ended without a result'),
  responseTime: z.number().nullable(),
  startedAt: Instant.nullable(),
  stoppedAt: Instant.nullable(),
});

const sessionShape = {
  testSessionId: z.uuid(),
  testSessionLink: z.url(),
  name: z.string(),
  status: z.enum(TEST_STATUSES),
  errorGroupIds: z.array(z.uuid()),
  startedAt: Instant,
  stoppedAt: Instant.nullable(),
  timeElapsed: z.number().describe('Milliseconds since the start, or until the end'),
  metadata: Metadata,
};

export const TestSessionShape = z
  .strictObject({ ...sessionShape, runSource: z.string(), results: z.array(TestResultEntry) })
  .meta({ id: 'TestSession' });

const text = z.string().nullable();
const sequences = z.array(z.uuid()).describe('Sequence ids');
export const TestSessionListEntry = z
  .strictObject({
    ...sessionShape,
    id: z.uuid(),
    accountId: z.uuid(),
    projectId: text,
    provider: z.string(),
    running: sequences,
    passed: sequences,
    failed: sequences,
    cancelled: sequences,
    region: text.describe('Region code, of a session that did not run at a private location'),
    privateLocationId: z.uuid().nullable(),
    invoker: z.strictObject({ name: z.string(), picture: z.string() }).nullable(),
    repoUrl: text,
    commitId: text,
    commitOwner: text,
    commitMessage: text,
    branchName: text,
    environment: text,
    created_at: Instant,
    updated_at: Instant.nullable(),
  })
  .meta({ id: 'TestSessionListEntry' });

/** Where a test session is read. */
export const testSessionUrl = (publicUrl: string, id: string): string =>
  `${publicUrl}/v1/test-sessions/${id}`;

/** Where a result of a test session is read. */
export const testResultUrl = (publicUrl: string, testSessionId: string, id: string): string =>
  `${testSessionUrl(publicUrl, testSessionId)}/results/${id}`;

function showHead(session: TestSession, publicUrl: string, now: number) {
  const { row, parts, results } = session;
  const stops = parts.flatMap(({ stopped_at }) => (stopped_at === null ? [] : [stopped_at.getTime()]));
  const start = row.created_at.getTime();
  const stoppedAt = isOver(session) ? new Date(Math.max(start, ...stops)) : null;
  return {
    testSessionId: row.id,
    testSessionLink: testSessionUrl(publicUrl, row.id),
    name: row.name,
    status: statusOf(parts.map(partStatus)),
    errorGroupIds: [...new Set(results.flatMap(({ error_group_ids }) => error_group_ids))],
    startedAt: instant(row.created_at),
    stoppedAt: instantOrNull(stoppedAt),
    timeElapsed: Math.max(0, (stoppedAt?.getTime() ?? now) - start),
    metadata: row.metadata,
  };
}

/** @param now wall clock, ms */
export function showTestSession(
  session: TestSession,
  publicUrl: string,
  now: number,
): Record<string, unknown> {
  const { row, parts, results } = session;
  return {
    ...showHead(session, publicUrl, now),
    runSource: row.run_source,
    results: parts.flatMap((part) => {
      const own = results.filter(({ session_id }) => session_id === part.id);
      const base = baseOf(session, part);
      const shown = own.map((result) => showResult(base, result, publicUrl));
      return own.some(({ result_type }) => result_type === 'FINAL')
        ? shown
        : [...shown, showPending(base, part, publicUrl)];
    }),
  };
}

/** @param locationIds of private locations, by slug */
export function showListEntry(
  session: TestSession,
  publicUrl: string,
  locationIds: ReadonlyMap<string, string>,
  now: number,
): Record<string, unknown> {
  const { row, parts } = session;
  const having = (status: TestStatus): string[] =>
    parts
      .filter((part) => partStatus(part) === status)
      .map((part) => sequenceIdOf(part.id, row.run_location));
  const said = (name: string): string | null => {
    const value = row.metadata[name];
    return typeof value === 'string' ? value : null;
  };
  const privateLocationId = locationIds.get(row.run_location) ?? null;
  const isRegion = REGIONS.some((region) => region === row.run_location);
  return {
    ...showHead(session, publicUrl, now),
    id: row.id,
    accountId: row.account_id,
    projectId: row.project_id,
    provider: row.provider,
    running: having('RUNNING'),
    passed: having('PASSED'),
    failed: having('FAILED'),
    cancelled: having('CANCELLED'),
    region: privateLocationId === null && isRegion ? row.run_location : null,
    privateLocationId,
    invoker: null,
    repoUrl: said('repoUrl'),
    commitId: said('commitId'),
    commitOwner: said('commitOwner'),
    commitMessage: said('commitMessage'),
    branchName: said('branchName'),
    environment: said('environment'),
    created_at: instant(row.created_at),
    updated_at: null,
  };
}

function partStatus({ status, stopped_at }: SessionRow): TestStatus {
  if (stopped_at === null) return 'RUNNING';
  if (status === 'CANCELLED') return 'CANCELLED';
  return status === 'PASSED' || status === 'DEGRADED' ? 'PASSED' : 'FAILED';
}

const statusOf = (parts: readonly TestStatus[]): TestStatus =>
  (['RUNNING', 'CANCELLED', 'FAILED'] as const).find((status) => parts.includes(status)) ?? 'PASSED';

interface Base {
  testSessionId: string;
  sequenceId: string;
  checkId: string | null;
  checkType: z.output<typeof CheckTypeName>;
  name: string;
  runLocation: string;
}

const baseOf = ({ row }: TestSession, part: SessionRow): Base => ({
  testSessionId: row.id,
  sequenceId: sequenceIdOf(part.id, row.run_location),
  checkId: part.tested_check_id,
  checkType: CheckTypeName.parse(part.check_type),
  name: part.name,
  runLocation: row.run_location,
});

function showResult(
  { testSessionId, ...base }: Base,
  row: SessionResult,
  publicUrl: string,
): z.input<typeof TestResultEntry> {
  const id = row.result_type === 'FINAL' ? base.sequenceId : row.id;
  return {
    testSessionResultId: id,
    testSessionResultLink: testResultUrl(publicUrl, testSessionId, id),
    ...base,
    errorGroupIds: row.error_group_ids,
    resultType: row.result_type,
    status: resultStatus(row),
    hasErrors: row.has_errors,
    hasFailures: row.has_failures,
    isDegraded: row.is_degraded,
    isCancelled: row.is_cancelled,
    aborted: false,
    message: null,
    responseTime: row.response_time,
    startedAt: instant(row.started_at),
    stoppedAt: instant(row.stopped_at),
  };
}

function resultStatus({ is_cancelled, has_failures, has_errors }: SessionResult): TestStatus {
  if (is_cancelled) return 'CANCELLED';
  return has_failures || has_errors ? 'FAILED' : 'PASSED';
}

/** A run that is still to end, or that ended without a result: then the fault is ours. */
function showPending(
  { testSessionId, ...base }: Base,
  part: SessionRow,
  publicUrl: string,
): z.input<typeof TestResultEntry> {
  const status = partStatus(part);
  const aborted = status !== 'RUNNING';
  const reason = part.end_reason;
  return {
    testSessionResultId: base.sequenceId,
    testSessionResultLink: testResultUrl(publicUrl, testSessionId, base.sequenceId),
    ...base,
    errorGroupIds: [],
    resultType: aborted ? 'FINAL' : 'PENDING',
    status,
    hasErrors: status === 'FAILED',
    hasFailures: false,
    isDegraded: false,
    isCancelled: status === 'CANCELLED',
    aborted,
    message: reason === null ? null : (RUN_END_REASONS[reason] ?? reason),
    responseTime: null,
    startedAt: null,
    stoppedAt: null,
  };
}
