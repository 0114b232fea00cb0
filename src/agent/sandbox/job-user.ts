import { chmodSync, chownSync, lchownSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ChildProgram } from './child.ts';
import { hasCapabilities } from './kernel.ts';
import { allPids } from './processes.ts';

/*
 * An agent that runs as root starts user code as somebody else: a user of its own for every job. Then the
 * kernel keeps it off the agent and off other jobs even where Landlock has no say (the lists of open files
 * in /proc), and RLIMIT_NPROC bounds what it starts: for root that limit does not exist.
 */
export interface JobUser {
  uid: number;
  gid: number;
}

/**
 * Nobody's: between the users of systemd-homed's containers and those of its dynamic services, and below
 * 65,536, which is all that a user name space of a container may have. The first is the group of all jobs.
 */
const FIRST_ID = 60_578;
const LAST_ID = 61_183;
export const JOBS_GROUP = FIRST_ID;

/** CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID: to become them, and to end and tidy up after them. */
const NEEDED = [0, 1, 3, 5, 6, 7];

let able: boolean | undefined;

/** Whether this agent may start processes of other users. */
export function canChangeUsers(): boolean {
  able ??= process.getuid?.() === 0 && hasCapabilities(NEEDED) && areMapped();
  return able;
}

/** Both ends of our range in one line of the map of this user name space. */
function areMapped(): boolean {
  const covers = (line: string): boolean => {
    const [inside = 0, , count = 0] = line.trim().split(/\s+/).map(Number);
    return inside <= FIRST_ID && LAST_ID < inside + count;
  };
  return ['uid_map', 'gid_map'].every((map) =>
    readFileSync(`/proc/self/${map}`, 'latin1').split('\n').some(covers),
  );
}

const taken = new Set<number>();
let last = FIRST_ID + (process.pid % (LAST_ID - FIRST_ID));

/**
 * A user for one job, until `giveBack`. Null where another user could not get to what the job needs, such
 * as a Node below root's home.
 */
export function takeUser(program: ChildProgram, node: string): JobUser | null {
  if (!canReach(program, node)) return null;
  const living = ownersOfProcesses();
  for (let tries = FIRST_ID; tries < LAST_ID; tries++) {
    last = last < LAST_ID ? last + 1 : FIRST_ID + 1;
    if (taken.has(last) || living.has(last)) continue;
    taken.add(last);
    return { uid: last, gid: JOBS_GROUP };
  }
  return null;
}

export function giveBack(user: JobUser): void {
  taken.delete(user.uid);
}

/** Those of other agents on this machine included. */
function ownersOfProcesses(): Set<number | undefined> {
  return new Set(allPids().map((pid) => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid));
}

function canReach({ entry, readable, executable = [], folder }: ChildProgram, node: string): boolean {
  const needed = [node, fileURLToPath(entry), ...readable, ...executable];
  return needed.every(isOpenToAll) && (folder === undefined || isWayOpen(folder));
}

/** A path that is not there is no obstacle; one that only the owner or a group may read is. */
function isOpenToAll(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return true;
  const needed = found.isDirectory() ? 0o005 : 0o004;
  return (found.mode & needed) === needed && isWayOpen(path) && isWayOpen(realpathSync(path));
}

/** Whether jobs may pass through every folder above. */
function isWayOpen(path: string): boolean {
  for (let above = dirname(path); ; above = dirname(above)) {
    const { mode, gid } = statSync(above);
    const isOpen = (mode & 0o001) !== 0 || (gid === JOBS_GROUP && (mode & 0o010) !== 0);
    if (!isOpen) return false;
    if (above === dirname(above)) return true;
  }
}

/**
 * Lets jobs pass through a folder that root keeps for itself, to their own below it. They can neither list
 * it nor open what else it has: Landlock refuses that. Not through root's home, which is not ours.
 *
 * @returns whether jobs get there as users of their own, where they have some
 */
export function letJobsPass(folder: string): boolean {
  if (!canChangeUsers()) return true;
  const { mode, uid } = statSync(folder);
  if (uid === 0 && (mode & 0o077) === 0 && folder !== homedir()) {
    chownSync(folder, 0, JOBS_GROUP);
    chmodSync(folder, 0o710);
  }
  return isWayOpen(join(folder, 'job'));
}

/** Makes `path` and everything below the job's own. Only while none of its code has run. */
export function giveTo(user: JobUser, path: string): void {
  lchownSync(path, user.uid, user.gid);
  if (!statSync(path).isDirectory()) return;
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const below = join(path, entry.name);
    if (entry.isDirectory()) giveTo(user, below);
    else lchownSync(below, user.uid, user.gid);
  }
}
