import type { ChildProcess, StdioOptions } from 'node:child_process';
import { Duplex, type Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { endMarked } from './ending.ts';
import { canGainPrivileges, canPingWalled } from './kernel.ts';
import { giveBack, giveTo, takeUser } from './job-user.ts';
import { launch, launchBare } from './launch.ts';
import { nextMarker } from './marker.ts';
import { nodeArguments } from './node-flags.ts';
import { LEAST, planFor, type Mechanisms, type Start } from './plan.ts';
import { loadOf, schedulingOf, type Load, type Scheduling } from './processes.ts';
import { ROOMS, type Profile } from './profiles.ts';
import { wallsAreRequired } from './report.ts';
import { trial } from './trial.ts';
import { Watch, type Excess, type Usage } from './watchdog.ts';

/** A Node program that the agent runs as a child. */
export interface ChildProgram {
  profile: Profile;
  /** Node binary; the agent's own when absent. */
  node?: string;
  entry: URL;
  /** What the program is told after its entry. */
  arguments?: readonly string[];
  /** Flags of Node before the entry. */
  flags?: readonly string[];
  /** The whole environment of the child but for the folder's. Nothing is inherited. */
  env: Readonly<Record<string, string>>;
  /** Files and folders that it may read. */
  readable: readonly string[];
  /** Programs, and folders of programs, that it may start besides its Node. */
  executable?: readonly string[];
  /** The one folder that it may write: its working folder, HOME and TMPDIR. Without, nothing is writable. */
  folder?: string;
  may: readonly Permission[];
  /** Upper bound of its JavaScript heap, MB. */
  heapMb: number;
  /** The only TCP ports that it may connect to, and no datagrams then; absent: any. */
  tcpPorts?: readonly number[];
  /** Of all its processes together; looked at every 100 to 300 ms. */
  limits?: JobLimits;
  /** Node's permission system on top; the profile decides when absent. */
  permission?: boolean;
}

/**
 * Beyond its profile. `ping`: ICMP, by native code or the ping program. `listen`: TCP ports of its own.
 * `unix-sockets`: full Chromium does not start without, the headless shell does; every socket in the file
 * system is open to it then that is open to everybody, so it is granted only to jobs with a user of their own. `nested-sandbox`: name spaces of
 * its own, for Chromium's own sandbox (see canNestChromiumSandbox).
 */
export type Permission = 'ping' | 'listen' | 'unix-sockets' | 'nested-sandbox';

export interface JobLimits {
  memoryBytes: number;
  processes: number;
  diskBytes: number;
  /** In its folder; 100,000 when absent. */
  files?: number;
}

export interface ChildExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** Why, in a word for logs and metrics. */
  cause: 'exit' | 'killed' | 'out_of_memory' | 'crash' | 'not_started';
}

export interface Child {
  readonly pid: number | undefined;
  /** Both directions of file descriptor 3. Its end tells either side that the other is gone. */
  readonly channel: Duplex;
  /** What user code prints; null for a probe. */
  readonly stdout: Readable | null;
  readonly stderr: Readable;
  /** Resolves when the process is gone; never rejects. */
  readonly exited: Promise<ChildExit>;
  /** The last of what the child printed on stderr. May hold what a target sent: only for a child that never got a job. */
  lastWords(): string;
  /** Resolves with what went over its limit, once; the child is being ended then. */
  readonly exceeded: Promise<Excess>;
  /** Sum over the job's processes. */
  usage(): Usage;
  /** What the processors of this machine gave its first thread until now. */
  scheduling(): Scheduling;
  /** The same of every process of the job that the last look found, by its number. */
  loads(): Map<number, Load>;
  /**
   * Hands over what the agent wrote below the job's folder. Only before user code runs there: it may run as
   * a user of its own, who gets what is in the folder when the child starts.
   */
  give(path: string): void;
  /** Ends the child with everything it started, without waiting. */
  kill(): void;
  /** What was granted of what it asked for. */
  readonly may: readonly Permission[];
  /**
   * Ends everything that carries the job's mark. When it resolves, no process of the job lives and its
   * files are at rest. More calls share one end.
   *
   * @throws Error when a process cannot be killed
   */
  end(): Promise<void>;
}

