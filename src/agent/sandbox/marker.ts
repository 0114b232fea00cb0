import { readFileSync, readlinkSync } from 'node:fs';

/*
 * The mark of a job: the hard limit of real-time processor time (RLIMIT_RTTIME) of all its processes. It
 * has no effect on ordinary scheduling, is inherited by every process that one starts whatever it does
 * to leave its group, its session or its environment, is shown to all in /proc/PID/limits, and cannot be
 * raised without a privilege; the system call filter refuses to lower it.
 *
 * The value says who set it, so that what a killed agent left behind is told from the jobs of another
 * agent on the same machine:
 *
 *   6 bits  this program, always 0b010101: some 48,000 years and more, which nobody sets by chance
 *   12 bits of the number of the agent's process-id namespace
 *   12 bits of the moment when the agent's process started
 *   22 bits process id of the agent
 *   11 bits number of the job
 */
const PROGRAM = 0b010101n;
const JOBS = 2048;

export type Marker = bigint;

export interface MarkerOwner {
  namespace: number;
  pid: number;
  startedAt: number;
}

const low12 = (value: number): number => value % 4096;

export function markerOf(owner: MarkerOwner, job: number): Marker {
  let value = (PROGRAM << 12n) | BigInt(low12(owner.namespace));
  value = (value << 12n) | BigInt(low12(owner.startedAt));
  value = (value << 22n) | BigInt(owner.pid);
  return (value << 11n) | BigInt(job % JOBS);
}

/** Who set this value; undefined when it is none of our marks. */
export function ownerOf(marker: Marker): MarkerOwner | undefined {
  if (marker >> 57n !== PROGRAM) return undefined;
  return {
    namespace: Number((marker >> 45n) & 0xfffn),
    startedAt: Number((marker >> 33n) & 0xfffn),
    pid: Number((marker >> 11n) & 0x3fffffn),
  };
}

/** Whether the agent that set this mark still lives. An agent of another namespace cannot be seen: it counts as living. */
export function ownerLives(marker: Marker): boolean {
  const owner = ownerOf(marker);
  if (owner === undefined || owner.namespace !== low12(ownNamespace())) return true;
  return startOf(owner.pid) === owner.startedAt;
}

let self: MarkerOwner | undefined;
let jobs = 0;

export function nextMarker(): Marker {
  self ??= { namespace: ownNamespace(), pid: process.pid, startedAt: startOf(process.pid) ?? 0 };
  return markerOf(self, jobs++);
}

function ownNamespace(): number {
  try {
    return Number(/\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? 0);
  } catch {
    return 0;
  }
}

/** When a process started, in ticks of the kernel's clock; undefined when there is none. */
function startOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name of the program, in parentheses, may hold anything.
    return low12(Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]));
  } catch {
    return undefined;
  }
}
