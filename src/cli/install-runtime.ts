import { cpSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import {
  findRuntimes,
  nodeOf,
  offeredRuntimes,
  readRecord,
  runtimePaths,
  RUNTIMES_FOLDER,
  writeRecord,
  type Runtime,
  type RuntimeRecord,
} from '../agent/runtimes/index.ts';
import { COMPILE_CACHE_ENTRY, startErrorIn } from '../agent/scripts/index.ts';
import { codeOf, ExitCode, FatalError } from '../kit/errors.ts';
import type { Environment } from '../kit/settings.ts';
import { installBrowsers, type BrowserChoice, type Browsers } from './install-browsers.ts';
import { lockFolder } from './installation-lock.ts';
import { FORBIDDEN, NOT_WRITABLE, runNpm } from './npm.ts';
import { packageEnvironment, runProgram } from './run-program.ts';

export interface InstallOptions extends BrowserChoice {
  log: (line: string) => void;
  /** Chromium and what Playwright needs beside it; without, only scripts that open no page can run. */
  browsers: boolean;
  /** Anew, although it is installed. Runs that use it now fail. */
  force?: boolean;
  env: Environment;
  signal: AbortSignal;
  /** Where the runtimes lie; for tests. */
  root?: string;
}

/** What every step of an installation knows. */
export interface Site {
  id: string;
  root: string;
  log: (line: string) => void;
  env: Environment;
  signal: AbortSignal;
}

/** A registry that answers slowly is waited for, one that never does is not. */
const NPM_TIMEOUT_MS = 900_000;
const SMOKE_TIMEOUT_MS = 120_000;
const NO_BROWSERS: Browsers = { source: 'none', version: '', folders: [] };

/**
 * Installs a runtime, or only what is missing of it.
 *
 * @throws FatalError that says what to change. Without a browser the rest is installed all the same.
 */
export async function installRuntime(id: string, options: InstallOptions): Promise<Runtime> {
  const { root = RUNTIMES_FOLDER, log, env, signal } = options;
  assertOffered(id, root);
  const site: Site = { id, root, log, env, signal };
  await using _lock = await lockFolder(runtimePaths(id, root).folder, signal, () =>
    log(`runtime ${id}: another installation is under way; waiting for its end`),
  );
  try {
    await bringUp(site, options);
  } catch (error) {
    throw explained(error, site);
  }
  const runtime = findRuntimes(root).find((each) => each.id === id)!;
  await fillCompileCache(runtime, site);
  return runtime;
}

/** Every script process starts faster by it; without, they only start slower. */
async function fillCompileCache(
  { node, flags, modules }: Runtime,
  { id, root, env, signal, log }: Site,
): Promise<void> {
  const { code, output } = await runProgram(node, [...flags, fileURLToPath(COMPILE_CACHE_ENTRY), modules], {
    // Not below node_modules: older Nodes take no TypeScript there.
    cwd: runtimePaths(id, root).folder,
    env: packageEnvironment(env),
    signal: AbortSignal.any([signal, AbortSignal.timeout(SMOKE_TIMEOUT_MS)]),
  });
  if (code !== 0) log(`runtime ${id}: its compile cache is not filled: ${startErrorIn(output)}`);
}

/** @throws FatalError that names the runtimes there are */
export function assertOffered(id: string, root = RUNTIMES_FOLDER): void {
  const offered = offeredRuntimes(root);
  if (offered.includes(id)) return;
  const known = offered.length === 0 ? `none in ${root}` : offered.join(', ');
  throw new FatalError(ExitCode.usage, `there is no runtime '${id}'; there are: ${known}`);
}

async function bringUp(site: Site, options: InstallOptions): Promise<void> {
  const { id, root, log } = site;
  const { browsers, force = false } = options;
  const before = force ? undefined : readRecord(id, root);
  if (before !== undefined && (!browsers || hasBrowsers(before))) return log(`runtime ${id} is installed`);
  const versions = before ?? (await installPackages(site));
  if (!browsers) return finish(site, versions, NO_BROWSERS);
  try {
    finish(site, versions, await installBrowsers(site, options));
  } catch (error) {
    finish(site, versions, NO_BROWSERS);
    throw error;
  }
}

/** The machine's may have been removed since. */
const hasBrowsers = ({ browsers }: RuntimeRecord): boolean =>
  browsers.source !== 'none' && browsers.folders.every((path) => existsSync(path));

type Versions = Pick<RuntimeRecord, 'node' | 'playwright'>;

function finish(site: Site, { node, playwright }: Versions, browsers: Browsers): void {
  const { id, root, log } = site;
  writeRecord(id, { node, playwright, browsers }, root);
  const where = { download: ', downloaded', machine: " of this machine, not Playwright's own", none: '' };
  const chromium = browsers.version === '' ? 'no browser' : browsers.version + where[browsers.source];
  log(`runtime ${id} is installed: Node ${node}, Playwright ${playwright}, ${chromium}`);
}

async function installPackages(site: Site): Promise<Versions> {
  const { id, root, log } = site;
  assertHasNode(site);
  log(`runtime ${id}: installing its packages with npm; this takes about a minute`);
  for (const old of [runtimePaths(id, root).record, runtimePaths(id, root).browsers]) {
    rmSync(old, { recursive: true, force: true });
  }
  await installWithNpm(site);
  copyHelpers(site);
  const node = await smoke(site);
  return { node, playwright: versionOf(site, 'playwright') };
}

const Lock = z.object({ packages: z.record(z.string(), z.unknown()) });

/** Said before anything is downloaded. */
function assertHasNode({ id, root }: Site): void {
  const { folder } = runtimePaths(id, root);
  const node = relative(folder, join(nodeOf(id, root), '../..'));
  const { packages } = Lock.parse(JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')));
  if (packages[node] !== undefined) return;
  throw fault(
    id,
    `there is no Node of it for ${process.platform} on ${process.arch}; it needs Linux, x64 or arm64`,
  );
}

async function installWithNpm({ id, root, env, signal }: Site): Promise<void> {
  // Given here because npm does not pack a .npmrc.
  const settings = ['--legacy-peer-deps', '--include=optional', '--no-audit', '--no-fund'];
  await runNpm(['ci', '--ignore-scripts', '--loglevel=error', ...settings], {
    cwd: runtimePaths(id, root).folder,
    env,
    signal: AbortSignal.any([signal, AbortSignal.timeout(NPM_TIMEOUT_MS)]),
    fault: (problem) => fault(id, problem),
  });
}

/** A copy in place of npm's link: user code sees the folder of the packages and nothing beside it. */
function copyHelpers({ id, root }: Site): void {
  const helpers = join(runtimePaths(id, root).modules, '@vedette/playwright-helpers');
  rmSync(helpers, { recursive: true, force: true });
  cpSync(join(root, 'helpers'), helpers, { recursive: true });
}

const Smoke = z.object({ node: z.string(), failed: z.record(z.string(), z.string()) });

/**
 * Loads every package under the runtime's Node.
 * @returns the version of that Node
 */
async function smoke({ id, root, env, signal }: Site): Promise<string> {
  const { folder } = runtimePaths(id, root);
  const { code, output } = await runProgram(nodeOf(id, root), [join(folder, 'smoke.mjs')], {
    cwd: folder,
    env: packageEnvironment(env),
    signal: AbortSignal.any([signal, AbortSignal.timeout(SMOKE_TIMEOUT_MS)]),
  });
  const lines = output.trim().split('\n');
  // Node may warn of what a package uses, before or after.
  const said = lines.find((line) => line.startsWith('{')) ?? lines.at(-1)!;
  if (code !== 0) throw fault(id, `its packages do not load: ${said}`);
  return Smoke.parse(JSON.parse(said)).node.slice(1);
}

function versionOf({ id, root }: Site, name: string): string {
  const manifest = readFileSync(join(runtimePaths(id, root).modules, name, 'package.json'), 'utf8');
  return z.object({ version: z.string() }).parse(JSON.parse(manifest)).version;
}

export const fault = (id: string, problem: string): FatalError =>
  new FatalError(ExitCode.internal, `runtime ${id}: ${problem}`);

function explained(error: unknown, { id, signal }: Site): unknown {
  if (signal.aborted) return fault(id, 'the installation was stopped; the next one starts anew');
  if (FORBIDDEN.test(codeOf(error) ?? '')) return fault(id, NOT_WRITABLE);
  const isTimeout = error instanceof Error && error.name === 'AbortError';
  return isTimeout ? fault(id, 'the installation took too long and was given up') : error;
}
