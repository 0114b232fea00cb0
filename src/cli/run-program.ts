import { spawn } from 'node:child_process';
import { delimiter, join, resolve as absolute } from 'node:path';
import type { Environment } from '../kit/settings.ts';

export interface Ended {
  /** Null when a signal ended it. */
  code: number | null;
  /** Both streams, as they came. */
  output: string;
  stdout: string;
}

/**
 * Runs a program to its end, with its output kept.
 * @throws Error with `code` ENOENT when there is no such program; AbortError when `signal` ends it
 */
export function runProgram(
  file: string,
  args: readonly string[],
  options: { cwd: string; env: Environment; signal: AbortSignal },
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    const output: string[] = [];
    const out: string[] = [];
    child.stdout.on('data', (text: string) => out.push(text));
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => output.push(text));
    }
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output: output.join(''), stdout: out.join('') }));
  });
}

/**
 * For npm: not our own Node, which may be newer than the npm at hand, but the one that belongs to it; nor
 * the folder that `npm --prefix DIR` names, where npm would look for the machine's settings.
 */
export function npmEnvironment(env: Environment): Environment {
  const own = join('node_modules', '.bin');
  const path = (env['PATH'] ?? '').split(delimiter).filter((folder) => !folder.endsWith(own));
  const { npm_config_prefix: _prefix, npm_config_globalconfig: _config, ...rest } = env;
  return { ...trusting(rest), PATH: path.join(delimiter) };
}

/** What the agent trusts: the machine's authorities and those of the file, which may be named from here. */
function trusting(env: Environment): Environment {
  const file = env['NODE_EXTRA_CA_CERTS'];
  const extra = file === undefined ? {} : { NODE_EXTRA_CA_CERTS: absolute(file) };
  return { NODE_USE_SYSTEM_CA: '1', ...env, ...extra };
}

/** For code of packages: how the network is reached and what a program needs to run at all. */
export function packageEnvironment(env: Environment): Environment {
  const network = /^(https?_proxy|no_proxy|all_proxy|node_extra_ca_certs|node_use_system_ca|ssl_cert_\w+)$/i;
  const basic = /^(PATH|HOME|TMPDIR|LANG|TZ)$/;
  const kept = Object.entries(trusting(env)).filter(
    ([name]) => network.test(name) || basic.test(name) || name.startsWith('PLAYWRIGHT_'),
  );
  return Object.fromEntries(kept);
}
