import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';

/*
 * The program between the agent and every child: it puts the walls around itself and becomes the child's
 * program, in the same process. Landlock and the filter bind the thread that asks for them, and a Node
 * that runs has several; a program that begins has one, with everything that was put around it.
 *
 * It gets its plan on standard input, where no other process can read it, and is one file that imports
 * nothing of ours: Node runs its text (see launch.ts), which takes 3 ms more than an empty program.
 * A step that fails ends it: the plan has only what was tried on this machine (see trial.ts).
 */

export interface Plan {
  /** The library for calls into C. */
  ffi: string;
  /** The agent; it must still live when the signal for its death is set. */
  parent: number;
  /** Soft and hard at once; lowered to what the process may have, but for the mark. */
  limits: { resource: number; value: string; exact?: true }[];
  oomScore: number;
  /** Priority that it has less of, as `nice` counts; 0 leaves it. */
  nice: number;
  /** Who it becomes; null: it stays who the agent is. */
  user: { uid: number; gid: number } | null;
  /** Capabilities that stay, by number; all others are given up. */
  keepCapabilities: number[];
  noNewPrivileges: boolean;
  landlock: LandlockPlan | null;
  /** Machine code of the filter, base64. */
  filter: string | null;
  program: { file: string; args: string[]; env: Readonly<Record<string, string>> };
}

export interface LandlockPlan {
  handled: { files: number; tcp: number; scopes: number };
  /** What is allowed below a path; a path that is not there is left out. */
  paths: { path: string; rights: number }[];
  ports: { port: number; rights: number }[];
}

type Call = (...values: unknown[]) => number;
interface Ffi {
  load(library: null): { func(declaration: string): Call };
  errno(): number;
  /** Where the bytes of a buffer are. */
  address(buffer: Buffer): bigint;
}

const CHANNEL = 3;
const F_SETFD = 2;
const CLOSE_RANGE = 436;
const CLOSE_RANGE_CLOEXEC = 4;
const LANDLOCK_CREATE = 444;
const LANDLOCK_ADD = 445;
const LANDLOCK_RESTRICT = 446;
const LANDLOCK_PATH = 1;
const LANDLOCK_PORT = 2;
/** EXECUTE, WRITE_FILE, READ_FILE, TRUNCATE, IOCTL_DEV: the rights that a rule for a file may have. */
const FILE_RIGHTS = 0b1100000000000111;
const O_PATH = 0o10000000;
const O_CLOEXEC = 0o2000000;
const EINVAL = 22;
const PR_SET_PDEATHSIG = 1;
const PR_SET_SECCOMP = 22;
const PR_CAPBSET_READ = 23;
const PR_CAPBSET_DROP = 24;
const PR_SET_NO_NEW_PRIVS = 38;
const PR_CAP_AMBIENT = 47;
const PR_CAP_AMBIENT_CLEAR_ALL = 4;
const SECCOMP_MODE_FILTER = 2;
const CAPABILITY_VERSION = 0x20080522;
const SIGKILL = 9;

const plan = JSON.parse(readFileSync(0, 'utf8')) as Plan;
const binding = { exports: {} };
process.dlopen(binding, plan.ffi);
const ffi = binding.exports as Ffi;
const libc = ffi.load(null);
const prctl = libc.func('int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)');
const prctlPointer = libc.func('int prctl(int, unsigned long, void *, unsigned long, unsigned long)');
const getrlimit = libc.func('int getrlimit(int, _Out_ void *)');
const setrlimit = libc.func('int setrlimit(int, void *)');
const setgroups = libc.func('int setgroups(size_t, void *)');
const setresgid = libc.func('int setresgid(unsigned int, unsigned int, unsigned int)');
const setresuid = libc.func('int setresuid(unsigned int, unsigned int, unsigned int)');
const capset = libc.func('int capset(void *, void *)');
const fcntl = libc.func('int fcntl(int, int, int)');
const dup2 = libc.func('int dup2(int, int)');
const closeRange = libc.func('long syscall(long, unsigned int, unsigned int, unsigned int)');
const createRuleset = libc.func('long syscall(long, void *, size_t, unsigned int)');
const addRule = libc.func('long syscall(long, int, int, void *, unsigned int)');
const restrictSelf = libc.func('long syscall(long, int, unsigned int)');

function done(result: number, step: string): number {
  if (result < 0) throw new Error(`${step}: error ${ffi.errno()}`);
  return result;
}

/** The channel and the three standard files reach the program, and nothing else that was open. */
function keepFiles(): void {
  const nothing = openSync('/dev/null', 'r');
  done(dup2(nothing, 0), 'standard input');
  // A kernel before 5.11 lacks it. Node itself marked the files that it inherited, up to a gap.
  closeRange(CLOSE_RANGE, CHANNEL + 1, 0xffffffff, CLOSE_RANGE_CLOEXEC);
  for (let fd = 0; fd <= CHANNEL; fd++) done(fcntl(fd, F_SETFD, 0), 'open files');
}

