import { globSync } from 'node:fs';
import { lstat, readlink } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, sep } from 'node:path';
import { codeOf, ExitCode, FatalError } from '../../kit/errors.ts';
import type { Environment } from '../../kit/settings.ts';
import { runProgram } from '../run-program.ts';
import { isInRepository, type Project } from './project.ts';

/** Never taken along, even where git knows them: what is installed, what runs leave, and keys of services. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  'node_modules',
  '.git',
  '.vedette',
  'test-results',
  'playwright-report',
  'blob-report',
  'vedette-report',
]);

interface Surroundings {
  env: Environment;
  signal: AbortSignal;
}

/**
 * The files of a project, from its root, in an order that never changes: those that git does not ignore,
 * or all where there is no git, and those that are asked for.
 *
 * @param without a folder that is left out, too
 * @throws FatalError with exit code 2 for what no agent would unpack
 */
export async function findFiles(
  { root }: Project,
  { include, without }: { include: readonly string[]; without: string },
  surroundings: Surroundings,
): Promise<string[]> {
  const known = (await filesOfGit(root, surroundings)) ?? globSync('**/*', { cwd: root, exclude: isLeftOut });
  const wanted = include.flatMap((pattern) => {
    const cwd = process.cwd();
    return globSync(pattern, { cwd }).map((path) => relative(root, join(cwd, path)));
  });
  const outside = wanted.find((path) => path.startsWith('..'));
  if (outside !== undefined) throw refused(`--include: ${outside} is not below ${root}, the project's root`);
  const own = relative(root, without) + sep;
  const paths = [...known.filter((path) => !isLeftOut(path) && !path.startsWith(own)), ...wanted];
  const found: string[] = [];
  for (const path of [...new Set(paths)].toSorted()) {
    if (await isFile(root, path)) found.push(path);
  }
  return found;
}

const isLeftOut = (path: string): boolean => path.split(sep).some((part) => LEFT_OUT.has(part));

/**
 * Null where there is no repository.
 *
 * @throws FatalError where there is one that git cannot read: what it ignores, such as keys, would go along
 */
async function filesOfGit(root: string, { env, signal }: Surroundings): Promise<string[] | null> {
  if (!isInRepository(root)) return null;
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  try {
    const { code, stdout, output } = await runProgram('git', args, { cwd: root, env, signal });
    if (code === 0) return stdout.split('\0').filter((path) => path !== '');
    throw refused(`git cannot say which files of ${root} it ignores: ${output.split('\n')[0] ?? ''}`);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    throw refused(`${root} is in a git repository, and git is not installed: install it`);
  }
}

/** What git lists may be deleted, or the folder of a submodule. */
async function isFile(root: string, path: string): Promise<boolean> {
  try {
    const found = await lstat(join(root, path));
    if (found.isSymbolicLink()) await assertInside(root, path);
    return found.isFile() || found.isSymbolicLink();
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** Links are taken as they are, where they lead to what is taken as well. */
async function assertInside(root: string, path: string): Promise<void> {
  const target = await readlink(join(root, path));
  const way = relative(root, join(root, dirname(path), target));
  if (!isAbsolute(target) && way !== '..' && !way.startsWith(`..${sep}`)) return;
  throw refused(
    `${path} is a link to ${target}, outside of the project: put a copy in its place, or let git ignore it`,
  );
}

const refused = (message: string): FatalError => new FatalError(ExitCode.usage, `pw-test: ${message}`);
