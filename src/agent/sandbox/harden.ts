import koffi from 'koffi';

const PR_SET_DUMPABLE = 4;
const PR_SET_CHILD_SUBREAPER = 36;

const libc = koffi.load(null);
const prctl = libc.func('int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)');
const waitpid = libc.func('int waitpid(int, _Out_ int *, int)');
const WNOHANG = 1;

/**
 * What the agent does for itself, once at its start. Its memory, environment and open files are closed
 * to programs of the same user. And what a job left without a parent comes to the agent, also where the
 * first process of the machine does not ask about the ended: they would use up the processes allowed.
 */
export function hardenSelf(): void {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/** Asks about an ended process that came to us from a job. Never one that Node itself started. */
export function reap(pid: number): void {
  waitpid(pid, [0], WNOHANG);
}
