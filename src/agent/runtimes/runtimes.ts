import { createHash } from 'node:crypto';
import { existsSync, globSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

export interface Runtime {
  id: string;
  /** Its own Node binary. */
  node: string;
  /** Of that: `24.13.1`. */
  nodeVersion: string;
  /** Folder with every package that user code may require. */
  modules: string;
  playwrightVersion: string;
  /** Value of PLAYWRIGHT_BROWSERS_PATH. */
  browsers: string;
  /** What must be readable and executable besides `browsers`: the machine's Chromium where that is used. */
  browserFolders: readonly string[];
  /** Besides the headless shell. */
  hasWholeChromium: boolean;
  /** For Node, so that it runs our own files. */
  flags: readonly string[];
}

/** Beside the package; the sources and the build are equally deep. */
export const RUNTIMES_FOLDER = fileURLToPath(new URL('../../../runtimes', import.meta.url));

/** The build is JavaScript. */
const ARE_SOURCES = import.meta.url.endsWith('.ts');
/** Newer ones strip types without a flag. */
const STRIP_TYPES = ['--experimental-strip-types', '--disable-warning=ExperimentalWarning'];

export interface RuntimePaths {
  folder: string;
  modules: string;
  browsers: string;
  /** Among the packages, so that npm removes it before anything else. */
  record: string;
}

export function runtimePaths(id: string, root = RUNTIMES_FOLDER): RuntimePaths {
  const folder = join(root, id);
  const modules = join(folder, 'node_modules');
  return { folder, modules, browsers: join(folder, 'browsers'), record: join(modules, '.vedette.json') };
}

/** What the installer notes when everything is there. */
const RuntimeRecord = z.object({
  /** Of what was asked for. */
  fingerprint: z.string(),
  node: z.string(),
  playwright: z.string(),
  browsers: z.object({
    source: z.enum(['download', 'machine', 'none']),
    /** Of Chromium; empty without one. */
    version: z.string(),
    folders: z.array(z.string()),
  }),
});
export type RuntimeRecord = z.infer<typeof RuntimeRecord>;

/** Ids of the runtimes that this version of Vedette offers, newest first. */
export function offeredRuntimes(root = RUNTIMES_FOLDER): string[] {
  if (!existsSync(root)) return [];
  return readdirSync(root)
    .filter((id) => existsSync(join(root, id, 'package-lock.json')))
    .sort()
    .reverse();
}

/** What is installed, newest first. Takes about a millisecond, so that it can be asked often. */
export function findRuntimes(root = RUNTIMES_FOLDER): readonly Runtime[] {
  return offeredRuntimes(root).flatMap((id) => {
    const record = readRecord(id, root);
    return record === undefined ? [] : [runtimeOf(id, record, root)];
  });
}

function runtimeOf(id: string, record: RuntimeRecord, root: string): Runtime {
  const { modules, browsers } = runtimePaths(id, root);
  return {
    id,
    node: nodeOf(id, root),
    nodeVersion: record.node.replace(/^v/, ''),
    modules,
    playwrightVersion: record.playwright,
    browsers,
    browserFolders: record.browsers.folders.filter((path) => existsSync(path)),
    hasWholeChromium: globSync('chromium-*', { cwd: browsers }).length > 0,
    flags: ARE_SOURCES && !stripsTypes(record.node) ? STRIP_TYPES : [],
  };
}

/** The Node that came with the packages. */
export const nodeOf = (id: string, root = RUNTIMES_FOLDER): string =>
  join(runtimePaths(id, root).modules, `node-${process.platform}-${process.arch}`, 'bin/node');

function stripsTypes(version: string): boolean {
  const [major = 0, minor = 0] = version.replace('v', '').split('.').map(Number);
  return major > 24 || (major === 24 && minor >= 3) || (major === 22 && minor >= 18);
}

/** @returns undefined unless the runtime is installed completely and as this version wants it */
export function readRecord(id: string, root = RUNTIMES_FOLDER): RuntimeRecord | undefined {
  const { record } = runtimePaths(id, root);
  if (!existsSync(record) || !existsSync(nodeOf(id, root))) return undefined;
  try {
    const { success, data } = RuntimeRecord.safeParse(JSON.parse(readFileSync(record, 'utf8')));
    return success && data.fingerprint === fingerprintOf(id, root) ? data : undefined;
  } catch {
    return undefined;
  }
}

export function writeRecord(
  id: string,
  what: Omit<RuntimeRecord, 'fingerprint'>,
  root = RUNTIMES_FOLDER,
): void {
  const { record } = runtimePaths(id, root);
  const unfinished = `${record}.new`;
  writeFileSync(unfinished, JSON.stringify({ fingerprint: fingerprintOf(id, root), ...what }));
  renameSync(unfinished, record);
}

/** The versions of all packages, and the one package that is ours. */
function fingerprintOf(id: string, root: string): string {
  const hash = createHash('sha256');
  hash.update(readFileSync(join(runtimePaths(id, root).folder, 'package-lock.json')));
  for (const file of globSync('*', { cwd: join(root, 'helpers') }).sort()) {
    hash.update(readFileSync(join(root, 'helpers', file)));
  }
  return hash.digest('hex');
}
