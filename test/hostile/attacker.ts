import { Socket } from 'node:net';
import { ATTACKS, RIGHTS, type Attack, type Victim } from './attacks.ts';
import { EGRESS, GATE_RIGHTS, TWO_JOBS } from './neighbours.ts';
import { SHARED, SHARED_RIGHTS } from './shared.ts';

export interface Row {
  name: string;
  /** `OPEN` with what was reached, or what stopped it. */
  outcome: string;
  open: boolean;
}

/** By section of the table: what must be stopped, and under `rights` what must not. */
export type Found = Record<'walls' | 'two jobs' | 'egress' | 'shared' | 'rights', Row[]>;

/** What the kernel, Node's permission system or the absence of the thing say when an attack is stopped. */
const STOPPED = new Set(
  'EPERM EACCES ENOSYS EROFS EXDEV ENOENT ESRCH ENXIO EAFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT EADDRNOTAVAIL ECONNREFUSED ERR_ACCESS_DENIED NOTHING'.split(
    ' ',
  ),
);

/** Native code that wants more than it may have: reads the victim from its channel, tries, reports. */
const channel = new Socket({ fd: 3, readable: true, writable: true });
channel.on('end', () => process.exit(0));
let received = '';
channel.setEncoding('utf8').on('data', (text: string) => {
  received += text;
  if (received.endsWith('\n')) void tryAll(JSON.parse(received) as { victim: Victim; skip: string[] });
});

async function tryAll({ victim, skip }: { victim: Victim; skip: string[] }): Promise<void> {
  const isMeant = ({ scope }: Attack): boolean => scope === undefined || !skip.includes(scope);
  const all = async (attacks: readonly Attack[]): Promise<Row[]> => {
    const rows: Row[] = [];
    for (const each of attacks.filter(isMeant)) rows.push(await attempt(each, victim));
    return rows;
  };
  const found: Found = {
    walls: await all(ATTACKS),
    'two jobs': await all(TWO_JOBS),
    egress: await all(EGRESS),
    shared: await all(SHARED),
    rights: await all([...RIGHTS, ...GATE_RIGHTS, ...SHARED_RIGHTS]),
  };
  channel.write(`${JSON.stringify(found)}\n`);
}

async function attempt({ name, run }: Attack, victim: Victim): Promise<Row> {
  try {
    const reached = await run(victim);
    return { name, open: true, outcome: `OPEN ${String(reached).slice(0, 60)}` };
  } catch (error) {
    const code = (error as { code?: string }).code ?? String(error);
    // An unknown code is not a refusal: EINVAL or EFAULT mean that the call was looked at.
    return { name, open: !STOPPED.has(code), outcome: code };
  }
}
