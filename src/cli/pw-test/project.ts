import { readFile } from 'node:fs/promises';
import { existsSync, globSync } from 'node:fs';
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
    if (lockFile !== undefined) return { root, lockFile, name: await nameOf(folder) };
    if (dirname(root) === root || existsSync(join(root, '.git'))) break;
  }
  throw unusable(
    `neither ${folder} nor a folder above it has a lock file: run the install of your package manager (npm, pnpm, yarn or bun) and commit the lock file`,
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
