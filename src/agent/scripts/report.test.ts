import { expect, test } from 'vitest';
import type { CollectedFile } from '../ports.ts';
import { fitting, reportOf, type RunFacts } from './report.ts';

const facts: RunFacts = {
  checkType: 'BROWSER',
  runtimeId: '2026.04',
  judged: { verdict: 'passed', errors: [], failures: [], isLate: false },
  startTime: 1_000_000,
  endTime: 1_002_500,
  detail: {},
  log: [],
  files: [],
  eventLoopDelayMs: 3,
};

const file = (kind: CollectedFile['kind'], name: string): CollectedFile => ({
  name,
  kind,
  contentType: 'application/octet-stream',
  size: 1,
  sha256: '0'.repeat(64),
  path: '/somewhere',
});

test('a browser result has all members of the interface', () => {
  const files = [
    file('screenshot', 'page.png'),
    file('trace', 'trace.zip'),
    file('video', 'video.webm'),
    file('report', 'report.json'),
    file('file', 'downloads/a.pdf'),
  ];
  const report = reportOf({ ...facts, detail: { pages: [{ url: 'http://x/' }] }, files });
  expect(report).toMatchObject({
    responseTimeMs: 2500,
    flags: { hasFailures: false },
    measured: { eventLoopDelayMs: 3 },
  });
  expect(report.detail).toEqual({
    browserCheckResult: {
      type: 'PLAYWRIGHT',
      traceSummary: { consoleErrors: 0, networkErrors: 0, documentErrors: 0, userScriptErrors: 0 },
      pages: [{ url: 'http://x/' }],
      errors: [],
      startTime: 1_000_000,
      endTime: 1_002_500,
      runtimeVersion: '2026.04',
      jobLog: [],
      jobAssets: ['artifact:page.png', 'artifact:downloads/a.pdf'],
      playwrightTestTraces: ['artifact:trace.zip'],
      playwrightTestVideos: ['artifact:video.webm'],
      playwrightTestJsonReportFile: 'artifact:report.json',
    },
  });
});

test('a multistep result has no browser members', () => {
  const { multiStepCheckResult } = reportOf({ ...facts, checkType: 'MULTI_STEP' }).detail;
  expect(Object.keys(multiStepCheckResult as object).sort()).toEqual([
    'endTime',
    'errors',
    'jobAssets',
    'jobLog',
    'playwrightTestTraces',
    'runtimeVersion',
    'startTime',
  ]);
});

test('what cannot be judged has neither failures nor a response time', () => {
  const judged = {
    ...facts.judged,
    verdict: 'error' as const,
    failures: [{ code: 'X', message: 'x', network: false }],
  };
  expect(reportOf({ ...facts, judged })).toMatchObject({
    responseTimeMs: null,
    flags: { hasErrors: true, hasFailures: false },
    errors: [{ code: 'X' }],
  });
});

test('a member that is too long is left out, and the log says which', () => {
  const report = reportOf({ ...facts, log: [], detail: { pages: ['x'.repeat(400_000)], steps: ['y'] } });
  const { browserCheckResult: found } = report.detail as {
    browserCheckResult: { pages: []; jobLog: { msg: string }[] };
  };
  expect(found).toMatchObject({ pages: [], steps: ['y'] });
  expect(found.jobLog[0]!.msg).toBe('pages is left out: it has 400004 characters');
});

test('the log shrinks until the whole can be kept', () => {
  const log = Array.from({ length: 100 }, (_, i) => ({
    time: i,
    msg: '\0'.repeat(2500),
    level: 'INFO' as const,
  }));
  const report = fitting(reportOf({ ...facts, log }));
  expect(JSON.stringify(report).length).toBeLessThan(900_000);
  expect(report.detail).toMatchObject({
    browserCheckResult: { jobLog: expect.arrayContaining([expect.objectContaining({ time: 99 })]) },
  });
});
