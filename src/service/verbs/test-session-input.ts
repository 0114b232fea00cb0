import { z } from 'zod';
import { EnvironmentVariable, REGIONS, RetryStrategy } from '../../checks/index.ts';

const MAX_JOBS = 200;

const text = z.string().max(2000).nullable().optional();

/** Lists show it with every session. */
const MAX_METADATA_CHARS = 16_000;

/** Where the tested code comes from, for whoever reads the session later. */
const Metadata = z
  .looseObject({
    environment: z.string().max(200).optional(),
    repoUrl: text,
    commitId: text,
    commitOwner: text,
    commitMessage: text,
    branchName: text,
  })
  .refine((metadata) => JSON.stringify(metadata).length <= MAX_METADATA_CHARS, {
    error: `must have at most ${MAX_METADATA_CHARS} characters as JSON`,
  });
export type Metadata = z.output<typeof Metadata>;

export const withEnvironment = (
  commit: Metadata | null | undefined,
  environment: string | null | undefined,
): Metadata => ({ ...commit, ...(typeof environment === 'string' ? { environment } : {}) });

const name = z.string().min(1, 'must not be empty').max(255);
const variables = z.array(EnvironmentVariable).max(100).default([]);
/** Tests are not repeated unless somebody asks for it. */
const retries = RetryStrategy.extend({ type: z.enum(['FIXED', 'LINEAR', 'EXPONENTIAL']) })
  .nullable()
  .default(null);

export const TestTriggerInput = z.strictObject({
  name,
  /** Slug of a private location or a region code. */
  runLocation: z.string().min(1).max(64),
  target: z
    .strictObject({
      matchTags: z.array(z.array(z.string()).min(1).max(100)).max(100).optional(),
      checkId: z.union([z.uuid(), z.array(z.uuid()).min(1).max(MAX_JOBS)]).optional(),
      allowDeactivated: z.boolean().default(false),
    })
    .optional(),
  environmentVariables: variables,
  retryStrategy: retries,
  refreshCache: z.boolean().default(false),
  metadata: Metadata.optional(),
});
export type TestTriggerInput = z.output<typeof TestTriggerInput>;

const RunLocation = z.union([
  z.string().min(1).max(64),
  z.object({ type: z.literal('PUBLIC'), region: z.enum(REGIONS) }).transform(({ region }) => region),
  z
    .object({ type: z.literal('PRIVATE'), id: z.string().optional(), slugName: z.string().min(1).max(64) })
    .transform(({ slugName }) => slugName),
]);

const environment = z.string().max(200).nullable().optional();
const repoInfo = Metadata.nullable().optional();

/** Says the same as TestTriggerInput in the words of command lines. */
export const CommandTriggerInput = z
  .strictObject({
    name,
    shouldRecord: z.boolean().default(true),
    runLocation: RunLocation,
    /** What the client calls the session. */
    checkRunSuiteId: z.string().max(255).nullable().optional(),
    targetTags: z.array(z.array(z.string()).max(100)).max(100).default([]),
    checkId: z.array(z.uuid()).max(MAX_JOBS).nullable().optional(),
    environmentVariables: variables,
    repoInfo,
    environment,
    testRetryStrategy: retries,
    refreshCache: z.boolean().default(false),
  })
  .transform(({ targetTags, checkId, repoInfo: commit, environment: where, testRetryStrategy, ...rest }) => {
    const matchTags = targetTags.filter((tags) => tags.length > 0);
    const isNamed = checkId != null && checkId.length > 0;
    return {
      name: rest.name,
      runLocation: rest.runLocation,
      shouldRecord: rest.shouldRecord,
      environmentVariables: rest.environmentVariables,
      refreshCache: rest.refreshCache,
      retryStrategy: testRetryStrategy,
      target: {
        ...(matchTags.length > 0 ? { matchTags } : {}),
        ...(isNamed ? { checkId } : {}),
        allowDeactivated: false,
      },
      metadata: withEnvironment(commit, where),
    };
  });

/** A check that is stored nowhere, with what only test sessions say about it. */
const TestJob = z.looseObject({
  checkType: z.string(),
  logicalId: z.string().min(1).max(255),
  testRetryStrategy: retries,
  sourceInfo: z.looseObject({}).nullable().optional(),
  filePath: z.string().max(1000).nullable().optional(),
});

export const TestRunInput = z.strictObject({
  name,
  checkRunJobs: z
    .array(TestJob)
    .min(1)
    .max(MAX_JOBS)
    .refine((jobs) => new Set(jobs.map(({ logicalId }) => logicalId)).size === jobs.length, {
      error: 'must have a logicalId of its own each',
    }),
  project: z.looseObject({ logicalId: z.string().min(1).max(255) }).optional(),
  sharedFiles: z
    .array(z.unknown())
    .max(0, 'must be empty: give files as dependencies of each check')
    .optional(),
  runLocation: RunLocation,
  repoInfo,
  environment,
  shouldRecord: z.boolean().default(true),
  streamLogs: z.boolean().default(false),
  refreshCache: z.boolean().default(false),
});
export type TestRunInput = z.output<typeof TestRunInput>;
