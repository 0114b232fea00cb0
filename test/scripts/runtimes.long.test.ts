import { cpSync, existsSync, lstatSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  DEFAULT_RUNTIME,
  findRuntimes,
  nodeOf,
  offeredRuntimes,
  readRecord,
  runtimePaths,
} from '../../src/agent/runtimes/index.ts';
import { installRuntime, type InstallOptions } from '../../src/cli/install-runtime.ts';
import { ExitCode } from '../../src/kit/errors.ts';
import { runVedette } from '../cli/program.ts';
import { describeUnless, runProgram } from '../support/programs.ts';
import { copyRuntime, lacksChromium, lacksRuntime, makeTinyRuntime } from '../support/runtime-root.ts';
import { startBrowserMirror } from '../support/targets/browser-mirror.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const OPEN_PAGE = join(import.meta.dirname, 'programs/open-page.mjs');
const VERSIONS: Readonly<Record<string, { node: RegExp; playwright: string }>> = {
  '2026.04': { node: /^v24\./, playwright: '1.58.2' },
  '2025.04': { node: /^v22\./, playwright: '1.51.1' },
};

let folder: ReturnType<typeof temporaryFolder>;
/** Where a test keeps runtimes of its own. */
let root: string;
beforeEach(() => {
  folder = temporaryFolder();
  root = folder.path;
});
afterEach(() => folder[Symbol.dispose]());

/** Installs below `root`. @returns what it said */
async function install(id: string, more: Partial<InstallOptions> = {}): Promise<string[]> {
  const said: string[] = [];
  const log = (line: string): void => void said.push(line);
  const signal = new AbortController().signal;
  await installRuntime(id, { log, browsers: false, env: process.env, signal, root, ...more });
  return said;
}

/** The same, where it must fail. @returns why it says it failed */
const failure = (id: string, more: Partial<InstallOptions> = {}): Promise<string> =>
  install(id, more).then(
    () => expect.unreachable('it was installed'),
    (error: unknown) => String((error as Error).message),
  );

test('the default runtime is among those that are offered', () => {
  expect(offeredRuntimes()).toEqual(Object.keys(VERSIONS).sort().reverse());
  expect(offeredRuntimes()).toContain(DEFAULT_RUNTIME);
});

