import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import type { Plan } from './launcher.ts';

/**
 * Starts the launcher, which becomes the program of its plan. Its text is handed over on the command
 * line, without types: Node needs 35 ms to take them off by itself, each time. The plan is not: other
 * jobs can read command lines.
 */
export function launch(plan: Plan, options: { cwd: string; stdio: StdioOptions }): ChildProcess {
  const { cwd, stdio } = options;
  const child = spawn(process.execPath, launcherArguments(), {
    cwd,

    env: {},
    // Its own session: a Ctrl-C in the terminal reaches the agent only, which then drains.
    detached: true,
    stdio,
  });
  // It may have ended before it read everything; its exit says so.
  child.stdin?.on('error', () => {});
  child.stdin?.end(JSON.stringify(plan));
  return child;
}

/** Starts the program itself, where the launcher cannot run. */
export function launchBare(
  program: { node: string; args: string[]; env: Readonly<Record<string, string>> },
  options: { cwd: string; stdio: StdioOptions },
): ChildProcess {
  const child = spawn(program.node, program.args, { ...options, env: program.env, detached: true });
  child.stdin?.end();
  return child;
}

export const launcherArguments = (): string[] => ['--input-type=module', '--eval', launcherText()];

let text: string | undefined;

function launcherText(): string {
  if (text !== undefined) return text;
  const isSource = import.meta.url.endsWith('.ts');
  const source = readFileSync(new URL(isSource ? './launcher.ts' : './launcher.js', import.meta.url), 'utf8');
  text = isSource ? withoutTypes(source) : source;
  return text;
}

/** What Node does with every file of a checkout; asked for by name, it warns that this is experimental. */
function withoutTypes(source: string): string {
  const own = Object.getOwnPropertyDescriptor(process, 'emitWarning')!;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(source);
  } finally {
    Object.defineProperty(process, 'emitWarning', own);
  }
}
