import { createWriteStream } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { monoMs, sleep } from '../../kit/clock.ts';
import { codeOf, ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import type { Environment } from '../../kit/settings.ts';
import { npmEnvironment, runProgram } from '../run-program.ts';
import { unzip } from './unzip.ts';
import type { Asset, SessionClient, StartedSession } from './session-client.ts';

/** Files of a result follow it; an agent sends the largest ones within this. */
const PATIENCE_MS = 300_000;
const LOOK_MS = 500;
/** A file that says whose folder it is. */
const MARK = '.vedette-report';
const BLOBS = 'blobs';
const HTML_REPORT = 'html-report.zip';

/** What was brought back. */
export interface Kept {
  files: number;
  /** What to open: one report, or one of each part where the parts could not be merged. */
  reports: string[];
  /** What is missing, a sentence each. */
  missing: string[];
}

interface Surroundings {
  cwd: string;
  /** Of Playwright, from `cwd`. */
  config: string;
  env: Environment;
  signal: AbortSignal;
}

/**
 * What an earlier run brought back makes room for this one; anything else is somebody's.
 *
 * @throws FatalError with exit code 2
 */
export async function assertReplaceable(folder: string): Promise<void> {
  const names = await readdir(folder).catch((error: unknown): string[] => {
    if (codeOf(error) === 'ENOENT') return [];
    throw new FatalError(ExitCode.usage, `pw-test: --report=${folder}: is no folder (${codeOf(error)})`);
  });
  if (names.length === 0 || names.includes(MARK)) return;
  throw new FatalError(
    ExitCode.usage,
    `pw-test: ${folder} has files that are not of an earlier run: name another folder with --report, or delete it`,
  );
}

/** Downloads the files of the result, in place of those of an earlier run. */
export async function bringBack(
  client: SessionClient,
  session: StartedSession,
  folder: string,
  surroundings: Surroundings,
): Promise<Kept> {
  const { signal } = surroundings;
  const assets = await settled(client, session, signal);
  if (assets.length === 0) return { files: 0, reports: [], missing: [] };
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await writeFile(
    join(folder, MARK),
    'Made by vedette pw-test, which replaces this folder at its next run.\n',
  );
  const missing: string[] = [];
  const kept: string[] = [];
  for (const asset of assets) {
    const path = placeIn(asset.name);
    if (asset.state !== 'stored' || path === null) {
      missing.push(`${asset.name}: ${asset.reason ?? 'it did not come'}`);
      continue;
    }
    try {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await pipeline(await client.download(asset, signal), createWriteStream(join(folder, path)), { signal });
      kept.push(path);
    } catch (error) {
      missing.push(`${asset.name}: ${messageOf(error)}`);
    }
  }
  const files = kept.length;
  const blobs = kept.filter((path) => path.startsWith(`${BLOBS}/`));
  const merged = blobs.length > 1 ? await mergeBlobs(folder, surroundings) : null;
  return { files, reports: merged === null ? await unpackReports(folder, kept) : [merged], missing };
}

/** The files, when all have come that will. */
async function settled(
  client: SessionClient,
  session: StartedSession,
  signal: AbortSignal,
): Promise<Asset[]> {
  const since = monoMs();
  for (;;) {
    const assets = await client.assets(session);
    const isWaiting = assets.some(({ state }) => state === 'pending');
    if (!isWaiting || monoMs() - since > PATIENCE_MS) return assets;
    await sleep(LOOK_MS, signal);
  }
}

/** The reports of parts lie together, since Playwright merges what is in one folder. Null for a name that leads out. */
function placeIn(name: string): string | null {
  const isPlain = name.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
  if (!isPlain || /[\\\0]/.test(name)) return null;
  const [, blob] = /^shard-\d+\/(blob-\d+\.zip)$/.exec(name) ?? [];
  return blob === undefined ? name : `${BLOBS}/${blob}`;
}

/** HTML reports, each unpacked beside its archive. @returns their first pages */
async function unpackReports(folder: string, kept: readonly string[]): Promise<string[]> {
  const reports: string[] = [];
  for (const archive of kept.filter((path) => basename(path) === HTML_REPORT)) {
    const html = join(dirname(archive), 'html');
    try {
      await unzip(join(folder, archive), join(folder, html));
      reports.push(join(html, 'index.html'));
    } catch {
      // What cannot be unpacked here may be so elsewhere: the archive is there.
      reports.push(archive);
    }
  }
  return reports;
}

/**
 * One report of all parts, by the project's own Playwright, which unpacks them where they are: so from a copy.
 * The config says where the tests are; without it Playwright does not merge what ran in several folders.
 *
 * @returns where it is, null where Playwright is not installed
 */
async function mergeBlobs(folder: string, surroundings: Surroundings): Promise<string | null> {
  const { cwd, config, env, signal } = surroundings;
  const copy = await mkdtemp(join(tmpdir(), 'vedette-blobs-'));
  const own = { PLAYWRIGHT_HTML_OUTPUT_DIR: join(folder, 'html'), PLAYWRIGHT_HTML_OPEN: 'never' };
  try {
    await cp(join(folder, BLOBS), copy, { recursive: true });
    const args = [
      '--no-install',
      'playwright',
      'merge-reports',
      '--config',
      config,
      '--reporter',
      'html',
      copy,
    ];
    const { code } = await runProgram('npx', args, { cwd, env: { ...npmEnvironment(env), ...own }, signal });
    return code === 0 ? join('html', 'index.html') : null;
  } catch {
    return null;
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}
