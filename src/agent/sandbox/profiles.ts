/**
 * Who is walled in. `probe`: our own code that talks to targets. `script`: code of a user without a
 * browser. `browser`: code of a user and Chromium. `suite`: a project of a user whose native tools must
 * run in its folder.
 */
export type Profile = 'probe' | 'script' | 'browser' | 'suite';

export interface Room {
  /** Prints are the user's and are handed on; otherwise only the last words on stderr are kept. */
  prints: boolean;
  /** Node's permission system on top, unless the program says otherwise. */
  permission: boolean;
  /**
   * Memory that one process may ask for, GB: far above what it should use, since Node and Chromium
   * reserve more than they touch. The sum over the job is watched.
   */
  dataGb: number;
  /** Programs of the system. Without, only Node itself can be started. */
  systemPrograms: boolean;
  /** Programs in its own folder. */
  ownPrograms: boolean;
  /** May bind a TCP socket, to choose the address that it comes from. */
  bindsSockets: boolean;
  /** How far it stands back for others when processors are short: 5 gets a third of what 0 gets. */
  nice: number;
}

/** The agent answers the service and measures light checks in time whatever the code of users computes. */
const USER_CODE_NICE = 5;

export const ROOMS: Readonly<Record<Profile, Room>> = {
  probe: {
    prints: false,
    permission: true,
    dataGb: 4,
    systemPrograms: false,
    ownPrograms: false,
    bindsSockets: true,
    nice: 0,
  },
  script: {
    prints: true,
    permission: true,
    // Room for the second isolate of Playwright's module loader: V8 reserves before it uses.
    dataGb: 4,
    systemPrograms: false,
    ownPrograms: false,
    bindsSockets: false,
    nice: USER_CODE_NICE,
  },
  browser: {
    prints: true,
    permission: false,
    dataGb: 4,
    systemPrograms: true,
    ownPrograms: false,
    bindsSockets: false,
    nice: USER_CODE_NICE,
  },
  suite: {
    prints: true,
    permission: false,
    dataGb: 4,
    systemPrograms: true,
    ownPrograms: true,
    bindsSockets: false,
    nice: USER_CODE_NICE,
  },
};

/** Sockets of 64 runs with both address families and a resolver each stay far below this. */
export const OPEN_FILES = 4096;
/**
 * Where jobs have no users of their own it counts every thread of the agent's on the whole host, other
 * containers included: loose. The watched number of the job's processes is the limit that binds.
 */
export const THREADS_OF_USER = 16_384;
/** Of a job without limits. */
export const PROCESSES = 64;
/**
 * The kernel counts threads. Node has 11, Chromium's processes have 6 to 30: a job comes to its watched
 * number of processes first, and a bomb comes to this before it is looked at.
 */
export const THREADS_EACH = 16;
/** One file. Their sum is watched. */
export const FILE_BYTES = 512 * 1024 * 1024;
/** What the kernel ends first when memory runs out. */
export const OOM_SCORE = 900;
