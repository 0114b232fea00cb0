import { expect, test } from 'vitest';
import type { SuiteTest } from '../../checks/index.ts';
import { judgeTests, type Facts } from './verdict.ts';

const testWith = (status: SuiteTest['status'], ...messages: string[]): SuiteTest => ({
  id: messages.join(),
  project: '',
  file: 'a.spec.ts',
  line: 1,
  column: 1,
  titlePath: ['a'],
  tags: [],
  status,
  duration: 30_000,
  startTime: 0,
  retries: 0,
  errors: messages.map((message) => ({ message })),
  steps: [],
  attachments: [],
});

function judged(tests: SuiteTest[], more: Partial<Facts> = {}): string {
  const failed = tests.filter(({ status }) => status === 'failed').length;
  const { verdict, cut } = judgeTests({
    tests,
    metrics: {
      total: tests.length,
      passed: tests.length - failed,
      failed,
      flaky: 0,
      skipped: 0,
      interrupted: 0,
      notRun: 0,
      testDuration: 0,
      slowest: [],
    },
    loose: [],
    hasBegun: true,
    status: failed > 0 ? 'failed' : 'passed',
    ended: { code: failed > 0 ? 1 : 0, signal: null },
    printed: '',
    printedBytes: 0,
    degraded: [],
    onlySoft: false,
    gate: null,
    isFull: false,
    wasStarved: () => false,
    ...more,
  });
  return cut === null ? verdict : `${verdict} ${cut.code}`;
}

const BLOCKED = { code: 'TARGET_BLOCKED', sentence: '10.0.0.1 is blocked by it', by: 'browser' } as const;
const NO_PROXY = { code: 'PROXY_UNREACHABLE', sentence: 'the proxy cannot be used', by: 'browser' } as const;
const late = testWith('failed', 'Test timeout of 30000ms exceeded.');
const wrong = testWith('failed', 'expect(received).toBe(expected)');
const fine = testWith('passed');
const starved = { wasStarved: () => true };

test.each<[string, string, string]>([
  ['a time that ran out', judged([fine, late]), 'failed'],
  ['one on a machine that was busy', judged([fine, late], starved), 'error AGENT_OVERLOADED'],
  ['one beside an error that no time explains', judged([late, wrong], starved), 'failed'],
  ['tests that passed on a busy machine', judged([fine], starved), 'passed'],
  ['a full disk', judged([wrong], { isFull: true }), 'error DISK_FULL'],
  ['a full disk that nobody missed', judged([fine], { isFull: true }), 'passed'],
  ['a proxy that is gone', judged([wrong], { gate: gateWith(NO_PROXY) }), 'error PROXY_UNREACHABLE'],
  ['a target that is blocked, unnamed', judged([wrong], { gate: gateWith(BLOCKED) }), 'failed'],
  [
    'a target that is blocked, named',
    judged([testWith('failed', `page.goto: ${BLOCKED.sentence}`)], { gate: gateWith(BLOCKED) }),
    'error TARGET_BLOCKED',
  ],
  [
    'connections that were cut',
    judged([wrong], { gate: { refusals: [], wasInterrupted: true } }),
    'error EGRESS_FAULT',
  ],
  [
    'more text than there is room for',
    judged([testWith('failed', 'RangeError: Array buffer allocation failed')], { printedBytes: 500e6 }),
    'failed OUTPUT_LIMIT',
  ],
])('%s', (_what, found, expected) => {
  expect(found).toBe(expected);
});

function gateWith(refusal: typeof BLOCKED | typeof NO_PROXY): Facts['gate'] {
  return { refusals: [refusal], wasInterrupted: false };
}
