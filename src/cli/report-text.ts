import { z } from 'zod';
import type { TryReport } from '../checks/execute.ts';

/** The flags of a result that decide its word. */
export interface VerdictFlags {
  hasFailures: boolean;
  hasErrors: boolean;
  isDegraded: boolean;
  isCancelled: boolean;
}

export type Verdict = 'PASS' | 'SLOW' | 'FAIL' | 'ERROR' | 'CANCELLED';

/** One word for the flags. ERROR: the target was not observed, through a fault on our side. */
export function verdictOf(flags: VerdictFlags): Verdict {
  if (flags.isCancelled) return 'CANCELLED';
  if (flags.hasErrors) return 'ERROR';
  if (flags.hasFailures) return 'FAIL';
  return flags.isDegraded ? 'SLOW' : 'PASS';
}

/** `12 ms`, `1.4 ms`, `0.04 ms`, `-` */
export function milliseconds(ms: number | null): string {
  if (ms === null) return '-';
  const digits = ms < 1 ? 2 : ms < 10 ? 1 : 0;
  return `${Number(ms.toFixed(digits))} ms`;
}

/** Text of a target or a user on one line of a terminal: without control characters, at most `limit` long. */
export function printable(text: string, limit = 160): string {
  const clean = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ');
  return clean.length > limit ? `${clean.slice(0, limit - 1)}…` : clean;
}

/** What `vedette run` prints: a headline, then what was seen, what the user's code printed, and what was wrong. */
export function describeReport(checkType: string, name: string, report: TryReport): string {
  const { flags, responseTimeMs, errors, phases, statusCode, measured } = report;
  const facts: [string, string][] = [];
  if (measured.resolvedAddress !== null) facts.push(['address', measured.resolvedAddress]);
  if (statusCode !== null) facts.push(['status', String(statusCode)]);
  const phaseText = Object.entries(phases).map(([phase, ms]) => `${phase} ${milliseconds(ms)}`);
  if (phaseText.length > 0) facts.push(['phases', phaseText.join(', ')]);
  return [
    `${verdictOf(flags)}  ${checkType}  ${printable(name)}  ${milliseconds(responseTimeMs)}`,
    ...[...facts, ...printedIn(report)].map(([label, value]) => `  ${label.padEnd(8)} ${value}`),
    ...errors.map(({ code, message }) => `  ${code}: ${printable(message, 500)}`),
  ].join('\n');
}

const Log = z.array(z.object({ level: z.string(), msg: z.string() }));
/** Of API checks the logs of their scripts, and not that of the request between them. */
const JobLog = z.union([
  Log,
  z.object({ setup: Log, teardown: Log }).transform((log) => Object.values(log).flat()),
]);
const WithLog = z.object({ jobLog: JobLog });

/** What the user's code printed, if there is any: each line with its level, which the first of several shows. */
function printedIn({ detail }: TryReport): [label: string, line: string][] {
  const entries = Object.values(detail).flatMap((result) => WithLog.safeParse(result).data?.jobLog ?? []);
  return entries.flatMap(({ level, msg }) =>
    msg.split('\n').map((line, i): [string, string] => [i === 0 ? level : '', printable(line, 1000)]),
  );
}
