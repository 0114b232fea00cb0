import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, test } from 'vitest';

/** Debian's package of each program that real-server tests use, for the advice in a skip. */
const PACKAGES: Readonly<Record<string, string>> = {
  curl: 'curl',
  dig: 'bind9-dnsutils',
  go: 'golang-go',
  dnsmasq: 'dnsmasq-base',
  faketime: 'faketime',
  ip: 'iproute2',
  named: 'bind9',
  nginx: 'nginx-light',
  openssl: 'openssl',
  ping: 'iputils-ping',
  setpriv: 'util-linux',
  promtool: 'prometheus',
  tinyproxy: 'tinyproxy-bin',
  unshare: 'util-linux',
};

/** Servers live in sbin, which is not on the PATH of ordinary users. */
const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/sbin', '/usr/local/sbin'];

/** Full path of a program, which may be one already; or undefined. */
export function findProgram(name: string): string | undefined {
  return folders.map((folder) => resolve(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Full path of a program. @throws Error naming the package to install */
export function programPath(name: string): string {
  const found = findProgram(name);
  if (found === undefined)
    throw new Error(`${name} is not installed; try: apt-get install ${packageOf(name)}`);
  return found;
}

/** Why tests that need these programs cannot run here; undefined when all are there. */
export function lacks(...names: string[]): string | undefined {
  const missing = names.filter((name) => findProgram(name) === undefined);
  if (missing.length === 0) return undefined;
  return `${missing.join(', ')} not installed: apt-get install ${missing.map(packageOf).join(' ')}`;
}

/** A suite that is one skipped test with its reason, printed too, where there is a reason against it. */
export function describeUnless(reason: string | undefined, title: string, body: () => void): void {
  if (reason === undefined) return void describe(title, body);
  console.log(`skipped: ${title} (${reason})`);
  describe(title, () => test('cannot run here', ({ skip }) => skip(reason)));
}

const packageOf = (name: string): string => PACKAGES[name] ?? name;

export interface Finished {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program to its end. A code other than 0 is an answer, not a throw; 124 is our time-out. */
export function runProgram(
  name: string,
  args: readonly string[],
  options: { input?: string; env?: NodeJS.ProcessEnv; cwd?: string; timeoutMs?: number } = {},
): Promise<Finished> {
  return new Promise((resolve) => {
    const child = execFile(
      programPath(name),
      args,
      {
        encoding: 'latin1',
        maxBuffer: 64 * 1024 * 1024,
        timeout: options.timeoutMs ?? 60_000,
        ...(options.env && { env: options.env }),
        ...(options.cwd !== undefined && { cwd: options.cwd }),
      },
      (error, stdout, stderr) => resolve({ code: exitCode(error), stdout, stderr }),
    );
    // A program that never reads its input closes the pipe first; that is its business.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(options.input ?? '');
  });
}

function exitCode(error: { code?: string | number | null; killed?: boolean } | null): number {
  if (error === null) return 0;
  return typeof error.code === 'number' ? error.code : 124;
}

/** Runs a program that must succeed. @throws Error with its standard error */
export async function mustRun(
  name: string,
  args: readonly string[],
  options?: Parameters<typeof runProgram>[2],
): Promise<string> {
  const { code, stdout, stderr } = await runProgram(name, args, options);
  if (code !== 0) throw new Error(`${name} ${args.join(' ')} ended with ${code}: ${stderr}${stdout}`);
  return stdout;
}

/** A server that runs until it is stopped. */
export interface RunningProgram extends AsyncDisposable {
  readonly child: ChildProcess;
  /** SIGTERM, then SIGKILL after 3 s; resolves when it is gone. */
  stop(): Promise<void>;
}

/**
 * Starts a server and waits until `ready` says so.
 * @throws Error with the server's output when it ends first or is not ready within 10 s
 */
export async function startProgram(
  name: string,
  args: readonly string[],
  ready: () => Promise<boolean>,
): Promise<RunningProgram> {
  const child = spawn(programPath(name), args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-4000)));
  }
  const stop = (): Promise<void> => stopChild(child);
  try {
    await waitUntil(async () => {
      if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`);
      return ready();
    });
  } catch (error) {
    await stop();
    throw new Error(`${name} did not start: ${output}`, { cause: error });
  }
  return { child, stop, [Symbol.asyncDispose]: stop };
}

/** Ends a child that we started: SIGTERM, SIGKILL after `graceMs`. */
export async function stopChild(child: ChildProcess, graceMs = 3000): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const kill = setTimeout(() => child.kill('SIGKILL'), graceMs);
  await gone;
  clearTimeout(kill);
}

/** Polls until the condition holds. @throws Error after `withinMs` */
export async function waitUntil(
  condition: () => Promise<boolean> | boolean,
  withinMs = 10_000,
  what = 'the condition',
): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${what} did not hold within ${withinMs} ms`);
    await delay(20);
  }
}
