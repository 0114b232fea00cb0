import { expect, test } from 'vitest';
import { describeReport, milliseconds, printable, verdictOf } from './report-text.ts';
import { resultLine } from './result-line.ts';

const flags = {
  hasFailures: false,
  hasErrors: false,
  isDegraded: false,
  isCancelled: false,
  overMaxResponseTime: false,
};

const report = {
  startedAt: '2026-01-02T03:04:05.000Z',
  stoppedAt: '2026-01-02T03:04:05.012Z',
  responseTimeMs: 12.4,
  flags,
  errors: [],
  phases: { dns: 1.04, total: 12.4 },
  statusCode: 200,
  measured: { eventLoopDelayMs: 0, resolvedAddress: '127.0.0.1' },
  detail: {},
};

test.each([
  [{}, 'PASS'],
  [{ isDegraded: true }, 'SLOW'],
  [{ hasFailures: true, isDegraded: true }, 'FAIL'],
  [{ hasErrors: true }, 'ERROR'],
  [{ isCancelled: true, hasErrors: true }, 'CANCELLED'],
] as const)('%j reads %s', (more, verdict) => {
  expect(verdictOf({ ...flags, ...more })).toBe(verdict);
});

test.each([
  [null, '-'],
  [0.044, '0.04 ms'],
  [9.96, '10 ms'],
  [9.44, '9.4 ms'],
  [1234.4, '1234 ms'],
])('%s ms reads %s', (ms, text) => expect(milliseconds(ms)).toBe(text));

test('a report shows what was seen and what was wrong', () => {
  const failed = {
    ...report,
    flags: { ...flags, hasFailures: true },
    errors: [{ code: 'ASSERTION', message: 'status code: 200 is not 201', network: false }],
  };
  expect(describeReport('URL', 'Page', failed)).toBe(
    [
      'FAIL  URL  Page  12 ms',
      '  address  127.0.0.1',
      '  status   200',
      '  phases   dns 1 ms, total 12 ms',
      '  ASSERTION: status code: 200 is not 201',
    ].join('\n'),
  );
});

test('what the user printed is shown, and not what the request did', () => {
  const line = (level: string, msg: string): object => ({ time: 1, level, msg });
  const jobLog = {
    setup: [line('INFO', 'token made'), line('ERROR', 'Error: odd\n    at /setup.js:1:1')],
    request: [line('INFO', 'connected to 127.0.0.1:80 in 1 ms')],
    teardown: [line('WARN', 'gone\u001b[2J')],
  };
  const shown = (detail: object): string[] =>
    describeReport('API', 'Page', { ...report, detail: { ...detail } })
      .split('\n')
      .slice(4);
  expect(shown({ apiCheckResult: { jobLog } })).toEqual([
    '  INFO     token made',
    '  ERROR    Error: odd',
    '               at /setup.js:1:1',
    '  WARN     gone [2J',
  ]);
  expect(shown({ browserCheckResult: { jobLog: jobLog.setup } })).toHaveLength(3);
  expect(shown({ apiCheckResult: { jobLog: null } })).toEqual([]);
});

test('what a target sends cannot move the cursor of a terminal', () => {
  expect(printable('a\u001b[2Jb\r\n\u009bc\u202ed')).toBe('a [2Jb c d');
  expect(printable('x'.repeat(500), 20)).toHaveLength(20);
});

test('a live result is one line', () => {
  const result = {
    ...flags,
    checkId: '6b1e8a52-2f5e-4c3b-9d1e-1b2c3d4e5f60',
    checkName: 'Demo page',
    checkType: 'URL',
    location: 'here',
    resultType: 'FINAL' as const,
    responseTimeMs: 12.4,
    statusCode: 200,
    startedAt: new Date(),
    message: null,
  };
  expect(resultLine(result)).toMatch(/^\d\d:\d\d:\d\d {2}PASS {3}URL {3}Demo page {23,} +12 ms {2}here$/);
  const failed = { ...result, hasFailures: true, message: 'status\n503' };
  expect(resultLine(failed)).toMatch(/ {2}FAIL {3}.* here {2}status 503$/);
});
