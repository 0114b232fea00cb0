import { z } from 'zod';
import { frequencyOf } from './check.ts';
import { scriptFilePath } from './script-fields.ts';

/** Of the test command, seconds; what comes before it has PREPARATION_MS. */
const DEFAULT_TIMEOUT_SECONDS = 1800;
const MAX_TIMEOUT_SECONDS = 3600;
/** For the archive, its dependencies (300 s) and browsers that the agent has not got yet, ms. */
const PREPARATION_MS = 600_000;
export const MAX_SHARDS = 10;
export const DEFAULT_TEST_COMMAND = 'npx playwright test';

/** An uploaded project, named by the SHA-256 of its archive. */
export const BUNDLE_KEY = /^bundles\/([0-9a-f]{64})\.tar\.(gz|zst)$/;

const NO_RETRIES = 'the retries of a suite are those of its own Playwright config';
const command = z
  .string()
  .max(4000)
  .regex(/\S/, 'must not be empty')
  .regex(/^[^\p{Cc}]*$/u, 'must be one line');
const name = z.string().min(1, 'must not be empty').max(500);

/** Empty and `.` are the root of the archive. */
const folder = z
  .string()
  .transform((path) => path.replace(/(?<=.)\/+$/, ''))
  .pipe(z.union([z.enum(['', '.']).transform(() => null), scriptFilePath]));

export const PlaywrightFields = z.strictObject({
  /** What the upload of the project's archive answered. */
  codeBundlePath: z
    .string()
    .regex(BUNDLE_KEY, 'must be the key that the upload of the archive answered: bundles/….tar.gz'),
  /** Null: what the project's own files ask for. */
  engine: z.enum(['node', 'bun']).nullable().default(null),
  engineVersion: z
    .string()
    .regex(/^\d{1,3}(\.\d{1,4}){0,2}$/, 'must be a version such as 24 or 24.13.1')
    .nullable()
    .default(null),
  /** Null: the one in the project's lock file. */
  playwrightVersion: z
    .string()
    .regex(/^\d{1,3}\.\d{1,4}(\.\d{1,4})?(-[\w.]{1,100})?$/, 'must be a version such as 1.58.2')
    .nullable()
    .default(null),
  /** Null: those that the projects to be run use. */
  browsers: z
    .array(z.string().regex(/^[a-z][a-z0-9-]{0,40}$/, 'must be a browser such as chromium'))
    .max(20)
    .nullable()
    .default(null),
  /** Null: the package manager's install by its lock file. */
  installCommand: command.nullable().default(null),
  testCommand: command.default(DEFAULT_TEST_COMMAND),
  /** Where the commands run, from the root of the archive. */
  workingDir: folder.nullable().default(null),
  /** The Playwright config, from workingDir. Null: as Playwright finds it. */
  configPath: scriptFilePath.nullable().default(null),
  /** Each one `--project`. */
  pwProjects: z.array(name).max(100).default([]),
  /** Together one `--grep`: tests with any of them. */
  pwTags: z.array(name).max(100).default([]),
  /** Equal for projects with the same dependencies. */
  cacheHash: z
    .string()
    .regex(/^[\w.:+/=-]{1,256}$/, 'must be a hash of the files that name the dependencies')
    .nullable()
    .default(null),
  timeoutSeconds: z.int().min(1).max(MAX_TIMEOUT_SECONDS).default(DEFAULT_TIMEOUT_SECONDS),
  /** Runs at once, each with its part of the tests; their results are merged. */
  shards: z.int().min(1).max(MAX_SHARDS).default(1),
  /** Deprecated and without effect. */
  groupName: z.string().max(255).optional(),
  /** From a minute on: a suite takes minutes. */
  frequency: frequencyOf(1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440),
  shouldFail: z.literal(false, 'must be false: mark tests with test.fail() instead').default(false),
  doubleCheck: z.literal(false, `must be false: ${NO_RETRIES}`).default(false),
  retryStrategy: z.null(`must be null: ${NO_RETRIES}`).default(null),
});

/** What the service adds to a suite's fields for the agent that runs it. */
export const SuiteJob = PlaywrightFields.strip().extend({
  bundle: z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/), size: z.int().min(0) }),
  /** `index` counts from 1, as Playwright's --shard does; null for a suite in one piece. */
  shard: z
    .object({ index: z.int().min(1).max(MAX_SHARDS), total: z.int().min(2).max(MAX_SHARDS) })
    .nullable()
    .default(null),
  /** Dependencies are installed anew, whatever is kept. */
  refreshCache: z.boolean().default(false),
  /** Somebody reads the log while the suite runs. */
  streamLogs: z.boolean().default(false),
  isTestSession: z.boolean().default(false),
});
export type SuiteJob = z.infer<typeof SuiteJob>;

export function suiteProblems({
  engine,
  engineVersion,
}: z.infer<typeof PlaywrightFields>): [field: string, message: string][] {
  if (engine !== null || engineVersion === null) return [];
  return [['engineVersion', 'is the version of engine: say node or bun there']];
}

export const suiteTimeoutMs = ({ timeoutSeconds }: { timeoutSeconds: number }): number =>
  timeoutSeconds * 1000 + PREPARATION_MS;
