import { runProgram } from '../programs.ts';

export interface DigReport {
  /** NOERROR, NXDOMAIN, …; `NO ANSWER` when no server answered. */
  status: string;
  /** The answer section: `name type data`, in lower-case names, sorted. */
  answers: string[];
  truncated: boolean;
}

/** Asks with dig, one try of `seconds`; retries truncated answers over TCP as dig does by default. */
export async function dig(
  server: { host: string; port: number },
  name: string,
  type: string,
  args: readonly string[] = [],
  seconds = 2,
): Promise<DigReport> {
  const where = [`@${server.host}`, '-p', String(server.port)];
  const how = ['+tries=1', `+time=${seconds}`, '+nottlid', ...args];
  const { stdout } = await runProgram('dig', [...where, ...how, '-q', name, '-t', type]);
  const section = /;; ANSWER SECTION:\n([\s\S]*?)\n\n/.exec(stdout)?.[1] ?? '';
  return {
    status: /status: (\w+)/.exec(stdout)?.[1] ?? 'NO ANSWER',
    answers: section.split('\n').filter(Boolean).map(normalised).toSorted(),
    truncated: /flags:[^;]* tc[ ;]/.test(stdout),
  };
}

/** `Good.vedette.test.  IN  A  127.0.0.1` → `good.vedette.test A 127.0.0.1`. */
function normalised(line: string): string {
  const [name = '', , type = '', ...data] = line.split(/\s+/);
  return `${name.toLowerCase().replace(/\.$/, '')} ${type} ${data.join(' ')}`;
}
