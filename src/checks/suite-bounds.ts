import type { SuiteError, SuiteResult, SuiteTest } from './suite-result.ts';

export const MAX_SUITE_ERRORS = 100;
const MAX_TEXT_CHARS = 4_000;
const ERRORS_OF_TEST = 10;

export const boundedText = (text: string): string =>
  text.length > MAX_TEXT_CHARS ? `${text.slice(0, MAX_TEXT_CHARS)}…` : text;

export function boundedError<E extends SuiteError>(error: E): E {
  return {
    ...error,
    message: boundedText(error.message),
    ...(error.stack === undefined ? {} : { stack: boundedText(error.stack) }),
    ...(error.snippet === undefined ? {} : { snippet: boundedText(error.snippet) }),
  };
}

/**
 * As much of the tests as there is room for: steps go first, those of passed tests before others, then
 * errors beyond the first, then passed tests.
 */
export function boundedTests(
  all: readonly SuiteTest[],
  maxChars: number,
): { tests: SuiteTest[]; leftOut: number } {
  let tests = all.map((test) => ({
    ...test,
    errors: test.errors.slice(0, ERRORS_OF_TEST).map(boundedError),
  }));
  const isLarge = (): boolean => JSON.stringify(tests).length > maxChars;
  const isFine = ({ status }: SuiteTest): boolean => status === 'passed' || status === 'skipped';
  if (isLarge()) tests = tests.map((test) => (isFine(test) ? { ...test, steps: [] } : test));
  if (isLarge()) tests = tests.map((test) => ({ ...test, steps: [] }));
  if (isLarge()) {
    tests = tests.map((test) => ({
      ...test,
      errors: test.errors
        .slice(0, 1)
        .map(({ message, ...place }) => ({ ...place, message: message.slice(0, 500), stack: '' })),
      attachments: isFine(test) ? [] : test.attachments,
    }));
  }
  const ordered = isLarge() ? [...tests.filter((test) => !isFine(test)), ...tests.filter(isFine)] : tests;
  let room = maxChars;
  const kept = ordered.filter((test) => (room -= JSON.stringify(test).length + 1) >= 0);
  return { tests: kept, leftOut: all.length - kept.length };
}

/** The end of a log, which says more than its beginning. */
export function boundedLog(log: SuiteResult['jobLog'], maxChars: number): SuiteResult['jobLog'] {
  let room = maxChars;
  const from = log.findLastIndex((line) => (room -= JSON.stringify(line).length + 1) < 0) + 1;
  if (from === 0) return log;
  const msg = `${from} lines were left out: the result would be too long`;
  return [{ time: log[from - 1]!.time, msg, level: 'WARN' }, ...log.slice(from)];
}
