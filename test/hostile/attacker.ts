import { Socket } from 'node:net';
import { ATTACKS, RIGHTS, type Attack, type Victim } from './attacks.ts';

export interface Row {
  name: string;
  /** `OPEN` with what was reached, or what stopped it. */
  outcome: string;
  open: boolean;
}

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
  if (received.endsWith('\n')) void all(JSON.parse(received) as { victim: Victim; skip: string[] });
});

async function all({ victim, skip }: { victim: Victim; skip: string[] }): Promise<void> {
  const isMeant = ({ scope }: Attack): boolean => scope === undefined || !skip.includes(scope);
  const attacks: Row[] = [];
  for (const attack of ATTACKS.filter(isMeant)) attacks.push(await attempt(attack, victim));
  const rights: Row[] = [];
  for (const right of RIGHTS.filter(isMeant)) rights.push(await attempt(right, victim));
  channel.write(`${JSON.stringify({ attacks, rights })}\n`);
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
