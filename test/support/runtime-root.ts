import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readRecord, runtimePaths, RUNTIMES_FOLDER } from '../../src/agent/runtimes/index.ts';
import { lacks } from './programs.ts';

/** Why tests that need a runtime cannot run here; undefined when it is there. */
export function lacksRuntime(id: string): string | undefined {
  const record = readRecord(id);
  if (record !== undefined && record.browsers.source !== 'none') return undefined;
  return `runtime ${id} ${record === undefined ? 'is not installed' : 'has no browser'}: vedette runtime install ${id}`;
}

/** Why tests that need Debian's Chromium cannot run here. */
export const lacksChromium = (): string | undefined =>
  existsSync('/usr/lib/chromium/chromium-headless-shell') && lacks('ffmpeg') === undefined
    ? undefined
    : 'no Chromium of the machine: apt-get install chromium chromium-headless-shell ffmpeg';

/**
 * A copy of an installed runtime that can be damaged: its packages are links, the record of its
 * installation is its own.
 */
export function copyRuntime(id: string, root: string): void {
  const [from, to] = [runtimePaths(id), runtimePaths(id, root)];
  mkdirSync(to.modules, { recursive: true });
  cpSync(join(RUNTIMES_FOLDER, 'helpers'), join(root, 'helpers'), { recursive: true });
  cpSync(join(from.folder, 'package-lock.json'), join(to.folder, 'package-lock.json'));
  for (const name of readdirSync(from.modules)) {
    if (!name.startsWith('.')) symlinkSync(join(from.modules, name), join(to.modules, name));
  }
  cpSync(from.record, to.record);
}

const NODE = `node-${process.platform}-${process.arch}`;
/** Prints what the smoke test of a runtime prints when all is well. */
const SMOKE = 'console.log(JSON.stringify({ node: process.version, failed: {} }));';

export interface TinyRuntime {
  /** Packages from a registry, with their versions. */
  fetched?: Record<string, string>;
  smoke?: string;
}

/** A runtime that npm installs from folders: a package that is Node, one that passes for Playwright, helpers. */
export function makeTinyRuntime(
  id: string,
  root: string,
  { fetched = {}, smoke = SMOKE }: TinyRuntime = {},
): void {
  const write = (file: string, content: string | object, mode = 0o644): void => {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    writeFileSync(join(root, file), text, { mode });
  };
  const folders = { [NODE]: 'node', playwright: 'playwright', '@vedette/playwright-helpers': 'helpers' };
  const packages = Object.entries(folders).flatMap(([name, folder]) => {
    write(`${folder}/package.json`, { name, version: '9.9.9' });
    const entry: [string, object][] = [
      [`../${folder}`, { name, version: '9.9.9' }],
      [`node_modules/${name}`, { resolved: `../${folder}`, link: true }],
    ];
    return entry;
  });
  write('node/bin/node', `#!/bin/sh\nexec '${process.execPath}' "$@"\n`, 0o755);
  write(`${id}/smoke.mjs`, smoke);
  const local = Object.entries(folders).map(([name, folder]) => [name, `file:../${folder}`]);
  const manifest = {
    name: 'tiny',
    version: '1.0.0',
    dependencies: { ...Object.fromEntries(local), ...fetched },
  };
  const remote = Object.entries(fetched).map(([name, version]) => [`node_modules/${name}`, { version }]);
  write(`${id}/package.json`, manifest);
  write(`${id}/package-lock.json`, {
    ...manifest,
    lockfileVersion: 3,
    requires: true,
    packages: { '': manifest, ...Object.fromEntries([...packages, ...remote]) },
  });
}
