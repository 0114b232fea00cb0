import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import {
  layoutProgram,
  MACHINE_BROWSERS,
  MACHINE_FOLDERS,
  MACHINE_PROGRAMS,
  missingPrograms,
  nodeOf,
  runtimePaths,
  type MachineBrowser,
  type RuntimeRecord,
} from '../agent/runtimes/index.ts';
import { ExitCode, FatalError, messageOf } from '../kit/errors.ts';
import type { Environment } from '../kit/settings.ts';
import type { Site } from './install-runtime.ts';
import { packageEnvironment, runProgram } from './run-program.ts';

export type Browsers = RuntimeRecord['browsers'];

export const BROWSER_SOURCES = ['playwright', 'debian'] as const;
export type BrowserSource = (typeof BROWSER_SOURCES)[number];

export interface BrowserChoice {
  /** The one source to take them from; without, the first that has them. */
  browserSource?: BrowserSource;
  /** Without the whole Chromium, which only agents start that are root. */
  headlessOnly?: boolean;
}

const namesOf = ({ headlessOnly }: BrowserChoice): readonly MachineBrowser[] =>
  headlessOnly === true ? MACHINE_BROWSERS.filter((name) => name !== 'chromium') : MACHINE_BROWSERS;

/** About 300 MB: enough at 4 Mbit/s. */
const DOWNLOAD_TIMEOUT_MS = 600_000;
/** Playwright tries a silent host five times for this long. */
const CONNECTION_TIMEOUT_MS = 10_000;
const ANSWER_TIMEOUT_MS = 30_000;

/**
 * Chromium, its headless shell and ffmpeg where this Playwright looks for them: its own builds, for which
 * it was made, else those of the machine.
 *
 * @throws FatalError that says how to get them
 */
export async function installBrowsers(site: Site, choice: BrowserChoice = {}): Promise<Browsers> {
  const { id, log } = site;
  const { browserSource: only } = choice;
  rmSync(runtimePaths(id, site.root).browsers, { recursive: true, force: true });
  if (only !== 'debian') {
    log(`runtime ${id}: downloading Chromium`);
    try {
      await download(site, choice);
      return { source: 'download', version: await versionOf(site, choice), folders: [] };
    } catch (error) {
      site.signal.throwIfAborted();
      const problem = `no Chromium by download (${messageOf(error)})`;
      if (only === 'playwright') {
        throw new FatalError(
          ExitCode.internal,
          `runtime ${id} is installed without a browser: ${problem}. Set PLAYWRIGHT_DOWNLOAD_HOST to a mirror, ` +
            'or HTTPS_PROXY, or take the browsers of the machine with --browser-source debian',
        );
      }
      log(`runtime ${id}: ${problem}; looking for one of this machine`);
    }
  }
  await linkMachine(site, choice);
  return { source: 'machine', version: await versionOf(site, choice), folders: [...MACHINE_FOLDERS] };
}

async function download(site: Site, { headlessOnly }: BrowserChoice): Promise<void> {
  const playwright = join(runtimePaths(site.id, site.root).modules, 'playwright-core/cli.js');
  const shell = headlessOnly === true ? ['--only-shell'] : [];
  const args = [playwright, 'install', ...shell, 'chromium'];
  const { code, output } = await runNode(site, args, DOWNLOAD_TIMEOUT_MS);
  if (code !== 0) throw new Error(reasonIn(output));
}

/** The last error it names is an exit code; the first says why. */
function reasonIn(output: string): string {
  const errors = [...output.matchAll(/^(?:\w*Error|Failed[^:\n]*): (.+)$/gm)].map(([, text]) => text!);
  return errors[0] ?? output.trim().split('\n').at(-1) ?? 'no reason given';
}

async function linkMachine(site: Site, choice: BrowserChoice): Promise<void> {
  const { id, root } = site;
  const names = namesOf(choice);
  const missing = missingPrograms(names);
  if (missing.length > 0) {
    throw new FatalError(
      ExitCode.internal,
      `runtime ${id} is installed without a browser: there is none by download, and this machine has no ` +
        `${missing.join(', ')}. Either install Debian's packages (apt-get install ${names.join(' ')}) or ` +
        `set PLAYWRIGHT_DOWNLOAD_HOST or HTTPS_PROXY, then run \`vedette runtime install ${id}\` again`,
    );
  }
  rmSync(runtimePaths(id, root).browsers, { recursive: true, force: true });
  const layout = await layoutOf(site);
  for (const name of names) {
    const { program, folder } = layout[name];
    mkdirSync(dirname(program), { recursive: true });
    symlinkSync(MACHINE_PROGRAMS[name], program);
    // Without it Playwright takes the folder for half a download.
    writeFileSync(join(folder, 'INSTALLATION_COMPLETE'), '');
  }
}

const Place = z.object({ program: z.string(), folder: z.string() });
const Layout = z.object({ chromium: Place, 'chromium-headless-shell': Place, ffmpeg: Place });

/** Where this version of Playwright looks for its programs on this machine. */
async function layoutOf(site: Site): Promise<z.infer<typeof Layout>> {
  const library = join(runtimePaths(site.id, site.root).modules, 'playwright-core');
  const { code, output } = await runNode(site, ['-e', layoutProgram(library)], ANSWER_TIMEOUT_MS);
  if (code !== 0) throw new Error(`Playwright does not say where it looks for its browsers: ${output}`);
  return Layout.parse(JSON.parse(output));
}

/**
 * Starts every program, which shows that the machine has the libraries they need.
 * @returns what Chromium says of itself
 */
async function versionOf(site: Site, choice: BrowserChoice): Promise<string> {
  const layout = await layoutOf(site);
  await answerOf(site, layout.ffmpeg.program, '-version');
  if (choice.headlessOnly !== true) await answerOf(site, layout.chromium.program, '--version');
  return answerOf(site, layout['chromium-headless-shell'].program, '--version');
}

async function answerOf(site: Site, program: string, question: string): Promise<string> {
  const { code, output } = await runProgram(program, [question], options(site, ANSWER_TIMEOUT_MS));
  if (code !== 0) throw new Error(`${program} does not start: ${output.trim().split('\n')[0]}`);
  return output.trim().split('\n')[0]!;
}

const runNode = (site: Site, args: readonly string[], withinMs: number): ReturnType<typeof runProgram> =>
  runProgram(nodeOf(site.id, site.root), args, options(site, withinMs));

function options({ id, root, env, signal }: Site, withinMs: number): Parameters<typeof runProgram>[2] {
  const { folder, browsers } = runtimePaths(id, root);
  const own: Environment = {
    PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT: String(CONNECTION_TIMEOUT_MS),
    ...packageEnvironment(env),
    PLAYWRIGHT_BROWSERS_PATH: browsers,
  };
  return { cwd: folder, env: own, signal: AbortSignal.any([signal, AbortSignal.timeout(withinMs)]) };
}
