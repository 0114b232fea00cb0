import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageOf } from '../../kit/errors.ts';
import type { ChildProgram } from './child.ts';
import { canChangeUsers, giveBack, takeUser } from './job-user.ts';
import { landlockVersion } from './kernel.ts';
import { launcherArguments } from './launch.ts';
import type { Plan } from './launcher.ts';
import { nextMarker } from './marker.ts';
import { ffiBinding, planFor, type Mechanisms } from './plan.ts';
import { PROCESSORS } from './syscalls.ts';

/** What the trial found: which mechanisms this machine has, and which of their walls hold. */
export interface Trial {
  /** Null where not even the launcher runs: children then have Node's own permissions only. */
  mechanisms: Mechanisms | null;
  holds: Readonly<Record<Wall, boolean>>;
  /** Why something does not work, in the words of the launcher. */
  complaints: string[];
}

export type Wall = 'limits' | 'privileges' | 'users' | 'files' | 'ports' | 'signals' | 'systemCalls';

type Findings = Record<Exclude<Wall, 'limits'>, boolean> & { limits: string };

const NOTHING = {
  limits: false,
  privileges: false,
  users: false,
  files: false,
  ports: false,
  signals: false,
  systemCalls: false,
};
const HERE = import.meta.url;
const CHILD = new URL(HERE.endsWith('.ts') ? './trial-child.ts' : './trial-child.js', HERE);
/** On a machine that is busy with something else. */
const TRIAL_MS = 30_000;

let made: Trial | undefined;

/** Tries every mechanism in a child, once: a kernel may know one that a container's rules refuse. */
export const trial = (): Trial => (made ??= makeTrial());

function makeTrial(): Trial {
  const complaints: string[] = [];
  if (process.platform !== 'linux') {
    return { mechanisms: null, holds: NOTHING, complaints: [`${process.platform} has no such walls`] };
  }
  try {
    let mechanisms: Mechanisms = {
      landlock: landlockVersion(),
      filter: PROCESSORS[process.arch] !== undefined,
      noNewPrivileges: true,
      users: canChangeUsers(),
    };
    for (;;) {
      const { holds, complaint, isUndecided } = attempt(mechanisms);
      if (complaint === undefined) return { mechanisms, holds, complaints };
      complaints.push(complaint);
      // A machine without time or processes says nothing about its kernel: a child whose wall cannot be
      // built ends, and none runs without.
      if (isUndecided) return { mechanisms, holds, complaints };
      const less = without(mechanisms, complaint);
      if (less === undefined) return { mechanisms: null, holds, complaints };
      mechanisms = less;
    }
  } catch (error) {
    return { mechanisms: null, holds: NOTHING, complaints: [...complaints, messageOf(error)] };
  }
}

/** What is left when the launcher could not do one step. */
function without(mechanisms: Mechanisms, complaint: string): Mechanisms | undefined {
  if (mechanisms.landlock > 0 && /Landlock/.test(complaint)) return { ...mechanisms, landlock: 0 };
  if (mechanisms.users && /user of the job/.test(complaint)) return { ...mechanisms, users: false };
  if (mechanisms.filter && /filter of system calls/.test(complaint)) return { ...mechanisms, filter: false };
  return undefined;
}

interface Attempt {
  holds: Trial['holds'];
  complaint?: string;
  /** The machine was not able to try. */
  isUndecided?: boolean;
}

function attempt(mechanisms: Mechanisms): Attempt {
  const marker = nextMarker();
  const program: ChildProgram = {
    ...TRIED,
    profile: 'script',
    may: [],
    readable: [dirname(fileURLToPath(CHILD)), ffiBinding()],
    tcpPorts: [],
  };
  const args = [fileURLToPath(CHILD), ffiBinding()];
  const user = mechanisms.users ? takeUser(program, process.execPath) : null;
  const ran = runPlan(planFor(program, { node: process.execPath, args, env: {}, marker, user }, mechanisms));
  if (user !== null) giveBack(user);
  if (ran.status !== 0) {
    const words = /Error: (.*)/.exec(ran.stderr)?.[1] ?? ran.error?.message ?? `it ended with ${ran.signal}`;
    return { holds: NOTHING, complaint: words, isUndecided: ran.error !== undefined };
  }
  const { limits, ...holds } = JSON.parse(ran.stdout) as Findings;
  return { holds: { ...holds, limits: limits.includes(String(marker)) } };
}

const TRIED = { entry: CHILD, env: {}, readable: [], heapMb: 64 } as const;

/** Runs a program of the system behind walls and waits for it. Undefined where there are none. */
export function runWalled(
  walls: Pick<ChildProgram, 'profile' | 'may'>,
  file: string,
  args: string[],
): SpawnSyncReturns<string> | undefined {
  const { mechanisms } = trial();
  if (mechanisms === null) return undefined;
  const start = { node: file, args, env: {}, marker: nextMarker(), user: null };
  return runPlan(planFor({ ...TRIED, ...walls }, start, mechanisms));
}

function runPlan(plan: Plan): SpawnSyncReturns<string> {
  return spawnSync(process.execPath, launcherArguments(), {
    input: JSON.stringify(plan),
    cwd: '/',
    env: {},
    // The fourth stands for the channel.
    stdio: ['pipe', 'pipe', 'pipe', 'ignore'],
    encoding: 'utf8',
    timeout: TRIAL_MS,
  });
}
