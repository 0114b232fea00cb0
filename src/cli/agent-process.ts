import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { agentSettings } from '../agent/settings.ts';
import { sleep } from '../kit/clock.ts';
import type { Environment } from '../kit/settings.ts';

/** After a second stop signal the agent has this long to give its runs back, ms. */
const KILL_AFTER_MS = 5000;

/** `vedette agent` as a child of `vedette up`. */
export interface AgentProcess {
  /** Settles when the agent has ended: its exit code, or 3 when a signal ended it. */
  readonly ended: Promise<number>;
  /** Drains and waits for the end; `hurry` gives running checks back instead. */
  stop(hurry: AbortSignal): Promise<void>;
}

/**
 * Starts the agent in a session of its own, so that a Ctrl-C in the terminal reaches only its parent,
 * which stops the two in order. The channel tells the agent when the parent is gone.
 *
 * @param env the settings; nothing else of this process's environment gets in
 */
export function startAgentProcess(env: Environment): AgentProcess {
  const main = fileURLToPath(new URL(`./main${extname(import.meta.filename)}`, import.meta.url));
  const child = spawn(process.execPath, [main, 'agent'], {
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env,
  });
  const ended = endOf(child);
  return {
    ended,
    stop: async (hurry) => {
      child.kill('SIGTERM');
      const insist = (): void => void killSoon(child, ended);
      if (hurry.aborted) insist();
      else hurry.addEventListener('abort', insist, { once: true });
      await ended;
    },
  };
}

async function endOf(child: ChildProcess): Promise<number> {
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 3;
}

async function killSoon(child: ChildProcess, ended: Promise<number>): Promise<void> {
  child.kill('SIGTERM');
  await Promise.race([ended, sleep(KILL_AFTER_MS)]);
  child.kill('SIGKILL');
}

/** What an agent may see of the environment: its settings and what a program needs to run at all. */
export function agentEnvironment(env: Environment, own: Environment): Environment {
  const settings = Object.values(agentSettings).flatMap(({ name }) => [name, `${name}_FILE`]);
  const proxies = ['https_proxy', 'http_proxy', 'no_proxy'];
  const allowed = [...settings, ...proxies, 'NODE_USE_SYSTEM_CA', 'PATH', 'HOME', 'TZ', 'LANG', 'TMPDIR'];
  const passed = allowed.filter((name) => env[name] !== undefined).map((name) => [name, env[name]]);
  return { ...Object.fromEntries(passed), ...own };
}
