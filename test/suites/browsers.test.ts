import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { isToolInstalled, USUAL_TOOLS, type SuiteRoomOptions } from '../../src/agent/suites/index.ts';
import type { SuiteResult } from '../../src/checks/index.ts';
import { standInJob } from '../support/agent.ts';
import { connectProxy } from '../support/connect-proxy.ts';
import { lacksChromium, lacksRuntime } from '../support/runtime-root.ts';
import { startSuiteRoom, type TestRoom } from '../support/suite-room.ts';
import { archiveOf, projectFolder, projectWith, type SuiteSpec } from '../support/suites.ts';
import { startBrowserMirror, type BrowserMirror } from '../support/targets/browser-mirror.ts';
import { GOOD_NAME, makeCertificates } from '../support/targets/certificates.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const missing = lacksRuntime('2026.04') ?? lacksChromium() ?? lacksTools();
if (missing !== undefined) console.warn(`downloads of browsers are not tested: ${missing}`);

function lacksTools(): string | undefined {
  const isThere = USUAL_TOOLS.every((tool) => isToolInstalled(tool));
  return isThere ? undefined : 'tools of suites are not installed: vedette runtime install';
}

/** What the mirror calls Chromium starts the one of this machine. */
const PROGRAM = '#!/bin/sh\nexec /usr/lib/chromium/chromium-headless-shell "$@"\n';
const FILES = {
  'playwright.config.ts': "export default { testMatch: '*.spec.js', retries: 0 };",
  'page.spec.js': `import { expect, test } from '@playwright/test';
test('opens a page', async ({ page }) => {
  await page.goto('data:text/html,<title>there</title>');
  await expect(page).toHaveTitle('there');
});`,
  'plain.spec.js': `import { test } from '@playwright/test';
test('needs no page', () => {});`,
};

/** One for all tests, so that only the first one installs dependencies. */
const data = temporaryFolder();
const bundles = new Map<string, Buffer>();
let archive: Buffer;

beforeAll(async () => {
  const read = (file: string): string => readFileSync(join(projectFolder('web'), file), 'utf8');
  using project = projectWith('npm', {
    ...FILES,
    'package.json': read('package.json'),
    'package-lock.json': read('package-lock.json'),
  });
  archive = await archiveOf(project.path);
  bundles.set(createHash('sha256').update(archive).digest('hex'), archive);
});
beforeEach(() => rmSync(join(data.path, 'suites/browsers'), { recursive: true, force: true }));
afterAll(() => data[Symbol.dispose]());

async function start(more: Partial<SuiteRoomOptions>): Promise<TestRoom> {
  const room = await startSuiteRoom(data.path, bundles, more);
  onTestFinished(() => room[Symbol.asyncDispose]());
  return room;
}

const from = (mirror: string): Partial<SuiteRoomOptions> => ({
  packageVariables: { PLAYWRIGHT_DOWNLOAD_HOST: mirror },
});

function run(room: TestRoom, spec: SuiteSpec = {}): ReturnType<TestRoom['run']> {
  const [sha256] = bundles.keys();
  const bundle = { sha256: sha256!, size: archive.length };
  const codeBundlePath = `bundles/${sha256}.tar.gz`;
  return room.run(
    standInJob(
      { bundle, codeBundlePath, frequency: 10, ...spec },
      { checkType: 'PLAYWRIGHT', timeoutMs: 200_000, runSource: 'SCHEDULER' },
    ),
  );
}

const verdictsOf = ({ tests, error }: SuiteResult): string[] =>
  error === null
    ? tests.map(({ titlePath, status }) => `${titlePath.at(-1)}: ${status}`).sort()
    : [error.message];
const BOTH = ['needs no page: passed', 'opens a page: passed'];

describe.skipIf(missing !== undefined)('browsers that no runtime has', () => {
  test('are downloaded from the mirror once: for two runs at once, and not for the next', async () => {
    await using mirror = await startBrowserMirror(PROGRAM);
    const room = await start(from(mirror.url));
    const both = await Promise.all([run(room), run(room)]);
    for (const { result } of both) expect(verdictsOf(result)).toEqual(BOTH);
    expectOneDownload(mirror);
    expect(verdictsOf((await run(room)).result)).toEqual(BOTH);
    const next = await start(from(mirror.url));
    expect(verdictsOf((await run(next)).result)).toEqual(BOTH);
    expectOneDownload(mirror);
    // Node and npm came with the installation.
    expect(readdirSync(join(data.path, 'suites/tools'))).toEqual(['playwright-core-1.65.1']);
  });

  test('come through HTTPS_PROXY, from a host with a certificate of the company', async () => {
    using folder = temporaryFolder();
    const { trusted, good } = await makeCertificates(folder.path);
    const tls = { cert: readFileSync(good.chain), key: readFileSync(good.key) };
    await using mirror = await startBrowserMirror(PROGRAM, tls);
    await using proxy = await connectProxy((asked) =>
      asked === `${GOOD_NAME}:443` ? `127.0.0.1:${mirror.port}` : 403,
    );
    const room = await start({
      ...from(`https://${GOOD_NAME}`),
      network: { httpsProxy: proxy.url, httpProxy: undefined, noProxy: '' },
      extraCaCerts: trusted,
    });
    expect(verdictsOf((await run(room)).result)).toEqual(BOTH);
    expectOneDownload(mirror);
    expect(new Set(proxy.asked)).toEqual(new Set([`${GOOD_NAME}:443`]));
  });

  test('are an error of the agent that says what to do, tried again later', async () => {
    await using mirror = await startBrowserMirror();
    mirror.isAway = true;
    const room = await start(from(mirror.url));
    const firefox: SuiteSpec = { browsers: ['firefox'], testCommand: 'npx playwright test plain' };
    const first = await run(room, firefox);
    expect(first.flags).toMatchObject({ hasErrors: true, hasFailures: false });
    expect(first.result.error).toMatchObject({ stage: 'browsers', code: 'BROWSERS_UNAVAILABLE' });
    expect(first.result.error?.message).toMatch(
      /^Playwright 1\.65\.1 needs firefox, and this agent could not download it \(.*503.*\): .*HTTPS_PROXY.*PLAYWRIGHT_DOWNLOAD_HOST/,
    );
    expect(first.result.error?.message).not.toContain('Debian');
    const tries = mirror.paths.length;
    expect(tries).toBeGreaterThan(0);
    mirror.isAway = false;
    expect((await run(room, firefox)).result.error?.code).toBe('BROWSERS_UNAVAILABLE');
    expect(mirror.paths, 'asked again at once').toHaveLength(tries);
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + 11 * 60_000);
    onTestFinished(() => clock.mockRestore());
    expect(verdictsOf((await run(room, firefox)).result)).toEqual(['needs no page: passed']);
    expect(mirror.paths.length).toBeGreaterThan(tries);
  });

  test('give way to Chromium of the machine when they cannot be had', async () => {
    await using mirror = await startBrowserMirror();
    mirror.isAway = true;
    const room = await start(from(mirror.url));
    expect(verdictsOf((await run(room)).result)).toEqual(BOTH);
  });
});

/** Of each archive one; which there are, Playwright decides. */
function expectOneDownload({ paths }: BrowserMirror): void {
  expect(paths.length).toBeGreaterThan(1);
  expect(new Set(paths).size).toBe(paths.length);
  expect(paths.some((path) => path.includes('headless-shell'))).toBe(true);
}
