import { describe, expect, test } from 'vitest';
import { nextTryMs, retryRule } from './retry.ts';

const failure = (network = false, flags: object = { hasFailures: true }) => ({
  flags: {
    hasFailures: false,
    hasErrors: false,
    isDegraded: false,
    isCancelled: false,
    overMaxResponseTime: false,
    ...flags,
  },
  errors: [{ code: 'X', message: 'x', network }],
});

const strategy = (change: object) => retryRule({ retryStrategy: change, doubleCheck: true });
const waits = (change: object): (number | null)[] =>
  [0, 1, 2, 3].map((used) => nextTryMs(strategy(change), failure(), used, 0));

describe('the wait before a retry', () => {
  test.each([
    ['FIXED', { type: 'FIXED', baseBackoffSeconds: 5, maxRetries: 3 }, [5_000, 5_000, 5_000, null]],
    ['LINEAR', { type: 'LINEAR', baseBackoffSeconds: 5, maxRetries: 3 }, [5_000, 10_000, 15_000, null]],
    [
      'EXPONENTIAL',
      { type: 'EXPONENTIAL', baseBackoffSeconds: 5, maxRetries: 3 },
      [5_000, 25_000, 125_000, null],
    ],
    ['SINGLE_RETRY', { type: 'SINGLE_RETRY', baseBackoffSeconds: 5 }, [5_000, null, null, null]],
    ['an empty strategy', {}, [60_000, 60_000, null, null]],
  ])('%s', (_name, change, expected) => {
    expect(waits(change)).toEqual(expected);
  });

  test('ends with the budget, which counts tries and waits together', () => {
    const rule = strategy({ type: 'FIXED', baseBackoffSeconds: 10, maxRetries: 10, maxDurationSeconds: 60 });
    expect(nextTryMs(rule, failure(), 1, 50_000)).toBe(10_000);
    expect(nextTryMs(rule, failure(), 1, 50_001)).toBeNull();
  });
});

describe('what is retried', () => {
  test('is a failed try or one that could not be observed', () => {
    const rule = strategy({});
    expect(nextTryMs(rule, failure(false, { hasErrors: true }), 0, 0)).toBe(60_000);
    expect(nextTryMs(rule, failure(false, { isDegraded: true }), 0, 0)).toBeNull();
    expect(nextTryMs(rule, failure(false, {}), 0, 0)).toBeNull();
    expect(nextTryMs(rule, failure(false, { hasFailures: true, isCancelled: true }), 0, 0)).toBeNull();
  });

  test('is only a transport failure with onlyOn NETWORK_ERROR', () => {
    const rule = strategy({ onlyOn: ['NETWORK_ERROR'] });
    expect(nextTryMs(rule, failure(false), 0, 0)).toBeNull();
    expect(nextTryMs(rule, failure(true), 0, 0)).toBe(60_000);
  });
});

describe('the rule', () => {
  test('null means none, absent means doubleCheck: once, at once, elsewhere', () => {
    expect(retryRule({ retryStrategy: null, doubleCheck: true })).toBeNull();
    expect(retryRule({ retryStrategy: undefined, doubleCheck: false })).toBeNull();
    const double = retryRule({ retryStrategy: undefined, doubleCheck: true });
    expect(double).toMatchObject({ maxRetries: 1, elsewhere: true });
    expect(nextTryMs(double, failure(), 0, 3_600_000)).toBe(0);
    expect(nextTryMs(double, failure(), 1, 0)).toBeNull();
  });

  test('stays in the region unless sameRegion is false', () => {
    expect(strategy({})?.elsewhere).toBe(false);
    expect(strategy({ sameRegion: false })?.elsewhere).toBe(true);
  });
});
