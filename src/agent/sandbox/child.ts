import { spawn, type ChildProcess } from 'node:child_process';
import { Duplex, type Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { underLimits } from './limits.ts';

/** A Node program that the agent runs as a child. */
export interface ChildProgram {
  entry: URL;
  /** The whole environment of the child. Nothing is inherited. */
  env: Readonly<Record<string, string>>;
  /** Files and folders that it may read; it may write nothing. */
  readable: readonly string[];
  /** Beyond network access: `ping` may start a program and call native code, for ICMP. */
  may: readonly 'ping'[];
  /** Upper bound of its JavaScript heap, MB. */
  heapMb: number;
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
  /** Resolves when the process is gone; never rejects. */
  readonly exited: Promise<ChildExit>;
  /** The last of what the child printed. May hold what a target sent: only for a child that never got a job. */
  lastWords(): string;
  /** Ends the child with everything it started. */
  kill(): void;
}

/**
 * A regular expression of a user that back-tracks for ever is finished by a second engine in linear
 * time. Without `__proto__` a parsed answer cannot reach a prototype.
 */
const NODE_FLAGS = [
  '--disable-proto=delete',
  '--enable-experimental-regexp-engine-on-excessive-backtracks',
  '--disable-warning=ExperimentalWarning',
  '--disable-sigusr1',
];

const PING_FLAGS = ['--allow-child-process', '--allow-addons', '--disable-warning=SecurityWarning'];

/** Starts `program` behind the walls. A start that fails is reported by `exited`. */
export function startChild(program: ChildProgram): Child {
  const args = [
    '--permission',
    '--allow-net',
    ...program.readable.map((path) => `--allow-fs-read=${path}`),
    ...(program.may.includes('ping') ? PING_FLAGS : []),
    `--max-old-space-size=${program.heapMb}`,
    ...NODE_FLAGS,
    fileURLToPath(program.entry),
  ];
  const command = underLimits(process.execPath, args);
  const child = spawn(command.file, command.args, {
    cwd: '/',
    env: program.env,
    // Its own session: a Ctrl-C in the terminal reaches the agent only, which then drains.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  });
  return handleOf(child);
}

function handleOf(child: ChildProcess): Child {
  const words = keepTail(child.stderr!);
  const channel = child.stdio[3];
  if (!(channel instanceof Duplex)) throw new TypeError('file descriptor 3 of the child is not a channel');
  // A write to a child that just died fails here; its exit says the same and more.
  channel.on('error', () => {});
  let killed = false;
  const exited = new Promise<ChildExit>((resolve) => {
    child.once('error', () => resolve({ code: null, signal: null, cause: 'not_started' }));
    child.once('exit', (code, signal) => resolve({ code, signal, cause: causeOf(code, killed, words()) }));
  });
  return {
    pid: child.pid,
    channel,
    exited,
    lastWords: words,
    kill: () => {
      killed = true;
      killGroup(child);
    },
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
  let tail = '';
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    tail = (tail + text).slice(-TAIL_BYTES);
  });
  return () => tail;
}