/** Starts `program` behind the walls. A start that fails is reported by `exited`. */
export function startChild(program: ChildProgram): Child {
  const { node = process.execPath, folder, profile } = program;
  const mechanisms = mechanismsFor(program);
  const env = folder === undefined ? program.env : { ...program.env, HOME: folder, TMPDIR: folder };
  const user = mechanisms?.users && profile !== 'probe' ? takeUser(program, node) : null;
  if (mechanisms?.users && profile !== 'probe' && user === null && wallsAreRequired()) {
    throw new Error(
      'SANDBOX=require: other users than root cannot read what this job needs; move it out of folders that are closed',
    );
  }
  if (user !== null && folder !== undefined) giveTo(user, folder);
  const granted = { ...program, may: program.may.filter((each) => each !== 'unix-sockets' || user !== null) };
  const start = { node, args: nodeArguments(granted), env, marker: nextMarker(), user };
  const options = { cwd: folder ?? '/', stdio: STDIO[ROOMS[profile].prints ? 'prints' : 'silent'] };
  const child =
    mechanisms === null ? launchBare(start, options) : launch(planFor(granted, start, mechanisms), options);
  return handleOf(child, granted, start);
}

const STDIO: Record<'prints' | 'silent', StdioOptions> = {
  prints: ['pipe', 'pipe', 'pipe', 'pipe'],
  silent: ['pipe', 'ignore', 'pipe', 'pipe'],
};

/**
 * Null: without the launcher, where this machine has none. On Linux only our own code may start without
 * it: user code would have no mark there, and whatever it starts could never be ended.
 *
 * Where ICMP needs the privilege of the ping program, a process behind these walls could not ping: no
 * program gets more privileges there. It runs our own code only, and keeps the other walls.
 */
function mechanismsFor({ may, profile }: ChildProgram): Mechanisms | null {
  const { mechanisms } = trial();
  if (mechanisms === null) return process.platform === 'linux' && profile !== 'probe' ? LEAST : null;
  if (!may.includes('ping') || wallsAreRequired() || canPingWalled() || !canGainPrivileges()) {
    return mechanisms;
  }
  return { ...LEAST, noNewPrivileges: false };
}

function handleOf(child: ChildProcess, program: ChildProgram, { marker, user }: Start): Child {
  const words = keepTail(child.stderr!);
  const channel = child.stdio[3];
  if (!(channel instanceof Duplex)) throw new TypeError('file descriptor 3 of the child is not a channel');
  // A write to a child that just died fails here; its exit says the same and more.
  channel.on('error', () => {});
  const exceeded = Promise.withResolvers<Excess>();
  let killed = false;
  let ended: Promise<void> | undefined;
  const watch = new Watch({
    marker,
    pid: child.pid,
    folder: program.folder,
    limits: program.limits,
    nice: ROOMS[program.profile].nice,
    onExcess: (excess) => {
      exceeded.resolve(excess);
      // What cannot be killed is told to whoever ends the job.
      end().catch(() => {});
    },
  });
  const exited = new Promise<ChildExit>((resolve) => {
    child.once('error', () => resolve({ code: null, signal: null, cause: 'not_started' }));
    child.once('exit', (code, signal) => resolve({ code, signal, cause: causeOf(code, killed, words()) }));
  });
  void exited.then(() => (program.limits === undefined ? watch.stop() : undefined));
  const kill = (): void => {
    killed = true;
    killGroup(child);
  };
  const finish = async (): Promise<void> => {
    kill();
    try {
      await endMarked(marker, child.pid);
      await exited;
      if (user !== null) giveBack(user);
    } finally {
      watch.stop();
    }
  };
  const end = (): Promise<void> => (ended ??= finish());
  return {
    may: program.may,
    pid: child.pid,
    channel,
    stdout: child.stdout,
    stderr: child.stderr!,
    exited,
    lastWords: words,
    exceeded: exceeded.promise,
    usage: () => watch.usage(),
    scheduling: () => schedulingOf(child.pid ?? 0),
    loads: () => new Map(watch.pids.map((pid) => [pid, loadOf(pid)])),
    give: (path) => (user === null ? undefined : giveTo(user, path)),
    kill,
    end,
  };
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // Between spawn and setsid the group does not exist yet.
    child.kill('SIGKILL');
  }
}

function causeOf(code: number | null, killed: boolean, words: string): ChildExit['cause'] {
  if (killed) return 'killed';
  if (words.includes('heap out of memory')) return 'out_of_memory';
  return code === 0 ? 'exit' : 'crash';
}

const TAIL_BYTES = 4096;

function keepTail(stream: Readable): () => string {
  const decoder = new StringDecoder();
  let tail = '';
  stream.on('data', (bytes: Buffer) => {
    tail = (tail + decoder.write(bytes)).slice(-TAIL_BYTES);
  });
  return () => tail;
}
