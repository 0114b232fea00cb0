import { readFileSync } from 'node:fs';
import koffi from 'koffi';

/** The few calls of the C library by which the agent asks the kernel and hardens itself. */
const libc = koffi.load(null);
const prctl = libc.func('int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)');
const waitpid = libc.func('int waitpid(int, _Out_ int *, int)');
const socket = libc.func('int socket(int, int, int)');
const close = libc.func('int close(int)');
const syscall = libc.func('long syscall(long, void *, size_t, unsigned int)');

const PR_SET_DUMPABLE = 4;
const PR_SET_CHILD_SUBREAPER = 36;
const WNOHANG = 1;
const LANDLOCK_CREATE = 444;
const LANDLOCK_VERSION = 1;
const CAP_NET_RAW = 13;

/**
 * What the agent does for itself, once at its start. Its memory, environment and open files are closed
 * to programs of the same user. And what a job left without a parent comes to the agent, also where the
 * first process of the machine does not ask about the ended: they would use up the processes allowed.
 */
export function hardenSelf(): void {
  if (process.platform !== 'linux') return;
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/** Asks about an ended process that came to us from a job. Never one that Node itself started. */
export function reap(pid: number): void {
  waitpid(pid, [0], WNOHANG);
}

/** Version of Landlock; 0 where the kernel lacks it or a container's filter refuses it. */
export function landlockVersion(): number {
  return Math.max(0, Number(syscall(LANDLOCK_CREATE, null, 0, LANDLOCK_VERSION)));
}

/** Whether ICMP needs no privilege that a walled process cannot have. */
export function canPingWalled(): boolean {
  const fd = Number(socket(2, 2, 1));
  if (fd >= 0) close(fd);
  return fd >= 0 || hasCapabilities([CAP_NET_RAW]);
}

/** Whether the agent has all of these privileges, by their numbers. */
export function hasCapabilities(numbers: readonly number[]): boolean {
  const effective = BigInt(`0x${ownStatus('CapEff') || '0'}`);
  return numbers.every((number) => (effective & (1n << BigInt(number))) !== 0n);
}

/** Whether programs with a privilege of their own, such as ping, still get it from us. */
export const canGainPrivileges = (): boolean => ownStatus('NoNewPrivs') === '0';

function ownStatus(field: string): string {
  const text = readFileSync('/proc/self/status', 'utf8');
  return new RegExp(`^${field}:\\s+(\\S+)`, 'm').exec(text)?.[1] ?? '';
}
