import { runProgram } from '../programs.ts';

export interface DigReport {
  /** NOERROR, NXDOMAIN, …; `NO ANSWER` when no server answered. */
  status: string;
  /** `qr aa rd ra`. */
  flags: string;
  /** The answer section: `name ttl class type data`, sorted, as servers rotate. */
  answers: string[];
}

/** Asks with dig, once; a truncated answer is asked for again over TCP, as dig does by default. */
export async function dig(
  server: { host: string; port: number },
  name: string,
  type: string,
  args: readonly string[] = [],
): Promise<DigReport> {
  const where = [`@${server.host}`, '-p', String(server.port), '+tries=1', '+time=2', ...args];
  const { stdout } = await runProgram('dig', [...where, '-q', name, '-t', type]);
  return readDig(stdout);
}

/** Reads text in dig's form, from dig or from a DNS check's answer. */
export function readDig(text: string): DigReport {
  const section = /;; ANSWER SECTION:\n([\s\S]*?)\n(\n|$)/.exec(text)?.[1] ?? '';
  return {
    status: /status: (\w+)/.exec(text)?.[1] ?? 'NO ANSWER',
    flags: /;; flags: ([^;]*)/.exec(text)?.[1] ?? '',
    answers: section
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.replace(/[\t ]+/g, ' '))
      .toSorted(),
  };
}
