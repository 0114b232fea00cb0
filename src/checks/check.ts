import { z } from 'zod';
import { patternProblems, type Assertion } from './assertion-fields.ts';
import type { CheckType } from './check-type.ts';

/** The interface's data-center locations. */
export const REGIONS = [
  'us-east-1',
  'us-east-2',
  'us-west-1',
  'us-west-2',
  'ca-central-1',
  'sa-east-1',
  'eu-west-1',
  'eu-central-1',
  'eu-west-2',
  'eu-west-3',
  'eu-north-1',
  'eu-south-1',
  'me-south-1',
  'ap-southeast-1',
  'ap-northeast-1',
  'ap-east-1',
  'ap-southeast-2',
  'ap-southeast-3',
  'ap-northeast-2',
  'ap-northeast-3',
  'ap-south-1',
  'af-south-1',
] as const;

export const RUNTIMES = [
  '2026.04',
  '2025.04',
  '2024.09',
  '2024.02',
  '2023.09',
  '2023.02',
  '2022.10',
] as const;

/** For checks whose group and account choose none either. */
export const DEFAULT_RUNTIME = '2026.04';

/** The interface's check types, whether or not this build runs them. */
export const CHECK_TYPES = [
  'AGENTIC',
  'API',
  'BROWSER',
  'HEARTBEAT',
  'ICMP',
  'MULTI_STEP',
  'TCP',
  'PLAYWRIGHT',
  'URL',
  'DNS',
] as const;

const oneOf = <const V extends readonly number[]>(values: V) =>
  z.literal(values, { error: `must be one of ${values.join(', ')}` });

/** Minutes between two runs. */
export const frequencyOf = (...allowed: number[]) => oneOf(allowed).default(10);

export const KeyValue = z.strictObject({
  key: z.string().min(1),
  value: z.string(),
  locked: z.boolean().default(false),
});

export const EnvironmentVariable = z.strictObject({
  key: z.string().min(1),
  value: z.string(),
  locked: z.boolean().default(false),
  secret: z.boolean().default(false),
});

export const RetryStrategy = z.strictObject({
  type: z.enum(['FIXED', 'LINEAR', 'EXPONENTIAL', 'SINGLE_RETRY']).default('FIXED'),
  /** Seconds. */
  baseBackoffSeconds: z.number().min(0).max(3600).default(60),
  sameRegion: z.boolean().default(true),
  maxRetries: z.int().min(1).max(10).default(2),
  /** Run time and waits together; no new retry once exceeded. */
  maxDurationSeconds: z.number().min(0).max(600).default(600),
  onlyOn: z.array(z.enum(['NETWORK_ERROR'])).default([]),
});
export type RetryStrategy = z.infer<typeof RetryStrategy>;

export const AlertSettings = z.strictObject({
  escalationType: z.enum(['RUN_BASED', 'TIME_BASED']).default('RUN_BASED'),
  runBasedEscalation: z.strictObject({ failedRunThreshold: z.int().min(1).max(5).default(1) }).prefault({}),
  timeBasedEscalation: z
    .strictObject({ minutesFailingThreshold: oneOf([5, 10, 15, 30]).default(5) })
    .optional(),
  reminders: z
    .strictObject({
      amount: z.union([z.int().min(0).max(5), z.literal(100_000)]).default(0),
      interval: oneOf([1, 2, 3, 4, 5, 10, 15, 30]).default(5),
    })
    .prefault({}),
  parallelRunFailureThreshold: z
    .strictObject({
      enabled: z.boolean().default(false),
      percentage: oneOf([10, 20, 30, 40, 50, 60, 70, 80, 90, 100]).default(10),
    })
    .prefault({}),
  sslCertificates: z
    .strictObject({ enabled: z.boolean().optional(), alertThreshold: z.int().optional() })
    .optional(),
});

const TriggerIncident = z.strictObject({
  serviceId: z.string(),
  severity: z.enum(['CRITICAL', 'MAJOR', 'MEDIUM', 'MINOR']).optional(),
  name: z.string(),
  description: z.string(),
  notifySubscribers: z.boolean(),
});

/**
 * The fields that all check types share. Bounds are the interface's; a message names what is allowed.
 * `retryStrategy` keeps three states apart: absent (then `doubleCheck` applies), null (none), a strategy.
 */
export const CommonFields = z.strictObject({
  name: z.string().min(1, 'must not be empty').max(255),
  description: z.string().max(500).nullable().default(null),
  activated: z.boolean().default(true),
  muted: z.boolean().default(false),
  shouldFail: z.boolean().default(false),
  doubleCheck: z.boolean().default(true),
  locations: z.array(z.enum(REGIONS)).nullable().default([]),
  privateLocations: z.array(z.string()).nullable().default([]),
  tags: z.array(z.string()).default([]),
  frequency: frequencyOf(0, 1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440),
  /** Seconds; a day at most, as the longest frequency. */
  frequencyOffset: z.int().min(1).max(86_400).optional(),
  groupId: z.number().nullable().default(null),
  groupOrder: z.number().min(0).nullable().default(null),
  runtimeId: z.enum(RUNTIMES).nullable().default(null),
  environmentVariables: z.array(EnvironmentVariable).max(100).nullable().default([]),
  runParallel: z.boolean().default(false),
  alertChannelSubscriptions: z
    .array(z.strictObject({ alertChannelId: z.number(), activated: z.boolean() }))
    .default([]),
  useGlobalAlertSettings: z.boolean().default(true),
  alertSettings: AlertSettings.prefault({}),
  retryStrategy: RetryStrategy.nullable().optional(),
  triggerIncident: TriggerIncident.nullable().default(null),
});
export type CommonFields = z.infer<typeof CommonFields>;

/** A whole check as a user writes it: common fields plus the type's own. */
export function checkSchema(type: CheckType) {
  return CommonFields.extend(type.fields.shape).superRefine((whole, ctx) => {
    const check = whole as CommonFields & { request?: { assertions?: Assertion[] } };
    const issue = (path: string, message: string): void =>
      ctx.addIssue({ code: 'custom', path: [path], message });
    for (const { path, message } of patternProblems(check.request?.assertions ?? [])) {
      ctx.addIssue({ code: 'custom', path: ['request', 'assertions', ...path], message });
    }
    const { frequency, frequencyOffset } = check;
    if (frequency === 0 && frequencyOffset === undefined) {
      issue('frequencyOffset', 'is required when frequency is 0: the interval in seconds, 10, 20 or 30');
    }
    if (
      (check.locations?.length ?? 0) + (check.privateLocations?.length ?? 0) === 0 &&
      check.groupId === null
    ) {
      issue('locations', 'at least one of locations and privateLocations is required');
    }
    for (const [path, message] of type.problems(whole)) issue(path, message);
  });
}
export type Check = CommonFields & Record<string, unknown>;

/** Time between two runs, ms. `frequency` 0 leaves the interval to `frequencyOffset` seconds. */
export function intervalMs(check: Pick<CommonFields, 'frequency' | 'frequencyOffset'>): number {
  return check.frequency === 0 ? (check.frequencyOffset ?? 60) * 1000 : check.frequency * 60_000;
}