for (const [id, version] of Object.entries(VERSIONS)) {
  describeUnless(lacksRuntime(id), `runtime ${id}`, () => {
    const { folder: place, modules, browsers } = runtimePaths(id);

    test('is offered with its Node and its Playwright', () => {
      const runtime = findRuntimes().find((each) => each.id === id)!;
      expect(runtime.playwrightVersion).toBe(version.playwright);
      expect(statSync(runtime.node).mode & 0o111).toBe(0o111);
      for (const path of runtime.browserFolders) expect(existsSync(path)).toBe(true);
    });

    test('loads every package under its own Node', async () => {
      const { code, stdout } = await runProgram(nodeOf(id), [join(place, 'smoke.mjs')], { env: {} });
      const said = JSON.parse(stdout) as { node: string; packages: number; failed: object };
      expect(said.failed).toEqual({});
      expect(said.node).toMatch(version.node);
      expect(said.packages).toBeGreaterThan(60);
      expect(code).toBe(0);
    });

    test('has nothing but packages behind its modules, so that its folder is all that need be seen', () => {
      const scopes = readdirSync(modules).filter((name) => name.startsWith('@'));
      const inScopes = scopes.flatMap((scope) =>
        readdirSync(join(modules, scope)).map((name) => join(scope, name)),
      );
      const links = [...readdirSync(modules), ...inScopes].filter((name) =>
        lstatSync(join(modules, name)).isSymbolicLink(),
      );
      expect(links).toEqual([]);
    });

    test.each([
      ['the headless shell', {}],
      ['the whole Chromium', { channel: 'chromium' }],
    ])('opens a page in %s, with screenshot and video', async (_, options) => {
      const { code, stdout, stderr } = await runProgram(
        nodeOf(id),
        [OPEN_PAGE, modules, root, JSON.stringify(options)],
        { env: { PLAYWRIGHT_BROWSERS_PATH: browsers, HOME: root, PATH: '/usr/bin:/bin' } },
      );
      expect(stderr).toBe('');
      expect(code).toBe(0);
      const said = JSON.parse(stdout) as { node: string; title: string; picture: string; videoBytes: number };
      expect(said).toMatchObject({ title: 'A shop', picture: 'PNG' });
      expect(said.node).toMatch(version.node);
      expect(said.videoBytes).toBeGreaterThan(500);
    });

    test('is not offered when half installed', () => {
      copyRuntime(id, root);
      const { record, folder: copy, modules: copied } = runtimePaths(id, root);
      const ids = (): string[] => findRuntimes(root).map((runtime) => runtime.id);
      expect(ids()).toEqual([id]);
      writeFileSync(join(copy, 'package-lock.json'), '{}');
      expect(ids(), 'another list of packages').toEqual([]);
      cpSync(join(place, 'package-lock.json'), join(copy, 'package-lock.json'));
      expect(ids()).toEqual([id]);
      writeFileSync(record, '{"fingerprint":');
      expect(ids(), 'a record cut off').toEqual([]);
      cpSync(runtimePaths(id).record, record);
      rmSync(join(copied, `node-${process.platform}-${process.arch}`));
      expect(ids(), 'no Node').toEqual([]);
    });

    test('takes its browsers from a mirror that PLAYWRIGHT_DOWNLOAD_HOST names', async () => {
      copyRuntime(id, root);
      await using mirror = await startBrowserMirror();
      const said = await installBrowsersFrom(mirror.url);
      expect(mirror.paths).toHaveLength(3);
      expect(said.at(-1)).toContain('Chromium 7.0 of the mirror, downloaded');
      expect(readRecord(id, root)?.browsers).toEqual({
        source: 'download',
        version: 'Chromium 7.0 of the mirror',
        folders: [],
      });
      // Nothing to do, and nothing asked of the mirror again.
      expect(await installBrowsersFrom(mirror.url)).toEqual([`runtime ${id} is installed`]);
      expect(mirror.paths).toHaveLength(3);
    });

    test('takes those of the machine when what was downloaded does not start', async ({ skip }) => {
      skip(lacksChromium() !== undefined, lacksChromium());
      copyRuntime(id, root);
      await using mirror = await startBrowserMirror('#!/bin/sh\necho a library is missing >&2; exit 127\n');
      const said = await installBrowsersFrom(mirror.url);
      expect(said.join('\n')).toMatch(
        /does not start: a library is missing\); looking for one of this machine/,
      );
      expect(readRecord(id, root)?.browsers.source).toBe('machine');
      expect(said.at(-1)).toContain('of this machine');
    });

    /** Installs the browsers of the copy. */
    async function installBrowsersFrom(mirror: string): Promise<string[]> {
      const { modules: copied } = runtimePaths(id, root);
      const record = readRecord(id, root)!;
      if (record.browsers.folders.length > 0) {
        const without = { ...record, browsers: { source: 'none', version: '', folders: [] } };
        writeFileSync(join(copied, '.vedette.json'), JSON.stringify(without));
      }
      const env = { ...process.env, PLAYWRIGHT_DOWNLOAD_HOST: mirror };
      return install(id, { browsers: true, env });
    }
  });
}

