import type { Environment } from '../../kit/settings.ts';
import { runProgram } from '../run-program.ts';

/** Where the tested code comes from. */
export interface Commit {
  repoUrl: string | null;
  commitId: string | null;
  commitOwner: string | null;
  commitMessage: string | null;
  branchName: string | null;
}

const MAX_CHARS = 2000;

/** As the environment says (SERVICE_REPO_…), else as git does; null when neither does. */
export async function commitOf(
  cwd: string,
  { env, signal }: { env: Environment; signal: AbortSignal },
): Promise<Commit | null> {
  const git = async (...args: string[]): Promise<string | null> => {
    try {
      const { code, stdout } = await runProgram('git', args, { cwd, env, signal });
      return code === 0 && stdout.trim() !== '' ? stdout.trim().slice(0, MAX_CHARS) : null;
    } catch {
      return null;
    }
  };
  const url = env['SERVICE_REPO_URL'] ?? (await git('config', '--get', 'remote.origin.url'));
  const commit: Commit = {
    repoUrl: url === null ? null : withoutPassword(url),
    commitId: env['SERVICE_REPO_SHA'] ?? (await git('rev-parse', 'HEAD')),
    commitOwner: env['SERVICE_REPO_COMMIT_OWNER'] ?? (await git('log', '-1', '--format=%an')),
    commitMessage: env['SERVICE_REPO_COMMIT_MESSAGE'] ?? (await git('log', '-1', '--format=%s')),
    branchName: env['SERVICE_REPO_BRANCH'] ?? (await git('symbolic-ref', '--short', 'HEAD')),
  };
  return Object.values(commit).every((value) => value === null) ? null : commit;
}

/** Of `https://user:token@host/…` the address. */
const withoutPassword = (url: string): string => url.replace(/^(\w+:\/\/)[^/@]*@/, '$1').slice(0, MAX_CHARS);
