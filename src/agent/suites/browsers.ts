import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { z } from 'zod';
import type { Log } from '../../kit/log.ts';
import { messageOf } from '../../kit/errors.ts';
import { ExecutorFault } from '../ports.ts';
import {
  layoutProgram,
  MACHINE_PACKAGES,
  MACHINE_PROGRAMS,
  missingPrograms,
  type MachineBrowser,
  type Runtime,
} from '../runtimes/index.ts';
import { removeFolder } from '../sandbox/index.ts';
import { SuiteProblem } from './problem.ts';
import * as answers from './answers.ts';
import { throughGate } from './environment.ts';
import type { InstalledPlaywright } from './protocol.ts';
import { makeReadable } from './shelf.ts';
import { SingleFlight } from './single-flight.ts';
import type { Toolbox } from './toolbox.ts';
import { makeOwn } from './tools.ts';
import type { Workshop } from './workshop.ts';
import { lastLines } from './words.ts';

/** What a project gets when the check does not say. */
const USUAL = ['chromium'];
/** Besides a browser of that name. */
const WITH: Readonly<Record<string, readonly string[]>> = {
  chromium: ['chromium-headless-shell', 'ffmpeg'],
  firefox: ['ffmpeg'],
  webkit: ['ffmpeg'],
};
/** Debian's programs that tests without windows need; images leave the whole Chromium out. */
const WITHOUT_WINDOWS = ['chromium-headless-shell', 'ffmpeg'] as const;
const COMPLETE = 'INSTALLATION_COMPLETE';
/** The oldest whose reporters, traces and configs are as this agent knows them. */
const OLDEST = [1, 40] as const;
/** After a download that failed the machine's own browser serves for so long before the next try. */
const RETRY_MS = 600_000;
/** Playwright tries a silent host five times for this long. */
const CONNECTION_TIMEOUT_MS = '10000';

export interface BrowsersOptions {
  folder: string;
  workshop: Workshop;
  toolbox: Toolbox;
  runtimes: () => readonly Runtime[];
  /** For the download: mirrors, proxies, authorities. */
  env: Readonly<Record<string, string>>;
  log: Log;
}

const Layout = z.partialRecord(
  z.enum(['chromium', 'chromium-headless-shell', 'ffmpeg']),
  z.object({ program: z.string(), folder: z.string() }),
);

/** Browsers by Playwright's version: those of a runtime, those fetched once, else Chromium of the machine. */
export class Browsers {
  readonly folder: string;
  readonly #options: BrowsersOptions;
  readonly #flights = new SingleFlight();
  readonly #failedAtMs = new Map<string, number>();

  constructor(options: BrowsersOptions) {
    this.folder = options.folder;
    this.#options = options;
  }

  async prepare(): Promise<void> {
    await makeReadable(this.folder);
  }

  /** Folders with browsers, which jobs may read and start. */
  get readable(): string[] {
    const { runtimes } = this.#options;
    return [
      this.folder,
      ...runtimes().flatMap(({ browsers, browserFolders }) => [browsers, ...browserFolders]),
    ];
  }