describe('installing', () => {
  test('brings packages, Node and a copy of the helpers, once', async () => {
    makeTinyRuntime('2001.01', root);
    expect(findRuntimes(root)).toEqual([]);
    const said = await install('2001.01');
    expect(said).toContain(
      `runtime 2001.01 is installed: Node ${process.versions.node}, Playwright 9.9.9, no browser`,
    );
    const [runtime] = findRuntimes(root);
    expect(runtime).toMatchObject({ id: '2001.01', playwrightVersion: '9.9.9', browserFolders: [] });
    const helpers = join(runtime!.modules, '@vedette/playwright-helpers');
    expect(lstatSync(helpers).isSymbolicLink()).toBe(false);
    // The cache is tried again: this runtime has no Playwright to be compiled.
    expect(await install('2001.01')).toEqual([
      'runtime 2001.01 is installed',
      expect.stringMatching(/^runtime 2001\.01: its compile cache is not filled: .*Cannot find/),
    ]);
  });

  test('does it anew when forced', async () => {
    makeTinyRuntime('2001.01', root);
    await install('2001.01');
    writeFileSync(join(runtimePaths('2001.01', root).modules, 'stray'), '');
    await install('2001.01', { force: true });
    expect(existsSync(join(runtimePaths('2001.01', root).modules, 'stray'))).toBe(false);
  });

  test('two at once: one installs, the other waits for it', async () => {
    makeTinyRuntime('2001.01', root);
    const both = await Promise.all([install('2001.01'), install('2001.01')]);
    const lines = both.flat();
    expect(lines.filter((line) => line.includes('installing its packages'))).toHaveLength(1);
    expect(lines.filter((line) => line.includes('waiting for its end'))).toHaveLength(1);
    expect(lines.filter((line) => line === 'runtime 2001.01 is installed')).toHaveLength(1);
  });

  test('stops when asked, and the runtime is not offered', async () => {
    makeTinyRuntime('2001.01', root);
    const stop = new AbortController();
    const log = (line: string): void => {
      if (line.includes('installing its packages')) stop.abort();
    };
    expect(await failure('2001.01', { log, signal: stop.signal })).toBe(
      'runtime 2001.01: the installation was stopped; the next one starts anew',
    );
    expect(findRuntimes(root)).toEqual([]);
  });

  test('names the runtimes there are when there is no such', async () => {
    makeTinyRuntime('2001.01', root);
    expect(await failure('2001.02')).toBe("there is no runtime '2001.02'; there are: 2001.01");
  });

  test('says that npm is missing', async () => {
    makeTinyRuntime('2001.01', root);
    expect(await failure('2001.01', { env: { PATH: root } })).toMatch(
      /^runtime 2001.01: npm is not on the PATH/,
    );
  });

  test('says that the registry cannot be reached', async () => {
    makeTinyRuntime('2001.01', root, { fetched: { zod: '3.24.3' } });
    // Nothing listens on port 1; an empty cache, or npm needs no registry.
    const npm = { npm_config_registry: 'http://127.0.0.1:1/', npm_config_fetch_retries: '0' };
    const env = { ...process.env, ...npm, npm_config_cache: join(root, 'cache') };
    expect(await failure('2001.01', { env })).toMatch(
      /^runtime 2001.01: npm does not reach its registry \(.*ECONNREFUSED.*\); npm's settings registry/,
    );
  });

  test('says which packages do not load, and the runtime is not offered', async () => {
    const smoke = "console.log('zod is broken'); process.exit(1);";
    makeTinyRuntime('2001.01', root, { smoke });
    expect(await failure('2001.01')).toBe('runtime 2001.01: its packages do not load: zod is broken');
    expect(findRuntimes(root)).toEqual([]);
  });
});

describe('vedette runtime', () => {
  test('list shows every runtime and what is installed', async () => {
    const { code, stdout } = await runVedette(['runtime', 'list']);
    expect(code).toBe(0);
    const [head, ...lines] = stdout.trimEnd().split('\n');
    expect(head).toMatch(/^RUNTIME +NODE +PLAYWRIGHT +BROWSER +STATE$/);
    expect(lines).toHaveLength(offeredRuntimes().length);
    for (const [index, id] of offeredRuntimes().entries()) {
      expect(lines[index]).toMatch(new RegExp(`^${id} +\\d+\\.\\d+\\.\\d+ +${VERSIONS[id]!.playwright} `));
      const state = readRecord(id) === undefined ? /(incomplete or outdated|not installed)/ : / {2}installed/;
      expect(lines[index]).toMatch(state);
    }
    expect(lines.filter((line) => line.endsWith(', default'))).toHaveLength(1);
  });

  test.each([
    [['install', '1999.01'], /^vedette: there is no runtime '1999\.01'; there are: 2026\.04, 2025\.04\n$/],
    [['instal'], /^vedette: runtime: unknown ACTION 'instal'; there are install and list; .*\n$/],
    [['list', '2026.04'], /^vedette: runtime: list takes no ID; .*\n$/],
    [[], /^vedette: runtime: ACTION is missing; .*\n$/],
  ])('%j ends with code 2 and one line', async (args, line) => {
    const { code, stdout, stderr } = await runVedette(['runtime', ...args]);
    expect(stderr).toMatch(line);
    expect({ code, stdout }).toEqual({ code: ExitCode.usage, stdout: '' });
  });
});

describeUnless(lacksRuntime(DEFAULT_RUNTIME), 'vedette runtime install', () => {
  test('of what is installed says so and is done', async () => {
    const { code, stdout } = await runVedette(['runtime', 'install', DEFAULT_RUNTIME]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: `runtime ${DEFAULT_RUNTIME} is installed\n` });
  });
});
