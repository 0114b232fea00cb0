import { codeOf } from '../kit/errors.ts';
import type { Environment } from '../kit/settings.ts';
import { npmEnvironment, runProgram } from './run-program.ts';

const UNREACHABLE = /E(NOTFOUND|AI_AGAIN|TIMEDOUT|CONNREFUSED|CONNRESET|HOSTUNREACH|NETUNREACH)|TIMEOUT|CERT/;

export const FORBIDDEN = /E(ACCES|PERM|ROFS)/;
export const NOT_WRITABLE = 'its folder cannot be written; install as the user who installed vedette';

/**
 * Runs npm to its end.
 *
 * @throws what `fault` makes of the reason and of what to change
 */
export async function runNpm(
  args: readonly string[],
  {
    cwd,
    env,
    signal,
    fault,
  }: {
    cwd: string;
    env: Environment;
    signal: AbortSignal;
    fault: (problem: string) => Error;
  },
): Promise<void> {
  const options = { cwd, env: npmEnvironment(env), signal };
  const { code, output } = await runProgram('npm', args, options).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error;
    throw fault('npm is not on the PATH, and packages come by it; on Debian: apt-get install npm');
  });
  if (code !== 0) throw fault(explain(args[0]!, output));
}

function explain(command: string, output: string): string {
  const lines = output
    .split('\n')
    .map((line) => line.replace(/^npm (error|ERR!) ?/, '').trim())
    .filter((line) => line !== '' && !line.startsWith('npm warn'));
  const said = lines.slice(0, 3).join('; ');
  if (UNREACHABLE.test(said)) {
    return `npm does not reach its registry (${said}); npm's settings registry, https-proxy and cafile say how`;
  }
  return FORBIDDEN.test(said) ? NOT_WRITABLE : `npm ${command} failed: ${said}`;
}
