import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join, posix, relative, resolve, sep } from 'node:path';
import type { Project, Question } from '../protocol.ts';
import { Problem } from './channel.ts';
import { engineOf } from './engine.ts';
import { manifestOf, upwards } from './files.ts';
import { playwrightIn } from './lock-files.ts';
import { installsByOwnCode } from './own-code.ts';

type PackageManager = Project['packageManager'];

/** The first of them in a folder decides, unless package.json names another manager. */
const LOCK_FILES: readonly (readonly [file: string, name: PackageManager['name']])[] = [
  ['pnpm-lock.yaml', 'pnpm'],
  ['yarn.lock', 'yarn'],
  ['bun.lock', 'bun'],
  ['bun.lockb', 'bun'],
  ['npm-shrinkwrap.json', 'npm'],
  ['package-lock.json', 'npm'],
];
const CONFIGS = ['ts', 'js', 'mts', 'mjs', 'cts', 'cjs'].map((ending) => `playwright.config.${ending}`);
const MAX_MANIFESTS = 2_000;

/** What project this is, by its own files. */
export async function look(question: Extract<Question, { do: 'look' }>): Promise<Project> {
  const { root, workingDir } = question;
  if (!existsSync(workingDir)) {
    const shown = relative(root, workingDir);
    throw new Problem('NO_WORKING_DIR', `there is no folder ${shown} in the project: change workingDir`);
  }
  const lock = lockOf(root, workingDir);
  const text = readFileSync(join(lock.folder, lock.file), lock.file === 'bun.lockb' ? 'latin1' : 'utf8');
  const settings = settingsBelow(root);
  const isBerry = lock.name === 'yarn' && text.includes('__metadata:');
  return {
    packageManager: {
      name: lock.name,
      version: lock.version,
      isBerry,
      pnp: isBerry && !/^nodeLinker:\s*["']?(node-modules|pnpm)/m.test(yarnSettings(lock.folder)),
    },
    lockFolder: posixOf(root, lock.folder),
    engine: engineOf(root, workingDir),
    playwrightVersion: playwrightIn(lock.file, text),
    config: posixOf(root, configOf(question)),
    dependenciesHash: hashOf(root, join(lock.folder, lock.file), settings),
    installsByOwnCode: installsByOwnCode(root, settings, question.installCommand),
  };
}

const posixOf = (root: string, path: string): string => relative(root, path).split(sep).join('/');

interface Lock {
  folder: string;
  file: string;
  name: PackageManager['name'];
  version: string | null;
}

function lockOf(root: string, workingDir: string): Lock {
  for (const folder of upwards(root, workingDir)) {
    const present = LOCK_FILES.filter(([file]) => existsSync(join(folder, file)));
    if (present.length === 0) continue;
    const declared = declaredIn(folder);
    const [file, name] = present.find(([, each]) => each === declared?.name) ?? present[0]!;
    return { folder, file, name, version: declared?.name === name ? declared.version : null };
  }
  throw new Problem(
    'NO_LOCK_FILE',
    'the project has no lock file: add package-lock.json, pnpm-lock.yaml, yarn.lock or bun.lock to it',
  );
}

/** The package manager that package.json asks for: `pnpm@9.15.9+sha512.…`. */
function declaredIn(folder: string): { name: string; version: string } | undefined {
  const { packageManager } = manifestOf(join(folder, 'package.json'));
  const found = /^(npm|pnpm|yarn|bun)@(\d+\.\d+\.\d+(?:-[\w.]+)?)(\+|$)/.exec(
    typeof packageManager === 'string' ? packageManager : '',
  );
  return found === null ? undefined : { name: found[1]!, version: found[2]! };
}

function yarnSettings(folder: string): string {
  const file = join(folder, '.yarnrc.yml');
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

/** The config that the command would use by itself. */
function configOf({ workingDir, configPath, testCommand }: Extract<Question, { do: 'look' }>): string {
  const said = configPath ?? /\s(?:-c|--config)[ =]["']?([^\s"']+)/.exec(testCommand)?.[1];
  if (said === undefined) {
    const found = CONFIGS.find((file) => existsSync(join(workingDir, file)));
    if (found !== undefined) return join(workingDir, found);
    throw new Problem(
      'NO_CONFIG',
      'there is no Playwright config in the project: add playwright.config.ts, or say in configPath or ' +
        'workingDir where it is',
    );
  }
  const file = resolve(workingDir, said);
  if (!existsSync(file)) {
    throw new Problem('NO_CONFIG', `there is no file ${said} in the project: change configPath`);
  }
  if (!lstatSync(file).isDirectory()) return file;
  const inside = CONFIGS.find((each) => existsSync(join(file, each)));
  if (inside !== undefined) return join(file, inside);
  throw new Problem('NO_CONFIG', `there is no Playwright config in ${said}: change configPath`);
}

/**
 * Over everything that decides what an installation makes: the lock file, every package.json without its
 * version, the settings of the package managers, and the patches that they apply.
 */
function hashOf(root: string, lockFile: string, settings: readonly string[]): string {
  const hash = createHash('sha256');
  const add = (label: string, content: Buffer | string): void => {
    for (const part of [Buffer.from(label), Buffer.from(content)]) {
      const length = Buffer.alloc(8);
      length.writeBigUInt64BE(BigInt(part.length));
      hash.update(length).update(part);
    }
  };
  add('lock', readFileSync(lockFile));
  for (const path of settings) {
    const file = join(root, path);
    if (basename(path) !== 'package.json') add(path, readFileSync(file));
    else {
      const { version: _version, ...rest } = manifestOf(file);
      add(path, JSON.stringify(rest));
    }
  }
  return hash.digest('hex');
}

const SETTINGS = new Set([
  'package.json',
  '.npmrc',
  '.yarnrc',
  '.yarnrc.yml',
  'pnpm-workspace.yaml',
  'bunfig.toml',
  '.pnpmfile.cjs',
]);

function settingsBelow(root: string): string[] {
  const found: string[] = [];
  for (const folders = ['']; folders.length > 0;) {
    const folder = folders.pop()!;
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = posix.join(folder, entry.name);
      if (entry.isDirectory()) {
        if (entry.name !== 'node_modules' && entry.name !== '.git') folders.push(path);
      } else if (entry.isFile() && (SETTINGS.has(entry.name) || entry.name.endsWith('.patch')))
        found.push(path);
    }
  }
  if (found.length > MAX_MANIFESTS) {
    throw new Problem(
      'BUNDLE_TOO_LARGE',
      `the project has more than ${MAX_MANIFESTS} package.json files: leave out those that the tests do not need`,
    );
  }
  return found.sort();
}
