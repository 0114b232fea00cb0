import { z } from 'zod';
import type { Session } from '../../verbs/index.ts';
import { RunState } from '../../store/schema.ts';
import type { SessionResult, SessionRow, SessionRun } from '../../store/index.ts';
import { CheckTypeName, Instant, instant, instantOrNull } from './shapes.ts';

const STATUSES = [
  'STARTED',
  'PROGRESS',
  'FAILED',
  'PASSED',
  'DEGRADED',
  'PROGRESS_FAILED',
  'PROGRESS_DEGRADED',
  'TIMED_OUT',
  'CANCELLED',
] as const;

const RUN_SOURCES = [
  'CLI_DEPLOY',
  'DEPLOYMENT',
  'DEPLOYMENT_CACHE_WARMER',
  'EDITOR',
  'GROUP_RUN_ALL',
  'LEGACY_TRIGGER',
  'SCHEDULER',
  'SCHEDULE_NOW',
  'TEST_NO_RECORD',
  'TEST_RECORD',
  'TRIGGER_NO_RECORD',
  'TRIGGER_RECORD',
  'TRIGGER_API',
] as const;

/** Sentences for what ends runs without a result. */
export const RUN_END_REASONS: Readonly<Record<string, string>> = {
  NO_AGENT_CONNECTED: 'No agent of this location was connected before the run expired.',
  ALL_AGENTS_BUSY:
    'Every agent of this location was busy, or had no room for runs of this kind, until the run expired.',
  LOCATION_NOT_SERVED:
    'Nobody serves this data-center location here: choose a private location with an agent of your own.',
  NO_CAPABLE_AGENT: 'No connected agent of this location can run this type of check.',
};

const SessionResultEntry = z.strictObject({
  checkResultId: z.uuid(),
  checkResultLink: z.url(),
  checkId: z.uuid(),
  checkType: CheckTypeName,
  name: z.string(),
  runLocation: z.string(),
  sequenceId: z.uuid(),
  resultType: z.enum(['FINAL', 'ATTEMPT']).nullable(),
  hasErrors: z.boolean(),
  hasFailures: z.boolean(),
  isDegraded: z.boolean(),
  aborted: z.boolean(),
  isCancelled: z.boolean(),
  responseTime: z.number().nullable(),
  startedAt: Instant.nullable(),
  stoppedAt: Instant.nullable(),
});

const SessionRunEntry = z.strictObject({
  checkRunId: z.int(),
  sequenceId: z.uuid(),
  runLocation: z.string(),
  state: z.enum(['QUEUED', 'RUNNING', 'FINISHED', 'CANCELLED', 'TIMED_OUT']),
  attempts: z.int().describe('Retries so far'),
  reason: z.string().nullable().describe('Why it ended without a result'),
  message: z.string().nullable().describe('The reason as a sentence'),
});

const sessionShape = {
  checkSessionId: z.uuid(),
  checkSessionLink: z.url(),
  checkId: z.uuid(),
  checkType: CheckTypeName,
  name: z.string(),
  status: z.enum(STATUSES),
  startedAt: Instant,
  stoppedAt: Instant.nullable(),
  timeElapsed: z.number().describe('Milliseconds since the start, or until the end'),
  runLocations: z.array(z.string()),
  runSource: z.enum(RUN_SOURCES).nullable(),
};

export const StartedSession = z.strictObject(sessionShape).meta({ id: 'StartedCheckSession' });
export const CheckSession = z
  .strictObject({
    ...sessionShape,
    results: z.array(SessionResultEntry),
    runs: z.array(SessionRunEntry),
  })
  .meta({ id: 'CheckSession' });

/** @param now wall clock, ms */
export function showStarted(row: SessionRow, publicUrl: string, now: number): Record<string, unknown> {
  const end = row.stopped_at?.getTime() ?? now;
  return {
    checkSessionId: row.id,
    checkSessionLink: `${publicUrl}/v2/check-sessions/${row.id}`,
    checkId: row.check_id,
    checkType: row.check_type,
    name: row.name,
    status: row.status,
    startedAt: instant(row.started_at),
    stoppedAt: instantOrNull(row.stopped_at),
    timeElapsed: Math.max(0, end - row.started_at.getTime()),
    runLocations: row.run_locations,
    runSource: row.run_source,
  };
}

export function showSession(session: Session, publicUrl: string, now: number): Record<string, unknown> {
  return {
    ...showStarted(session.row, publicUrl, now),
    results: session.results.map((result) => showResult(result, publicUrl)),
    runs: session.runs.map(showRun),
  };
}

function showResult(row: SessionResult, publicUrl: string): z.input<typeof SessionResultEntry> {
  return {
    checkResultId: row.id,
    checkResultLink: `${publicUrl}/v1/check-results/${row.check_id}/${row.id}`,
    checkId: row.check_id,
    checkType: CheckTypeName.parse(row.check_type),
    name: row.name,
    runLocation: row.location,
    sequenceId: row.sequence_id,
    resultType: row.result_type,
    hasErrors: row.has_errors,
    hasFailures: row.has_failures,
    isDegraded: row.is_degraded,
    aborted: false,
    isCancelled: row.is_cancelled,
    responseTime: row.response_time,
    startedAt: instant(row.started_at),
    stoppedAt: instant(row.stopped_at),
  };
}

function showRun(run: SessionRun): z.input<typeof SessionRunEntry> {
  return {
    checkRunId: run.id,
    sequenceId: run.sequence_id,
    runLocation: run.location,
    state: stateOf(run.state),
    attempts: run.attempt,
    reason: run.end_reason,
    message: run.end_reason === null ? null : (RUN_END_REASONS[run.end_reason] ?? run.end_reason),
  };
}

function stateOf(state: number): z.input<typeof SessionRunEntry>['state'] {
  switch (state) {
    case RunState.queued:
    case RunState.offered:
      return 'QUEUED';
    case RunState.running:
      return 'RUNNING';
    case RunState.cancelled:
      return 'CANCELLED';
    case RunState.expired:
      return 'TIMED_OUT';
    default:
      return 'FINISHED';
  }
}
