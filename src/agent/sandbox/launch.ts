import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { fileBeside, programText } from '../program-text.ts';
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

const launcherText = (): string => (text ??= programText(fileBeside('launcher', import.meta.url)));
