import { existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The files that our own code consists of: this build's folder and the packages it uses, and nothing
 * beside them. The folder around the build may hold the data of `vedette up`, credentials included.
 */
export function installedFiles(): string[] {
  const build = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
  return [build, join(dirname(build), 'package.json'), ...packageFolders()];
}

/**
 * The folder with our dependencies, above us when we are installed as a package ourselves; under both
 * names where it is reached by a link.
 */
function packageFolders(): string[] {
  const require = createRequire(import.meta.url);
  const lookedIn = require.resolve.paths('zod') ?? [];
  const found = lookedIn.find((folder) => existsSync(join(folder, 'zod')));
  const entry = realpathSync(require.resolve('zod'));
  const real = entry.slice(0, entry.lastIndexOf('node_modules') + 'node_modules'.length);
  return [...new Set([found ?? real, real])];
}
