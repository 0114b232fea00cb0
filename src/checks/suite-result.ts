import { z } from 'zod';

/*
 * What a suite found, as `detail.playwrightCheckResult` has it. One agent makes it for its part of the tests;
 * the service merges the parts of a sharded suite.
 */

const Text = z.string();
/** Epoch ms. */
const Instant = z.number();
const Ms = z.number().min(0);

/** What went wrong, with the lines of the project's code around it. */
export const SuiteError = z.object({
  message: Text,
  stack: Text.optional(),
  /** From the project's root. */
  file: Text.optional(),
  line: z.int().min(0).optional(),
  column: z.int().min(0).optional(),
  /** Lines of the file, the one at fault marked. */
  snippet: Text.optional(),
});
export type SuiteError = z.infer<typeof SuiteError>;

export interface SuiteStep {
  title: string;
  category: string;
  startTime: number;
  duration: number;
  error?: string | undefined;
  steps: SuiteStep[];
}
export const SuiteStep: z.ZodType<SuiteStep> = z.lazy(() =>
  z.object({
    title: Text,
    category: Text,
    startTime: Instant,
    duration: z.number(),
    error: Text.optional(),
    steps: z.array(SuiteStep),
  }),
);

/** A file of a test: `artifact` is its name among those of the result, null when it was not kept. */
export const SuiteAttachment = z.object({
  name: Text,
  contentType: Text,
  artifact: Text.nullable(),
  /** Of short texts that are no file. */
  body: Text.optional(),
});

/** One test in one project. */
export const SuiteTest = z.object({
  /** Equal in every run of the same test. */
  id: Text,
  project: Text,
  /** From the project's root. */
  file: Text,
  line: z.int().min(0),
  column: z.int().min(0),
  /** Of its describes and its own. */
  titlePath: z.array(Text),
  tags: z.array(Text),
  /** `flaky`: passed after a retry. `interrupted`: the suite was cut while it ran. */
  status: z.enum(['passed', 'failed', 'flaky', 'skipped', 'interrupted']),
  /** Of its tries together, without the waits between them. */
  duration: Ms,
  startTime: Instant,
  retries: z.int().min(0),
  /** Of the last try; of a flaky test those of the tries that failed. */
  errors: z.array(SuiteError),
  /** Of the last try. Left out of large results; report.json has them. */
  steps: z.array(SuiteStep),
  attachments: z.array(SuiteAttachment),
});
export type SuiteTest = z.infer<typeof SuiteTest>;

export const SuiteMetrics = z.object({
  total: z.int().min(0),
  passed: z.int().min(0),
  failed: z.int().min(0),
  flaky: z.int().min(0),
  skipped: z.int().min(0),
  /** Under way when the suite was cut. */
  interrupted: z.int().min(0),
  /** Planned, but never begun. */
  notRun: z.int().min(0),
  /** Sum over the tests, ms. */
  testDuration: Ms,
  /** The longest, first first. */
  slowest: z.array(z.object({ title: Text, project: Text, duration: Ms })),
});
export type SuiteMetrics = z.infer<typeof SuiteMetrics>;

/** Where a suite came to its end before its tests did. */
export const SUITE_STAGES = ['fetch', 'unpack', 'prepare', 'install', 'browsers', 'test', 'collect'] as const;

export const SuiteResult = z.object({
  /** Distinct errors of all tests that failed, and of no test. */
  errors: z.array(SuiteError.extend({ test: Text.optional(), project: Text.optional() })),
  playwrightTraceFiles: z.array(z.object({ url: Text, name: Text, filename: Text })),
  tests: z.array(SuiteTest),
  /** Tests that ran, but that the result has no room for; report.json has them. */
  testsLeftOut: z.int().min(0),
  metrics: SuiteMetrics,
  startTime: Instant,
  endTime: Instant,
  /** Of the test command alone, ms. */
  testCommandMs: Ms,
  playwrightVersion: Text.nullable(),
  engine: z.object({ name: z.enum(['node', 'bun']), version: Text }).nullable(),
  packageManager: z.object({ name: z.enum(['npm', 'pnpm', 'yarn', 'bun']), version: Text }).nullable(),
  install: z.object({ ms: Ms, fromCache: z.boolean() }).nullable(),
  /** Why it is no whole result: one sentence that says what to change. */
  error: z.object({ stage: z.enum(SUITE_STAGES), code: Text, message: Text }).nullable(),
  /** Reasons given to markCheckAsDegraded. */
  degraded: z.array(Text),
  shard: z.object({ index: z.int().min(1), total: z.int().min(2) }).nullable(),
  jobLog: z.array(z.object({ time: Instant, msg: Text, level: z.enum(['DEBUG', 'INFO', 'WARN', 'ERROR']) })),
  /** Links `artifact:…` of files without a place of their own. */
  jobAssets: z.array(Text),
  playwrightTestVideos: z.array(Text),
  playwrightTestJsonReportFile: Text.nullable(),
  /** A ZIP with index.html. */
  htmlReportFile: Text.nullable(),
  /** Playwright's own report of one shard. */
  blobReportFile: Text.nullable(),
});
export type SuiteResult = z.infer<typeof SuiteResult>;

const SLOWEST = 5;

/** @param notRun tests that were planned and never begun */
export function metricsOf(tests: readonly SuiteTest[], notRun: number): SuiteMetrics {
  const count = (status: SuiteTest['status']): number =>
    tests.filter((test) => test.status === status).length;
  const slowest = tests
    .toSorted((a, b) => b.duration - a.duration)
    .slice(0, SLOWEST)
    .map(({ titlePath, project, duration }) => ({ title: titlePath.join(' › '), project, duration }));
  return {
    total: tests.length + notRun,
    passed: count('passed'),
    failed: count('failed'),
    flaky: count('flaky'),
    skipped: count('skipped'),
    interrupted: count('interrupted'),
    notRun,
    testDuration: tests.reduce((sum, { duration }) => sum + duration, 0),
    slowest,
  };
}
