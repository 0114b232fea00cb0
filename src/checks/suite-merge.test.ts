import { expect, test } from 'vitest';
import { mergeSuites } from './suite-merge.ts';
import { metricsOf, type SuiteResult, type SuiteTest } from './suite-result.ts';

const suiteTest = (title: string, change: Partial<SuiteTest> = {}): SuiteTest => ({
  id: title,
  project: 'chromium',
  file: 'shop.spec.ts',
  line: 3,
  column: 1,
  titlePath: ['shop', title],
  tags: [],
  status: 'passed',
  duration: 100,
  startTime: 1000,
  retries: 0,
  errors: [],
  steps: [],
  attachments: [],
  ...change,
});

function part(index: number, tests: SuiteTest[], change: Partial<SuiteResult> = {}): SuiteResult {
  return {
    errors: [],
    playwrightTraceFiles: [],
    tests,
    testsLeftOut: 0,
    metrics: metricsOf(tests, 1),
    startTime: 1000 * index,
    endTime: 10_000 + index,
    testCommandMs: 500 * index,
    playwrightVersion: '1.58.2',
    engine: { name: 'node', version: '24.13.1' },
    packageManager: null,
    install: { ms: 100 * index, fromCache: index === 1 },
    error: null,
    degraded: ['slow'],
    shard: { index, total: 2 },
    jobLog: [{ time: 5 - index, msg: `line of ${index}`, level: 'INFO' }],
    jobAssets: [],
    playwrightTestVideos: [`artifact:shard-${index}/video.webm`],
    playwrightTestJsonReportFile: `artifact:shard-${index}/report.json`,
    htmlReportFile: null,
    blobReportFile: `artifact:shard-${index}/blob.zip`,
    ...change,
  };
}

test('the parts of a suite are one suite with all tests', () => {
  const error = { message: 'Cannot find module', file: 'playwright.config.ts' };
  const merged = mergeSuites([
    part(1, [suiteTest('login')], { errors: [error] }),
    part(
      2,
      [suiteTest('cart', { status: 'failed', duration: 900 }), suiteTest('pay', { status: 'skipped' })],
      {
        errors: [error, { message: 'expected 1', test: 'cart', project: 'chromium' }],
        packageManager: { name: 'pnpm', version: '10.1.0' },
      },
    ),
  ]);
  expect(merged.tests.map(({ id }) => id)).toEqual(['login', 'cart', 'pay']);
  expect(merged.metrics).toMatchObject({
    total: 5,
    passed: 1,
    failed: 1,
    skipped: 1,
    notRun: 2,
    testDuration: 1100,
  });
  expect(merged.metrics.slowest[0]).toEqual({ title: 'shop › cart', project: 'chromium', duration: 900 });
  expect(merged.errors).toHaveLength(2);
  expect(merged).toMatchObject({
    startTime: 1000,
    endTime: 10_002,
    testCommandMs: 1000,
    packageManager: { name: 'pnpm', version: '10.1.0' },
    install: { ms: 200, fromCache: false },
    degraded: ['slow'],
    shard: null,
    playwrightTestJsonReportFile: 'artifact:shard-1/report.json',
    blobReportFile: null,
  });
  expect(merged.jobAssets).toEqual([
    'artifact:shard-1/blob.zip',
    'artifact:shard-2/report.json',
    'artifact:shard-2/blob.zip',
  ]);
  expect(merged.jobLog.map(({ msg }) => msg)).toEqual(['[2/2] line of 2', '[1/2] line of 1']);
});

test('parts that are large together keep what failed, and say what they left out', () => {
  const large = (index: number): SuiteResult => {
    const tests = Array.from({ length: 400 }, (_, at) =>
      suiteTest(`${index} ${at} ${'x'.repeat(1000)}`, { status: at % 100 === 0 ? 'failed' : 'passed' }),
    );
    const jobLog = Array.from({ length: 1000 }, (_, at) => ({
      time: at,
      msg: `${at} ${'y'.repeat(200)}`,
      level: 'INFO' as const,
    }));
    return part(index, tests, { jobLog, testsLeftOut: 1 });
  };
  const merged = mergeSuites(Array.from({ length: 10 }, (_, at) => large(at + 1)));
  expect(JSON.stringify(merged).length).toBeLessThan(2_000_000);
  expect(merged.metrics).toMatchObject({ total: 4010, failed: 40, passed: 3960 });
  expect(merged.tests.filter(({ status }) => status === 'failed')).toHaveLength(40);
  expect(merged.tests.length + merged.testsLeftOut).toBe(4010);
  expect(merged.jobLog[0]!.msg).toMatch(/^\d+ lines were left out/);
  expect(merged.jobLog.at(-1)!.msg).toContain('999 ');
});
