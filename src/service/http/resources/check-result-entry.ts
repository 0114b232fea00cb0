import { z } from 'zod';
import type { ResultRow } from '../../store/index.ts';
import { instant, Instant } from './shapes.ts';

const Detail = z.record(z.string(), z.unknown()).nullable().default(null);

/** A result of one type has its own member filled; the others are null. */
const DETAILS = {
  apiCheckResult: Detail.describe('API and URL checks'),
  tcpCheckResult: Detail,
  dnsCheckResult: Detail,
  icmpCheckResult: Detail,
  browserCheckResult: Detail,
  multiStepCheckResult: Detail,
  agenticCheckResult: Detail,
  playwrightCheckResult: Detail,
};
const FailureEntry = z.strictObject({
  code: z.string(),
  message: z.string(),
  network: z.boolean().describe('A transport failure, which onlyOn NETWORK_ERROR retries'),
});

export const CheckResult = z
  .strictObject({
    id: z.uuid(),
    name: z.string(),
    checkId: z.uuid(),
    hasFailures: z.boolean(),
    hasErrors: z.boolean(),
    isDegraded: z.boolean(),
    isCancelled: z.boolean(),
    overMaxResponseTime: z.boolean(),
    runLocation: z.string(),
    startedAt: Instant,
    stoppedAt: Instant,
    created_at: Instant,
    responseTime: z.number().nullable().describe('Milliseconds; null when nothing was measured'),
    ...DETAILS,
    checkRunId: z.int(),
    attempts: z.int(),
    resultType: z.enum(['FINAL', 'ATTEMPT']),
    sequenceId: z.uuid(),
    traceId: z.string().nullable(),
    errorGroupIds: z.array(z.uuid()),
    errors: z.array(FailureEntry).describe('Why it failed, most important first'),
    eventLoopDelayMs: z.number().nullable().describe('Longest delay inside the agent while it measured'),
    resolvedAddress: z.string().nullable().describe('Address that was contacted'),
  })
  .meta({ id: 'CheckResult' });

export const resultFields = CheckResult.keyof();

/** What the queue keeps of a result beside its columns. */
const Stored = z.object({
  ...DETAILS,
  errors: z.array(FailureEntry.strip()).catch([]),
  measured: z
    .object({ eventLoopDelayMs: z.number(), resolvedAddress: z.string().nullable() })
    .nullable()
    .catch(null),
});

export function showResult(row: ResultRow): z.input<typeof CheckResult> {
  const { errors, measured, ...details } = Stored.parse(row.detail ?? {});
  return {
    id: row.id,
    name: row.name,
    checkId: row.check_id,
    hasFailures: row.has_failures,
    hasErrors: row.has_errors,
    isDegraded: row.is_degraded,
    isCancelled: row.is_cancelled,
    overMaxResponseTime: row.over_max_response_time,
    runLocation: row.location,
    startedAt: instant(row.started_at),
    stoppedAt: instant(row.stopped_at),
    created_at: instant(row.created_at),
    responseTime: row.response_time,
    ...details,
    checkRunId: row.run_id,
    attempts: row.attempts,
    resultType: row.result_type,
    sequenceId: row.sequence_id,
    traceId: null,
    errorGroupIds: [],
    errors,
    eventLoopDelayMs: measured?.eventLoopDelayMs ?? null,
    resolvedAddress: measured?.resolvedAddress ?? null,
  };
}
