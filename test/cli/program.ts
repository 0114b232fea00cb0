import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

const main = join(import.meta.dirname, '../../src/cli/main.ts');

/** A running `vedette`, with everything that it has printed. */
export interface Program {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
}

export interface Surroundings {
  env?: Record<string, string>;
  cwd?: string;
  /** A command to start it by: `['ip', 'netns', 'exec', …]`. */
  within?: readonly string[];
}

/** Starts `vedette` with nothing of this process's environment but what it needs to run. */
export function vedette(args: readonly string[], options: Surroundings = {}): Program {
  const { PATH = '', HOME = '' } = process.env;
  const [file = '', ...rest] = [...(options.within ?? []), process.execPath, main, ...args];
  const child = spawn(file, rest, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH, HOME, ...options.env },
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  const out: string[] = [];
  const err: string[] = [];
  child.stdout.setEncoding('utf8').on('data', (text: string) => out.push(text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => err.push(text));
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
  return { child, stdout: () => out.join(''), stderr: () => err.join(''), ended };
}

/** Runs `vedette` to its end. */
export async function runVedette(
  args: readonly string[],
  options: Surroundings & { input?: string } = {},
): Promise<{ code: number | string; stdout: string; stderr: string }> {
  const program = vedette(args, options);
  program.child.stdin?.end(options.input ?? '');
  const code = await program.ended;
  return { code, stdout: program.stdout(), stderr: program.stderr() };
}
