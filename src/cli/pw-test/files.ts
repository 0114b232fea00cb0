import { globSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { codeOf } from '../../kit/errors.ts';
import type { Environment } from '../../kit/settings.ts';
import { runProgram } from '../run-program.ts';
import type { Project } from './project.ts';

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
 */
export async function findFiles(
  { root }: Project,
  include: readonly string[],
  surroundings: Surroundings,
): Promise<string[]> {
  const known = (await filesOfGit(root, surroundings)) ?? globSync('**/*', { cwd: root, exclude: isLeftOut });
  const wanted = include.flatMap((pattern) => {
    const cwd = process.cwd();
    return globSync(pattern, { cwd }).map((path) => relative(root, join(cwd, path)));
  });
  const paths = [
    ...known.filter((path) => !isLeftOut(path)),
    ...wanted.filter((path) => !path.startsWith('..')),
  ];
  const found: string[] = [];
  for (const path of [...new Set(paths)].toSorted()) {
    if (await isFile(join(root, path))) found.push(path);
  }
  return found;
}

const isLeftOut = (path: string): boolean => path.split(sep).some((part) => LEFT_OUT.has(part));

/** Null where git is not there or does not know the folder. */
async function filesOfGit(root: string, { env, signal }: Surroundings): Promise<string[] | null> {
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  try {
    const { code, stdout } = await runProgram('git', args, { cwd: root, env, signal });
    return code === 0 ? stdout.split('\0').filter((path) => path !== '') : null;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** Links are taken as they are. What git lists may be deleted, or the folder of a submodule. */
async function isFile(path: string): Promise<boolean> {
  try {
    const found = await lstat(path);
    return found.isFile() || found.isSymbolicLink();
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false;
    throw error;
  }
}
