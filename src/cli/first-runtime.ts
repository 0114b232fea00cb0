import { DEFAULT_RUNTIME, findRuntimes } from '../agent/runtimes/index.ts';
import { messageOf } from '../kit/errors.ts';
import type { Environment } from '../kit/settings.ts';
import { installRuntime } from './install-runtime.ts';
import { installTools } from './install-tools.ts';

/**
 * Installs the default runtime where there is none, while everything else runs already: the agent takes
 * checks with user code as soon as it finds one. Without it those wait, which is worth a warning only. The
 * tools of suites come last: an agent without them fetches those that a suite needs.
 *
 * @returns stops the installation
 */
export function installFirstRuntime(env: Environment): () => Promise<void> {
  if (findRuntimes().length > 0) return async () => {};
  console.log(`Installing runtime ${DEFAULT_RUNTIME} in the background; checks with scripts wait for it.`);
  const stop = new AbortController();
  const ended = install(env, stop.signal).catch((error: unknown) => {
    if (!stop.signal.aborted) console.error(`vedette: ${messageOf(error)}`);
  });
  return async () => {
    stop.abort();
    await ended;
  };
}

async function install(env: Environment, signal: AbortSignal): Promise<void> {
  let last = '';
  const log = (line: string): void => void (last = line);
  try {
    await installRuntime(DEFAULT_RUNTIME, { log, browsers: true, env, signal });
  } catch (error) {
    throw new Error(`${messageOf(error)}; checks with scripts wait`);
  }
  // It says what is there now.
  console.log(last);
  await installTools({ log, env, signal });
}