  /**
   * Value of PLAYWRIGHT_BROWSERS_PATH for this Playwright.
   *
   * @throws SuiteProblem for a version that is too old or a browser that there is not; ExecutorFault when
   * browsers cannot be had
   */
  async get(playwright: InstalledPlaywright, asked: readonly string[] | null): Promise<string> {
    const names = asked ?? USUAL;
    assertKnown(playwright, names);
    const { version } = playwright;
    const wanted = foldersOf(playwright, names);
    const own = [join(this.folder, version), join(this.folder, `${version}-machine`)];
    const places = [...this.#options.runtimes().map(({ browsers }) => browsers), ...own];
    const found = places.find((place) => hasAll(place, wanted, playwright));
    if (found !== undefined) return found;
    return this.#flights.once(`${version} ${names.join()}`, () => this.#make(playwright, names));
  }

  /** What a version wants that is not installed as a folder (Plug'n'Play). */
  async ofVersion(version: string): Promise<InstalledPlaywright['browsers']> {
    const library = await this.#options.toolbox.get('playwright-core', version);
    const text = await readFile(join(library, 'browsers.json'), 'utf8');
    return answers.InstalledPlaywright.shape.browsers.parse(
      (JSON.parse(text) as { browsers: unknown }).browsers,
    );
  }

  async #make(playwright: InstalledPlaywright, names: readonly string[]): Promise<string> {
    const { version } = playwright;
    const library = await this.#options.toolbox.get('playwright-core', version);
    const why = await this.#download(version, names, library);
    if (why === undefined) return join(this.folder, version);
    const isChromiumOnly = names.every((name) => name === 'chromium' || name.startsWith('chromium-headless'));
    if (isChromiumOnly && missingPrograms(WITHOUT_WINDOWS).length === 0) {
      this.#options.log.warn(
        { version, detail: why },
        "Playwright's browsers cannot be downloaded; Chromium of this machine serves",
      );
      return this.#linkMachine(version, library);
    }
    const debian = isChromiumOnly ? `, or install Debian's packages ${MACHINE_PACKAGES}` : '';
    throw new ExecutorFault(
      'BROWSERS_UNAVAILABLE',
      `Playwright ${version} needs ${names.join(', ')}, and this agent could not download it (${why}): let the agent ` +
        `reach Playwright's download hosts (HTTPS_PROXY) or set PLAYWRIGHT_DOWNLOAD_HOST to a mirror${debian}`,
    );
  }

  /** @returns why it failed */
  async #download(version: string, names: readonly string[], library: string): Promise<string | undefined> {
    const key = `${version} ${names.join()}`;
    const failedAtMs = this.#failedAtMs.get(key);
    if (failedAtMs !== undefined && performance.now() - failedAtMs < RETRY_MS) return 'as a few minutes ago';
    try {
      await this.#fetch(version, names, library);
      this.#failedAtMs.delete(key);
      return undefined;
    } catch (error) {
      this.#failedAtMs.set(key, performance.now());
      return messageOf(error);
    }
  }

  async #fetch(version: string, names: readonly string[], library: string): Promise<void> {
    const { workshop, env, log } = this.#options;
    log.info({ version, browsers: names }, 'downloading browsers');
    await workshop.use(async ({ process: worker, folder, gate }) => {
      const into = join(folder, 'browsers');
      let printed = '';
      worker.onPrint = (_level, chunk) => (printed = (printed + String(chunk)).slice(-20_000));
      const ended = await worker.ask(
        {
          do: 'run',
          command: `exec ${quoted(process.execPath)} ${quoted(join(library, 'cli.js'))} install ${names.join(' ')}`,
          cwd: folder,
          env: {
            PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT: CONNECTION_TIMEOUT_MS,
            ...env,
            ...(gate === null ? {} : { NODE_OPTIONS: throughGate(gate) }),
            HOME: folder,
            TMPDIR: folder,
            PLAYWRIGHT_BROWSERS_PATH: into,
          },
        },
        answers.Ended,
      );
      await worker.end();
      if (ended.code !== 0) throw new Error(reasonIn(printed));
      await this.#keep(into, join(this.folder, version));
    });
  }

  /** Each browser is moved as a whole; those that are there stay. */
  async #keep(from: string, to: string): Promise<void> {
    await makeOwn(from);
    await mkdir(to, { recursive: true, mode: 0o755 });
    await chmod(to, 0o755);
    for (const name of await readdir(from)) {
      const place = join(to, name);
      if (existsSync(join(place, COMPLETE)) || name.startsWith('.')) continue;
      await removeFolder(place);
      await rename(join(from, name), place);
    }
  }

  /** Debian's programs where this Playwright looks for its own. */
  async #linkMachine(version: string, library: string): Promise<string> {
    const into = join(this.folder, `${version}-machine`);
    const layout = await this.#layoutOf(library, into);
    const making = `${into}.new`;
    await rm(making, { recursive: true, force: true });
    for (const [name, { program, folder }] of Object.entries(layout)) {
      const machine = machineProgram(name as MachineBrowser, layout);
      if (machine === undefined) continue;
      const link = join(making, relative(into, program));
      await mkdir(dirname(link), { recursive: true, mode: 0o755 });
      await symlink(machine, link);
      for (const mark of [COMPLETE, 'DEPENDENCIES_VALIDATED']) {
        await writeFile(join(making, relative(into, folder), mark), '', { mode: 0o644 });
      }
    }
    await makeOwn(making);
    await rm(into, { recursive: true, force: true });
    await rename(making, into);
    return into;
  }

  #layoutOf(library: string, browsers: string): Promise<z.infer<typeof Layout>> {
    return this.#options.workshop.use(async ({ process: worker, folder }) => {
      const answer = join(folder, 'layout.json');
      const program = layoutProgram(library);
      const command = `exec ${quoted(process.execPath)} -e ${quoted(program)} > ${quoted(answer)}`;
      const env = { HOME: folder, PLAYWRIGHT_BROWSERS_PATH: browsers };
      const { code } = await worker.ask({ do: 'run', command, cwd: folder, env }, answers.Ended);
      await worker.end();
      if (code !== 0)
        throw new ExecutorFault(
          'BROWSERS_UNAVAILABLE',
          'Playwright does not say where it looks for its browsers',
        );
      return Layout.parse(JSON.parse(await readFile(answer, 'utf8')));
    });
  }
}

