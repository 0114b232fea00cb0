import type { TryReport } from '../../checks/execute.ts';
import {
  boundedError,
  boundedTests,
  boundedText,
  MAX_SUITE_ERRORS,
  type SuiteError,
  type SuiteResult,
  type SuiteTest,
} from '../../checks/index.ts';
import { ARTIFACT_PREFIX } from '../../contract/index.ts';
import type { CollectedFile } from '../ports.ts';
import type { Verdict } from './verdict.ts';

/** What a run of a suite knows besides its verdict and its files. */
export type Found = Omit<
  SuiteResult,
  | 'errors'
  | 'playwrightTraceFiles'
  | 'testsLeftOut'
  | 'error'
  | 'jobAssets'
  | 'playwrightTestVideos'
  | 'playwrightTestJsonReportFile'
  | 'htmlReportFile'
  | 'blobReportFile'
> & { loose: readonly SuiteError[] };

export const REPORT = 'report.json';
export const HTML_REPORT = 'html-report.zip';

/** Below the 1 MiB that a spooled result may have; control characters take six times their room as JSON. */
const MAX_REPORT_CHARS = 900_000;
/** Of what is known of the tests. */
const MAX_TESTS_CHARS = 400_000;
const NETWORK =
  /\b(ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|socket hang up)\b|net::ERR_/;

export function reportOf(
  found: Found,
  { verdict, cut }: Verdict,
  files: readonly CollectedFile[],
): TryReport {
  const { loose: _loose, startTime, endTime, ...rest } = found;
  const { tests, leftOut } = boundedTests(rest.tests, MAX_TESTS_CHARS);
  const errors = distinctErrors(found);
  const linkOf = ({ name }: CollectedFile): string => `${ARTIFACT_PREFIX}${name}`;
  const ofKind = (kind: CollectedFile['kind']): CollectedFile[] => files.filter((file) => file.kind === kind);
  const named = (name: string): string | null => {
    const file = files.find((each) => each.name === name);
    return file === undefined ? null : linkOf(file);
  };
  const kept = new Set(files.map(({ name }) => name));
  const suite: SuiteResult = {
    ...rest,
    startTime,
    endTime,
    errors,
    tests: tests.map((test) => withKeptFiles(test, kept)),
    testsLeftOut: leftOut,
    error: cut === null ? null : { stage: cut.stage, code: cut.code, message: cut.message },
    playwrightTraceFiles: ofKind('trace').map((file) => ({
      url: linkOf(file),
      name: file.name.replace(/^traces\//, '').replace(/\.zip$/, ''),
      filename: file.name,
    })),
    playwrightTestVideos: ofKind('video').map(linkOf),
    playwrightTestJsonReportFile: named(REPORT),
    htmlReportFile: named(HTML_REPORT),
    blobReportFile: files.filter(({ name }) => /^blob-\d+\.zip$/.test(name)).map(linkOf)[0] ?? null,
    jobAssets: files
      .filter(({ kind }) => kind !== 'trace' && kind !== 'video' && kind !== 'report')
      .map(linkOf),
  };
  const failures = failuresOf(suite, verdict);
  return fitting({
    startedAt: new Date(startTime).toISOString(),
    stoppedAt: new Date(Math.max(startTime, endTime)).toISOString(),
    responseTimeMs: verdict === 'error' ? null : Math.max(0, endTime - startTime),
    flags: {
      hasFailures: verdict === 'failed',
      hasErrors: verdict === 'error',
      isDegraded: verdict === 'degraded',
      isCancelled: verdict === 'cancelled',
      overMaxResponseTime: false,
    },
    errors: failures,
    phases: {},
    statusCode: null,
    measured: { eventLoopDelayMs: 0, resolvedAddress: null },
    detail: { playwrightCheckResult: suite, browserCheckResult: olderShape(suite) },
  });
}

/** As results were before suites had a place of their own. */
function olderShape(suite: SuiteResult): Record<string, unknown> {
  return {
    type: 'PLAYWRIGHT_TEST',
    traceSummary: {
      consoleErrors: 0,
      networkErrors: 0,
      documentErrors: 0,
      userScriptErrors: suite.errors.length,
    },
    pages: [],
    errors: suite.errors.map(({ message }) => message.slice(0, 500)),
    startTime: suite.startTime,
    endTime: suite.endTime,
    runtimeVersion: suite.playwrightVersion ?? '',
    jobLog: null,
    jobAssets: suite.jobAssets,
    playwrightTestVideos: suite.playwrightTestVideos,
    playwrightTestTraces: suite.playwrightTraceFiles.map(({ url }) => url),
    ...(suite.playwrightTestJsonReportFile === null
      ? {}
      : { playwrightTestJsonReportFile: suite.playwrightTestJsonReportFile }),
  };
}

function withKeptFiles(test: SuiteTest, kept: ReadonlySet<string>): SuiteTest {
  const attachments = test.attachments.map((each) =>
    each.artifact === null
      ? each
      : { ...each, artifact: kept.has(each.artifact) ? `${ARTIFACT_PREFIX}${each.artifact}` : null },
  );
  return { ...test, attachments };
}

/** Each error once, with the first test that had it. */
function distinctErrors({ tests, loose }: Found): SuiteResult['errors'] {
  const ofTests = tests
    .filter(({ status }) => status === 'failed' || status === 'interrupted')
    .flatMap((test) =>
      test.errors.map((error) => ({ ...error, test: test.titlePath.join(' › '), project: test.project })),
    );
  const distinct = new Map<string, SuiteResult['errors'][number]>();
  for (const error of [...loose, ...ofTests]) {
    const key = `${error.file ?? ''}:${error.line ?? ''} ${error.message}`;
    if (!distinct.has(key)) distinct.set(key, boundedError(error));
  }
  return [...distinct.values()].slice(0, MAX_SUITE_ERRORS);
}

function failuresOf({ error, tests }: SuiteResult, verdict: Verdict['verdict']): TryReport['errors'] {
  if (verdict === 'passed' || verdict === 'degraded') return [];
  const first = error === null ? [] : [failureOf(error.code, error.message)];
  const ofTests = tests
    .filter(({ status }) => status === 'failed')
    .map(({ titlePath, errors }) => {
      const [sentence = 'failed'] = (errors[0]?.message ?? '').split('\n');
      return failureOf('TEST_FAILED', `${titlePath.join(' › ')}: ${sentence}`);
    });
  return [...first, ...ofTests].slice(0, MAX_SUITE_ERRORS);
}

const failureOf = (code: string, message: string): TryReport['errors'][number] => ({
  code,
  message: boundedText(message),
  network: NETWORK.test(message),
});

/** Drops the older half of the log until the report can be spooled. */
function fitting(report: TryReport): TryReport {
  const { jobLog: log } = report.detail['playwrightCheckResult'] as SuiteResult;
  while (log.length > 1 && JSON.stringify(report).length > MAX_REPORT_CHARS) {
    const dropped = log.splice(0, Math.ceil(log.length / 2));
    const msg = `${dropped.length} lines were left out: the result would be too long`;
    log.unshift({ time: dropped[0]!.time, msg, level: 'WARN' });
    if (log.length === 2) log.pop();
  }
  return report;
}
