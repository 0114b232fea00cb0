import type { RunResult } from '../contract/index.ts';
import { milliseconds, printable, verdictOf } from './report-text.ts';

/** A stored result with the names that a person knows. */
export interface ShownResult {
  name: string;
  checkType: string;
  location: string;
  resultType: 'FINAL' | 'ATTEMPT';
  result: RunResult;
}

/** `12:00:01  PASS  URL   Demo page                          12 ms  my-laptop`, and why when it failed. */
export function resultLine({ name, checkType, location, resultType, result }: ShownResult): string {
  const time = new Date(result.stoppedAt).toTimeString().slice(0, 8);
  const verdict = resultType === 'ATTEMPT' ? 'RETRY' : verdictOf(result.flags);
  const columns = [
    time,
    verdict.padEnd(5),
    checkType.padEnd(4),
    printable(name, 40).padEnd(32),
    milliseconds(result.responseTimeMs).padStart(8),
    location,
  ];
  const why = result.errors[0]?.message;
  return [...columns, ...(why === undefined ? [] : [printable(why)])].join('  ');
}
