import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { manifestOf } from './files.ts';

/** Scripts of a project that package managers run when they install it. */
const AT_INSTALLATION = [
  'preinstall',
  'install',
  'postinstall',
  'prepublish',
  'preprepare',
  'prepare',
  'postprepare',
  'dependencies',
];
/** Programs that read nothing of the project: hooks of git, and browsers, which the agent brings. */
const HARMLESS = /^(npx )?(husky( install)?|playwright install( [\w-]+)*)$/;
const DEPENDENCIES = ['dependencies', 'devDependencies', 'optionalDependencies', 'overrides', 'resolutions'];
/** A package that is a folder of the project, of which package managers may make a copy. */
const LOCAL = /^(file|link|portal|exec):|^\.{0,2}\//;
/** A package manager and its flags, and nothing that runs files of the project. */
const PLAIN_COMMAND = /^(npm (ci|i|install)|(pnpm|yarn|bun) (i|install)|yarn)( -{1,2}[\w-]+(=[\w.:/-]+)?)*$/;

/** Settings that name programs or modules of the project. */
const NAMING_FILES: Readonly<Record<string, RegExp>> = {
  '.npmrc': /^\s*(node-options|script-shell|shell|git|node-gyp|pnpmfile)\s*=/m,
  '.yarnrc': /^"?yarn-path\b/m,
  '.yarnrc.yml': /^(yarnPath|plugins)\s*:/m,
  'pnpm-workspace.yaml': /^(pnpmfile|nodeOptions|scriptShell)\s*:/m,
};

/**
 * Whether files of the project decide what its installation makes beyond lock file, manifests and settings.
 * What was installed for one state of them is not for another then: it would be out of date, or somebody
 * else's.
 *
 * @param settings paths of manifests and of settings of package managers
 */
export function installsByOwnCode(
  root: string,
  settings: readonly string[],
  command: string | null,
): boolean {
  if (command !== null && !PLAIN_COMMAND.test(command)) return true;
  return settings.some((path) => {
    const file = join(root, path);
    switch (basename(path)) {
      case 'package.json':
        return isOwnCodeIn(manifestOf(file));
      case '.pnpmfile.cjs':
        return true;
      default: {
        const naming = NAMING_FILES[basename(path)];
        return naming !== undefined && naming.test(readFileSync(file, 'utf8'));
      }
    }
  });
}

function isOwnCodeIn(manifest: Record<string, unknown>): boolean {
  const entries = (name: string): [string, unknown][] => {
    const value = manifest[name];
    return typeof value === 'object' && value !== null ? Object.entries(value) : [];
  };
  const runs = entries('scripts').some(
    ([name, text]) =>
      AT_INSTALLATION.includes(name) && typeof text === 'string' && !HARMLESS.test(text.trim()),
  );
  const isLocal = DEPENDENCIES.flatMap(entries).some(
    ([, range]) => typeof range === 'string' && LOCAL.test(range),
  );
  return runs || isLocal;
}
