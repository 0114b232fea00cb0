import { readFile } from 'node:fs/promises';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { ExitCode, FatalError } from '../../kit/errors.ts';

export const LOCK_FILES = [
  'package-lock.json',
  'npm-shrinkwrap.json',
  'pnpm-lock.yaml',
  'yarn.lock',
  'bun.lock',
  'bun.lockb',
] as const;

export interface Project {
  /** Where the lock file is: of a workspace, its root. */
  root: string;
  lockFile: string;
  /** Of its package.json, else of its folder. */
  name: string;
}

const Manifest = z.object({ name: z.string().min(1).max(255) });

/**
 * The project that a folder belongs to.
 *
 * @throws FatalError with exit code 2 when no agent could run it
 */
export async function findProject(folder: string): Promise<Project> {
  if (
    !existsSync(join(folder, 'package.json')) &&
    globSync('playwright.config.*', { cwd: folder }).length === 0
  ) {
    throw unusable(
      `${folder} has neither a package.json nor a Playwright config: go to the folder of the project`,
    );
  }
  for (let root = folder; ; root = dirname(root)) {
    const lockFile = LOCK_FILES.find((name) => existsSync(join(root, name)));
    const isTop = existsSync(join(root, '.git'));
    if (lockFile !== undefined) {
      if (root !== folder && !isTop && !isWorkspace(root)) break;
      return { root, lockFile, name: await nameOf(folder) };
    }
    if (dirname(root) === root || isTop) break;
  }
  throw unusable(
    `neither ${folder} nor a workspace or repository around it has a lock file: run the install of your package manager (npm, pnpm, yarn or bun) and commit the lock file`,
  );
}

/**
 * A lock file above may be anybody's, that of a home folder too: all below it would be sent away. It counts
 * where a workspace or a repository says that what is below belongs together.
 */
function isWorkspace(root: string): boolean {
  if (existsSync(join(root, 'pnpm-workspace.yaml'))) return true;
  try {
    const manifest: unknown = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    if (z.object({ workspaces: z.unknown() }).parse(manifest).workspaces !== undefined) return true;
  } catch {
    // Then it says nothing about what is below.
  }
  return isInRepository(root);
}

export const isInRepository = (folder: string): boolean =>
  existsSync(join(folder, '.git')) || (dirname(folder) !== folder && isInRepository(dirname(folder)));

const CONFIGS = ['ts', 'js', 'mts', 'mjs', 'cts', 'cjs'].map((ending) => `playwright.config.${ending}`);

/**
 * The Playwright config, from `folder`.
 *
 * @param said by the command line
 * @throws FatalError with exit code 2 when there is none: the agent would find none either
 */
export function findConfig(folder: string, said: string | null): string {
  if (said !== null) {
    if (existsSync(join(folder, said))) return said;
    throw unusable(`--config ${said}: there is no such file in ${folder}`);
  }
  const found = CONFIGS.find((name) => existsSync(join(folder, name)));
  if (found !== undefined) return found;
  throw unusable(
    `${folder} has no playwright.config.ts, .js, .mts, .mjs, .cts or .cjs: go to the folder that has it, or name it: vedette pw-test -- --config FILE`,
  );
}

async function nameOf(folder: string): Promise<string> {
  const text = await readFile(join(folder, 'package.json'), 'utf8').catch(() => '{}');
  try {
    return Manifest.parse(JSON.parse(text)).name;
  } catch {
    return basename(folder) || 'project';
  }
}

const unusable = (message: string): FatalError => new FatalError(ExitCode.usage, `pw-test: ${message}`);
