import { ExitCode } from '../../kit/errors.ts';
import type { Examined } from './examine.ts';
import type { State } from './hop.ts';

const WORDS: Readonly<Record<State, string>> = {
  ok: 'ok',
  warning: 'WARNING',
  failed: 'FAILED',
  unneeded: '-',
  untried: '?',
};
const WORD_WIDTH = 9;
const NAME_WIDTH = 13;

/** A line, and the remedy below it. */
export function hopText({ name, finding: { state, found, remedy } }: Examined): string {
  const line = `${WORDS[state].padEnd(WORD_WIDTH)}${name.padEnd(NAME_WIDTH)}${found}`;
  return remedy === undefined ? line : `${line}\n${' '.repeat(WORD_WIDTH + NAME_WIDTH)}→ ${remedy}`;
}

/** That of the first hop that failed. */
export function exitCodeOf(examined: readonly Examined[]): ExitCode {
  const first = examined.find(({ finding }) => finding.state === 'failed');
  return first === undefined ? ExitCode.done : (first.finding.exitCode ?? ExitCode.internal);
}

export function notServedBy(examined: readonly Examined[]): string[] {
  return [...new Set(examined.flatMap(({ finding }) => finding.notServed ?? []))];
}

export function conclusion(examined: readonly Examined[], exitCode: ExitCode): string {
  const count = (state: State): number => examined.filter(({ finding }) => finding.state === state).length;
  const notServed = notServedBy(examined);
  const counts = [
    plural(count('failed'), 'failure', 'failures'),
    plural(count('warning'), 'warning', 'warnings'),
    ...(count('untried') === 0 ? [] : [`${count('untried')} not tried`]),
  ].join(', ');
  const verdict =
    exitCode === ExitCode.done ? 'An agent can work here' : 'An agent cannot work here as it should';
  const less = notServed.length === 0 ? '' : `\nNot served here: ${notServed.join(', ')}.`;
  return `${verdict}: ${counts}.${less}`;
}

const plural = (n: number, one: string, many: string): string => `${n} ${n === 1 ? one : many}`;
