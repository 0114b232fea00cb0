import { DEFAULT_RUNTIME, findRuntimes } from '../agent/runtimes/index.ts';
import { messageOf } from '../kit/errors.ts';
import type { Environment } from '../kit/settings.ts';
import { installRuntime } from './install-runtime.ts';

/**
 * Installs the default runtime where there is none, while everything else runs already: the agent takes
 * checks with user code as soon as it finds one. Without it those wait, which is worth a warning only.
 *
 * @returns stops the installation
 */
export function installFirstRuntime(env: Environment): () => Promise<void> {
  if (findRuntimes().length > 0) return async () => {};
  console.log(`Installing runtime ${DEFAULT_RUNTIME} in the background; checks with scripts wait for it.`);
  const stop = new AbortController();
  const ended = install(env, stop.signal).then(
    (line) => console.log(line),
    (error: unknown) => {
      if (!stop.signal.aborted) console.error(`vedette: ${messageOf(error)}; checks with scripts wait`);
    },
  );
  return async () => {
    stop.abort();
    await ended;
  };
}

/** @returns its last line, which says what is there now */
async function install(env: Environment, signal: AbortSignal): Promise<string> {
  let last = '';
  const log = (line: string): void => void (last = line);
  await installRuntime(DEFAULT_RUNTIME, { log, browsers: true, env, signal });
  return last;
}
