import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The files that our own code consists of: this build's folder and the packages it uses, and nothing
 * beside them. The folder around the build may hold the data of `vedette up`, credentials included.
 */
export function installedFiles(): string[] {
  const build = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
  return [build, join(dirname(build), 'package.json'), packagesFolder()];
}

/** The folder with our dependencies; above us when we are installed as a package ourselves. */
function packagesFolder(): string {
  const entry = createRequire(import.meta.url).resolve('zod');
  return entry.slice(0, entry.lastIndexOf('node_modules') + 'node_modules'.length);
}
