import { boundedLog, boundedTests, MAX_SUITE_ERRORS } from './suite-bounds.ts';
import type { SuiteMetrics, SuiteResult } from './suite-result.ts';

const SLOWEST = 5;
/** Room for all the tests of three parts as large as a part may be; whoever lists results reads a hundred. */
const MAX_TESTS_CHARS = 1_200_000;
const MAX_LOG_CHARS = 400_000;

/**
 * What a suite found of which each part was run elsewhere: all tests, sums of what is counted, and the
 * time from the first start to the last end. Each part has reports of its own.
 *
 * @param parts in the order of their shards, one at least
 */
export function mergeSuites(parts: readonly SuiteResult[]): SuiteResult {
  const first = parts[0]!;
  const every = <T>(of: (part: SuiteResult) => readonly T[]): T[] => parts.flatMap(of);
  const most = (of: (part: SuiteResult) => number): number => Math.max(...parts.map(of));
  const known = <T>(of: (part: SuiteResult) => T | null): T | null =>
    parts.map(of).find((value) => value !== null) ?? null;
  const { tests, leftOut } = boundedTests(
    every((part) => part.tests),
    MAX_TESTS_CHARS,
  );
  const log = every(({ jobLog, shard }) =>
    shard === null
      ? jobLog
      : jobLog.map((line) => ({ ...line, msg: `[${shard.index}/${shard.total}] ${line.msg}` })),
  ).toSorted((a, b) => a.time - b.time);
  const installs = every(({ install }) => (install === null ? [] : [install]));
  return {
    errors: distinct(every(({ errors }) => errors)).slice(0, MAX_SUITE_ERRORS),
    playwrightTraceFiles: every((part) => part.playwrightTraceFiles),
    tests,
    testsLeftOut: leftOut + sum(parts.map((part) => part.testsLeftOut)),
    metrics: mergeMetrics(parts.map(({ metrics }) => metrics)),
    startTime: Math.min(...parts.map(({ startTime }) => startTime)),
    endTime: most(({ endTime }) => endTime),
    testCommandMs: most(({ testCommandMs }) => testCommandMs),
    playwrightVersion: known((part) => part.playwrightVersion),
    engine: known(({ engine }) => engine),
    packageManager: known(({ packageManager }) => packageManager),
    install:
      installs.length === 0
        ? null
        : {
            ms: Math.max(...installs.map(({ ms }) => ms)),
            fromCache: installs.every(({ fromCache }) => fromCache),
          },
    error: known(({ error }) => error),
    degraded: [...new Set(every(({ degraded }) => degraded))],
    shard: null,
    jobLog: boundedLog(log, MAX_LOG_CHARS),
    jobAssets: [
      ...every(({ jobAssets }) => jobAssets),
      ...every((part) =>
        [
          part === first ? null : part.playwrightTestJsonReportFile,
          part === first ? null : part.htmlReportFile,
          part.blobReportFile,
        ].filter((link) => link !== null),
      ),
    ],
    playwrightTestVideos: every((part) => part.playwrightTestVideos),
    playwrightTestJsonReportFile: first.playwrightTestJsonReportFile,
    htmlReportFile: first.htmlReportFile,
    blobReportFile: null,
  };
}

function mergeMetrics(all: readonly SuiteMetrics[]): SuiteMetrics {
  const total = (of: (metrics: SuiteMetrics) => number): number => sum(all.map(of));
  return {
    total: total((each) => each.total),
    passed: total(({ passed }) => passed),
    failed: total(({ failed }) => failed),
    flaky: total(({ flaky }) => flaky),
    skipped: total(({ skipped }) => skipped),
    interrupted: total(({ interrupted }) => interrupted),
    notRun: total(({ notRun }) => notRun),
    testDuration: total(({ testDuration }) => testDuration),
    slowest: all
      .flatMap(({ slowest }) => slowest)
      .toSorted((a, b) => b.duration - a.duration)
      .slice(0, SLOWEST),
  };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((before, each) => before + each, 0);

/** Errors of no test, such as a config that throws, come from every part. */
function distinct(errors: SuiteResult['errors']): SuiteResult['errors'] {
  const keyOf = ({ message, test, project }: SuiteResult['errors'][number]): string =>
    JSON.stringify([message, test, project]);
  return [...new Map(errors.map((error) => [keyOf(error), error])).values()];
}
