import { z } from 'zod';
import { RunRef } from './job.ts';

/** Of the agent's clock, which may be wrong, but not so wrong that no store can hold it. */
const Instant = z.iso.datetime().refine((text) => text >= '1970', 'a time from 1970 on is allowed');
/** About 12 days in ms; more is no measurement. */
const Duration = z.number().min(0).max(1e9);

/** What an artifact is to its reader; the REST interface groups by it. */
export const ArtifactKind = z.enum(['log', 'trace', 'video', 'screenshot', 'snapshot', 'report', 'file']);

/**
 * One file that belongs to a result. The manifest travels with the result, the bytes afterwards
 * (artifacts.ts). `refused`: it is not sent, and `reason` says why in one sentence.
 */
export const Artifact = z.object({
  /** Unique within the result: `trace.zip`, `screenshots/after-login.png`. */
  name: z.string().min(1).max(255),
  kind: ArtifactKind,
  contentType: z.string().max(255),
  /** Bytes. */
  size: z.int().min(0),
  /** Hex; null for what is refused. */
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullable(),
  state: z.enum(['pending', 'refused']),
  reason: z.string().max(1000).optional(),
});
export type Artifact = z.infer<typeof Artifact>;

/** Result details name an artifact of the same result by `artifact:<name>`; the service makes links of them. */
export const ARTIFACT_PREFIX = 'artifact:';

/**
 * What one try of a run found. The agent reports facts only; whether they are counted as FINAL or
 * ATTEMPT is the service's decision, taken in the transaction that closes the run.
 *
 * hasFailures: the target failed. hasErrors: the agent could not observe it. Never both.
 */
export const RunResult = z.object({
  /** derivedId(sequenceId, attempt, token): a resend has the same id. */
  resultId: z.uuid(),
  ...RunRef.shape,
  sequenceId: z.uuid(),
  attempt: z.int().min(0).max(1000),
  startedAt: Instant,
  stoppedAt: Instant,
  /** ms, or null when nothing was measured. */
  responseTimeMs: Duration.nullable(),
  flags: z.object({
    hasFailures: z.boolean(),
    hasErrors: z.boolean(),
    isDegraded: z.boolean(),
    isCancelled: z.boolean(),
    overMaxResponseTime: z.boolean(),
  }),
  /**
   * Why it failed, most important first. `network` marks transport failures (refused, reset, timed
   * out, not resolved), the only ones that `onlyOn: NETWORK_ERROR` retries.
   */
  errors: z
    .array(z.object({ code: z.string().max(100), message: z.string(), network: z.boolean() }))
    .max(1000),
  /** Phases in ms by the interface's names (wait, dns, tcp, tls, firstByte, download, total). */
  phases: z.record(z.string(), z.number()),
  statusCode: z.int().min(0).max(65_535).nullable(),
  measured: z.object({
    /** Largest delay of the probe's event loop while the try ran, ms. */
    eventLoopDelayMs: Duration,
    /** Address that was contacted, or null. */
    resolvedAddress: z.string().max(1000).nullable(),
  }),
  artifacts: z.array(Artifact).max(2000).optional(),
  /** Keyed by the result's name in the interface: `{ apiCheckResult: … }`. */
  detail: z.record(z.string(), z.unknown()),
});
export type RunResult = z.infer<typeof RunResult>;

/** What a result says of a target that nobody could look at; the times, flags and errors are the caller's. */
export const unobserved = (flags: Partial<RunResult['flags']>) => ({
  responseTimeMs: null,
  flags: {
    hasFailures: false,
    hasErrors: false,
    isDegraded: false,
    isCancelled: false,
    overMaxResponseTime: false,
    ...flags,
  },
  phases: {},
  statusCode: null,
  measured: { eventLoopDelayMs: 0, resolvedAddress: null },
  detail: {},
});

/** Most results in one batch; `welcome` says so too. */
export const MAX_BATCH_ITEMS = 100;

export const ResultBatch = z.object({
  agentId: z.uuid(),
  sentAt: z.iso.datetime(),
  /** Service clock minus agent clock, ms, from the lowest-latency exchange seen; null before one. */
  clockOffsetMs: z.number().nullable(),
  results: z.array(RunResult).min(1).max(MAX_BATCH_ITEMS),
});
export type ResultBatch = z.infer<typeof ResultBatch>;

/**
 * stored: counted. duplicate: this very result was stored before. late: another outcome of the run was
 * first; kept, not counted. rejected: never acceptable. retry: send again after `afterMs`.
 */
export const ResultReceipt = z.object({
  resultId: z.uuid(),
  status: z.enum(['stored', 'duplicate', 'late', 'rejected', 'retry']),
  reason: z.string().optional(),
  afterMs: z.number().optional(),
});
export type ResultReceipt = z.infer<typeof ResultReceipt>;

/** Answer to a batch, sent after COMMIT only: one receipt per result, in order. */
export const ResultReceipts = z.object({ receipts: z.array(ResultReceipt) });