/** Playwright before 1.49 knows no headless shell: it starts Chromium without windows, which the shell does too. */
function machineProgram(name: MachineBrowser, layout: z.infer<typeof Layout>): string | undefined {
  if (missingPrograms([name]).length === 0) return MACHINE_PROGRAMS[name];
  const isShellKnown = layout['chromium-headless-shell'] !== undefined;
  return name === 'chromium' && !isShellKnown ? MACHINE_PROGRAMS['chromium-headless-shell'] : undefined;
}

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

function assertKnown({ version, browsers }: InstalledPlaywright, names: readonly string[]): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    throw new SuiteProblem(
      'PLAYWRIGHT_TOO_OLD',
      `Playwright ${version} is too old for this agent: use ${OLDEST.join('.')} or newer`,
    );
  }
  const unknown = names.find((name) => !browsers.some((each) => each.name === name));
  if (unknown === undefined) return;
  throw new SuiteProblem(
    'UNKNOWN_BROWSER',
    `Playwright ${version} knows no browser ${unknown}: correct browsers`,
  );
}

/** Names of the folders of an installation: `chromium_headless_shell-1208`. */
function foldersOf({ browsers }: InstalledPlaywright, names: readonly string[]): string[] {
  const wanted = new Set(names.flatMap((name) => [name, ...(WITH[name] ?? [])]));
  return browsers
    .filter(({ name }) => wanted.has(name))
    .map(({ name, revision }) => `${name.replaceAll('-', '_')}-${revision}`);
}

/** Where there is a headless shell, tests do without the whole Chromium until they ask for it. */
function hasAll(place: string, folders: readonly string[], { browsers }: InstalledPlaywright): boolean {
  const hasShell = browsers.some(({ name }) => name === 'chromium-headless-shell');
  const needed = hasShell ? folders.filter((name) => !/^chromium-\d+$/.test(name)) : folders;
  return needed.every((name) => existsSync(join(place, name, COMPLETE)));
}

/** The last error it names is an exit code; the first says why. */
function reasonIn(output: string): string {
  const errors = [...output.matchAll(/^(?:\w*Error|Failed[^:\n]*): (.+)$/gm)].map(([, text]) => text!);
  return errors[0] ?? lastLines(output, 1);
}