function setLimits(): void {
  const both = Buffer.alloc(16);
  for (const { resource, value, exact } of plan.limits) {
    done(getrlimit(resource, both), 'limits');
    const most = both.readBigUInt64LE(8);
    const wanted = BigInt(value);
    const given = exact || wanted < most ? wanted : most;
    both.writeBigUInt64LE(given, 0);
    both.writeBigUInt64LE(given, 8);
    done(setrlimit(resource, both), `limit ${resource}`);
  }
}

function standBack(): void {
  if (plan.nice === 0) return;
  try {
    setPriority(plan.nice);
    // Where sessions share the processors evenly among them, priorities count within one only.
    writeFileSync('/proc/self/autogroup', String(plan.nice));
  } catch {
    // Already further back, or no such groups: a wish, no wall.
  }
}

function dieWithParent(): void {
  done(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), 'signal for the end of the agent');
  // It may have died before it could be said.
  if (process.ppid !== plan.parent) process.kill(process.pid, 'SIGKILL');
}

function becomeUser({ uid, gid }: NonNullable<Plan['user']>): void {
  done(setgroups(0, null), 'user of the job');
  done(setresgid(gid, gid, gid), 'user of the job');
  done(setresuid(uid, uid, uid), 'user of the job');
}

/** What a program that it starts could gain. */
function dropBounds(): void {
  const kept = new Set(plan.keepCapabilities);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (let capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
    // Without the privilege to give them up there is none to be gained: no new privileges.
    if (!kept.has(capability)) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
}

function dropCapabilities(): void {
  const header = Buffer.alloc(8);
  header.writeUInt32LE(CAPABILITY_VERSION, 0);
  // Twice effective, permitted, inheritable.
  const sets = Buffer.alloc(24);
  const bits = plan.keepCapabilities.reduce((sum, capability) => sum | (1 << capability), 0) >>> 0;
  sets.writeUInt32LE(bits, 0);
  sets.writeUInt32LE(bits, 4);
  done(capset(header, sets), 'capabilities');
}

function applyLandlock({ handled, paths, ports }: LandlockPlan): void {
  const attribute = Buffer.alloc(24);
  attribute.writeBigUInt64LE(BigInt(handled.files), 0);
  attribute.writeBigUInt64LE(BigInt(handled.tcp), 8);
  attribute.writeBigUInt64LE(BigInt(handled.scopes), 16);
  // A kernel that knows less takes the longer form as long as the rest is zero.
  const ruleset = done(createRuleset(LANDLOCK_CREATE, attribute, attribute.length, 0), 'Landlock');
  for (const { path, rights } of paths) allowPath(ruleset, path, rights);
  for (const { port, rights } of ports) {
    const rule = Buffer.alloc(16);
    rule.writeBigUInt64LE(BigInt(rights), 0);
    rule.writeBigUInt64LE(BigInt(port), 8);
    done(addRule(LANDLOCK_ADD, ruleset, LANDLOCK_PORT, rule, 0), `Landlock for port ${port}`);
  }
  done(restrictSelf(LANDLOCK_RESTRICT, ruleset, 0), 'Landlock');
  closeSync(ruleset);
}

function allowPath(ruleset: number, path: string, rights: number): void {
  let fd;
  try {
    fd = openSync(path, O_PATH | O_CLOEXEC);
  } catch {
    return;
  }
  const rule = Buffer.alloc(12);
  rule.writeInt32LE(fd, 8);
  // Of a file it refuses the rights that only a folder can give.
  for (const given of [rights, rights & FILE_RIGHTS]) {
    rule.writeBigUInt64LE(BigInt(given), 0);
    if (addRule(LANDLOCK_ADD, ruleset, LANDLOCK_PATH, rule, 0) === 0) break;
    if (ffi.errno() !== EINVAL || given !== rights) throw new Error(`Landlock for ${path}: ${ffi.errno()}`);
  }
  closeSync(fd);
}

function applyFilter(code: Buffer): void {
  // struct sock_fprog: the number of instructions, and where they are.
  const fprog = Buffer.alloc(16);
  fprog.writeUInt16LE(code.length / 8, 0);
  fprog.writeBigUInt64LE(ffi.address(code), 8);
  done(prctlPointer(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, fprog, 0, 0), 'filter of system calls');
}

function launch(): void {
  keepFiles();
  setLimits();
  // Before anything of the agent when memory runs out.
  writeFileSync('/proc/self/oom_score_adj', String(plan.oomScore));
  standBack();
  dropBounds();
  if (plan.user !== null) becomeUser(plan.user);
  // A change of the user takes the signal off.
  dieWithParent();
  dropCapabilities();
  if (plan.noNewPrivileges) done(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 'no new privileges');
  if (plan.landlock !== null) applyLandlock(plan.landlock);
  if (plan.filter !== null) applyFilter(Buffer.from(plan.filter, 'base64'));
  const { file, args, env } = plan.program;
  process.execve?.(file, [file, ...args], env);
}

launch();
