import type { LiveResult } from '../service/index.ts';
import { milliseconds, printable, verdictOf } from './report-text.ts';

/** `12:00:01  PASS   URL   Demo page                          12 ms  my-laptop`, and why it failed. */
export function resultLine(result: LiveResult): string {
  const { checkName, checkType, location, resultType, responseTimeMs, startedAt, message } = result;
  const verdict = resultType === 'ATTEMPT' ? 'RETRY' : verdictOf(result);
  const columns = [
    startedAt.toTimeString().slice(0, 8),
    verdict.padEnd(5),
    checkType.padEnd(4),
    printable(checkName, 40).padEnd(32),
    milliseconds(responseTimeMs).padStart(8),
    location,
  ];
  return [...columns, ...(message === null ? [] : [printable(message)])].join('  ');
}
