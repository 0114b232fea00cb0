import { z } from 'zod';
import {
  AlertSettings,
  assertionFields,
  CommonFields,
  EnvironmentVariable,
  GENERAL,
  KeyValue,
  patternProblems,
  REGIONS,
  RetryStrategy,
  RUNTIMES,
} from '../../checks/index.ts';

const MAX_SCRIPT_CHARS = 256_000;

/** What every API check of the group has besides its own. */
const ApiCheckDefaults = z.strictObject({
  /** For checks as {{GROUP_BASE_URL}}. */
  url: z.string().max(2048).nullable().default(''),
  headers: z.array(KeyValue).default([]),
  queryParameters: z.array(KeyValue).default([]),
  assertions: assertionFields(['STATUS_CODE', 'JSON_BODY', 'HEADERS', 'TEXT_BODY', 'RESPONSE_TIME'], GENERAL),
  basicAuth: z
    .strictObject({ username: z.string().default(''), password: z.string().default('') })
    .nullable()
    .default(null),
});

const script = z.string().max(MAX_SCRIPT_CHARS).nullable().default(null);
const snippetId = z.int().positive().nullable().default(null);

const shape = z.strictObject({
  name: CommonFields.shape.name,
  activated: z.boolean().default(true),
  muted: z.boolean().default(false),
  tags: z.array(z.string()).default([]),
  locations: z.array(z.enum(REGIONS)).nullable().default([]),
  privateLocations: z.array(z.string()).nullable().default([]),
  /** Checks that start at once when the group is triggered. */
  concurrency: z.int().min(1).max(1000).default(3),
  apiCheckDefaults: ApiCheckDefaults.prefault({}),
  /** Kept for clients that send it; nothing reads it. */
  browserCheckDefaults: z.union([z.string(), z.record(z.string(), z.unknown())]).optional(),
  runtimeId: z.enum(RUNTIMES).nullable().default(null),
  environmentVariables: z.array(EnvironmentVariable).max(100).nullable().default([]),
  alertChannelSubscriptions: CommonFields.shape.alertChannelSubscriptions,
  setupSnippetId: snippetId,
  tearDownSnippetId: snippetId,
  localSetupScript: script,
  localTearDownScript: script,
  runParallel: z.boolean().nullable().default(null),
  alertSettings: AlertSettings.prefault({}),
  retryStrategy: z
    .union([RetryStrategy, z.literal('FALLBACK')])
    .nullable()
    .default('FALLBACK'),
  /** Null leaves all alert settings to each check. */
  useGlobalAlertSettings: z.boolean().nullable().default(null),
  doubleCheck: z.boolean().default(false),
});

/**
 * A check group as a user writes it. Null, `FALLBACK` and empty lists of locations leave the matter to
 * each check.
 */
export const GroupFields = shape.superRefine((group, ctx) => {
  for (const { path, message } of patternProblems(group.apiCheckDefaults.assertions)) {
    ctx.addIssue({ code: 'custom', path: ['apiCheckDefaults', 'assertions', ...path], message });
  }
  for (const [script, snippet] of [
    ['localSetupScript', 'setupSnippetId'],
    ['localTearDownScript', 'tearDownSnippetId'],
  ] as const) {
    if (group[snippet] === null || (group[script] ?? '').trim() === '') continue;
    ctx.addIssue({ code: 'custom', path: [script], message: `must be null or empty beside ${snippet}` });
  }
});
export type Group = z.infer<typeof GroupFields>;
