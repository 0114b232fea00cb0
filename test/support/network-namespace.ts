import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';

/** Empty where this process may make network namespaces, else what it needs for that. */
export const noNamespaces: string =
  spawnSync('unshare', ['-n', 'ip', 'link', 'set', 'lo', 'up']).status === 0 ? '' : 'root and iproute2';

/**
 * Runs a module's text in a process of its own, in a network of its own that has only loopback, after
 * the shell commands in `setup`. What it prints as JSON is the result.
 */
export async function inNamespace(setup: string, module: string): Promise<unknown> {
  const shell = ['ip link set lo up', ...(setup === '' ? [] : [setup]), 'exec "$0" "$@"'].join(' && ');
  const node = [process.execPath, '--input-type=module', '-e', module];
  const ran = promisify(execFile)('unshare', ['-n', 'sh', '-c', shell, ...node], { timeout: 20_000 });
  return JSON.parse((await ran).stdout);
}
