import { spawn } from 'node:child_process';
import type { Ended, Question } from '../protocol.ts';

/**
 * Runs a command line of the project. Its output goes where ours goes; of our open files it gets nothing
 * else.
 */
export function run({ command, cwd, env }: Extract<Question, { do: 'run' }>): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn('/bin/sh', ['-c', command], {
      cwd,
      env,
      // Without the last one it would inherit the line to the agent.
      stdio: ['ignore', 'inherit', 'inherit', 'ignore'],
      detached: true,
    });
    child.on('error', reject);
    child.on('exit', (code, signal) => resolve({ code, signal }));
  });
}

/** As a Ctrl-C would: Playwright ends its tests and writes its reports then. */
export function interrupt(pid: number): Promise<void> {
  try {
    process.kill(pid, 'SIGINT');
  } catch {
    // It has ended.
  }
  return Promise.resolve();
}
