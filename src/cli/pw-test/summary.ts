import { printable } from '../report-text.ts';
import type { Kept } from './report.ts';
import type { SessionStatus, SuiteReport } from './session-client.ts';

const SHOWN = 10;

/** What is left to say when the log has ended. */
export function summary(
  { status, results }: SessionStatus,
  report: SuiteReport | null,
  kept: Kept,
  folder: string,
): string {
  const suite = report?.playwrightCheckResult ?? null;
  const errors = (report?.errors ?? []).map(({ message }) => `  ${printable(firstLine(message), 500)}`);
  const ended = results.flatMap(({ message }) => (message === null ? [] : [`  ${printable(message, 500)}`]));
  const lines = [
    `${status}${suite === null ? '' : `  ${counts(suite)}  ${seconds(suite.endTime - suite.startTime)}`}`,
    ...(status === 'PASSED' ? [] : [...ended, ...first(errors)]),
    ...(suite?.install == null
      ? []
      : [
          `  dependencies ${suite.install.fromCache ? 'from the cache' : 'installed'} in ${seconds(suite.install.ms)}`,
        ]),
    ...(kept.files === 0
      ? []
      : [
          `  ${kept.files} files in ${folder}${kept.reports.length === 0 ? '' : `; report: ${kept.reports.join(', ')}`}`,
        ]),
    ...first(kept.missing.map((line) => `  not there: ${printable(line, 500)}`)),
  ];
  return `\n${lines.join('\n')}`;
}

type Suite = NonNullable<SuiteReport['playwrightCheckResult']>;

const counts = ({ metrics }: Suite): string =>
  (['passed', 'failed', 'flaky', 'skipped', 'interrupted', 'notRun'] as const)
    .filter((name) => metrics[name] > 0)
    .map((name) => `${metrics[name]} ${name === 'notRun' ? 'not run' : name}`)
    .join(', ');

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
const firstLine = (text: string): string => text.split('\n')[0] ?? '';

function first(lines: readonly string[]): string[] {
  const more = lines.length - SHOWN;
  return more > 0 ? [...lines.slice(0, SHOWN), `  and ${more} more`] : [...lines];
}
