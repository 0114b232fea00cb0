import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { DEFAULT_RUNTIME, findRuntimes } from '../../src/agent/runtimes/index.ts';
import { demoSite } from '../../src/cli/demo-site/index.ts';
import type { Kept } from '../../src/cli/run-script.ts';
import type { TryReport } from '../../src/checks/execute.ts';
import { runVedette } from '../cli/program.ts';
import { temporaryFolder } from '../support/agent.ts';
import { describeUnless } from '../support/programs.ts';
import { listenOn } from '../support/targets/ports.ts';

/** The specs of examples/playwright as checks of the demo shop, by `vedette run`. */

const folder = join(import.meta.dirname, '../../examples/playwright');
const specs = readdirSync(folder).filter((name) => /\.spec\.ts$|\.js$/.test(name));
/** Specs that need no browser. */
const MULTI_STEP = ['api-request.spec.ts', 'degraded.spec.ts', 'steps.spec.ts'];
const PICTURE = 'visual.spec.ts-snapshots/flag-linux.png';

const server = createServer(demoSite());
let site: string;
beforeAll(async () => {
  site = `http://127.0.0.1:${await listenOn(server)}`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

interface Page {
  url: string;
}
interface Result {
  errors: { message: string; file?: string; line?: number }[];
  runtimeVersion: string;
  jobLog: { msg: string }[];
  jobAssets: string[];
  playwrightTestTraces: string[];
  playwrightTestVideos?: string[];
  playwrightTestJsonReportFile?: string;
  pages: Page[];
  traceSummary: Record<'consoleErrors' | 'networkErrors' | 'documentErrors' | 'userScriptErrors', number>;
  requests: { method: string; url: string; status: number }[];
}
interface Run {
  code: number | string;
  report: TryReport;
  result: Result;
  files: Map<string, string>;
}

type Dependency = { path: string; content: string };
const sourceOf = (name: string): string => readFileSync(join(folder, name), 'utf8');
const pictureOf = (path: string): Dependency => ({
  path: PICTURE,
  content: `data:image/png;base64,${readFileSync(path).toString('base64')}`,
});

/** Runs a spec, changed if wanted, as a check of its type. */
async function runSpec(
  name: string,
  { script = sourceOf(name), dependencies = [] as Dependency[] } = {},
): Promise<Run> {
  const kept = temporaryFolder();
  onTestFinished(() => kept[Symbol.dispose]());
  const check = {
    checkType: MULTI_STEP.includes(name) ? 'MULTI_STEP' : 'BROWSER',
    name,
    script,
    scriptPath: name,
    dependencies,
    environmentVariables: [{ key: 'SITE_URL', value: site }],
  };
  const { code, stdout, stderr } = await runVedette(['run', '--json', '--artifacts', kept.path, '-'], {
    input: JSON.stringify(check),
  });
  expect(stderr).toBe('');
  const { artifacts, ...report } = JSON.parse(stdout) as TryReport & { artifacts: Kept[] };
  const [result] = Object.values(report.detail) as Result[];
  const files = artifacts.flatMap((each) => ('path' in each ? [[each.name, each.path] as const] : []));
  return { code, report, result: result!, files: new Map(files) };
}

/** Runs a spec that must pass. */
async function pass(name: string, dependencies: Dependency[] = []): Promise<Run> {
  const run = await runSpec(name, { dependencies });
  expect(run.report.errors).toEqual([]);
  expect(run.result).toMatchObject({ errors: [], runtimeVersion: DEFAULT_RUNTIME });
  expect(run.code).toBe(0);
  return run;
}

const named = ({ files }: Run, end: string): string | undefined =>
  [...files].find(([name]) => name.endsWith(end))?.[1];

const SPECIAL = [
  'degraded.spec.ts',
  'page-errors.spec.ts',
  'plain-script.js',
  'shop.spec.ts',
  'steps.spec.ts',
  'visual.spec.ts',
];

const runtime = findRuntimes().find(({ id }) => id === DEFAULT_RUNTIME);
const missing = runtime === undefined ? `no runtime ${DEFAULT_RUNTIME}: vedette runtime install` : undefined;

describeUnless(missing, 'a spec of the examples passes as a check', () => {
  test.each(specs.filter((name) => !SPECIAL.includes(name)))('%s', async (name) => {
    const { result, report } = await pass(name);
    expect(report.flags.isDegraded).toBe(false);
    expect(result.playwrightTestJsonReportFile).toBeDefined();
    if (MULTI_STEP.includes(name)) expect(result.requests.length).toBeGreaterThan(3);
    else expect(result.pages.map(({ url }) => new URL(url).origin)).toContain(site);
  });

  test('shop.spec.ts, with its pages, its screenshot, its trace and its video', async () => {
    const run = await pass('shop.spec.ts');
    const paths = run.result.pages.map(({ url }) => new URL(url).pathname);
    expect(paths).toEqual(expect.arrayContaining(['/', '/products/lantern', '/cart', '/checkout']));
    expect(readFileSync(named(run, 'cart.png')!).subarray(1, 4).toString()).toBe('PNG');
    expect(readFileSync(named(run, '.zip')!).subarray(0, 2).toString()).toBe('PK');
    expect(run.result.playwrightTestTraces).not.toEqual([]);
    expect(run.result.playwrightTestVideos).not.toEqual([]);
  });

  test('page-errors.spec.ts, with the errors counted', async () => {
    const { traceSummary } = (await pass('page-errors.spec.ts')).result;
    expect(traceSummary.consoleErrors).toBeGreaterThanOrEqual(1);
    expect(traceSummary.networkErrors).toBe(1);
    expect(traceSummary.documentErrors).toBe(1);
    expect(traceSummary.userScriptErrors).toBe(0);
  });

  test('steps.spec.ts, with its requests in order', async () => {
    const { requests } = (await pass('steps.spec.ts')).result;
    expect(requests.map(({ method, url, status }) => [method, new URL(url).pathname, status])).toEqual([
      ['GET', '/api/status', 200],
      ['GET', '/api/products', 200],
      ['POST', '/api/orders', 201],
      ['GET', expect.stringMatching(/^\/api\/orders\/./), 200],
    ]);
  });

  test('degraded.spec.ts is degraded, not failed', async () => {
    const { report } = await pass('degraded.spec.ts');
    expect(report.flags).toMatchObject({ isDegraded: true, hasFailures: false, hasErrors: false });
  });

  test('plain-script.js, with what it prints and its screenshot', async () => {
    const run = await pass('plain-script.js');
    expect(run.result.jobLog.map(({ msg }) => msg)).toContain('the bell is sold out');
    expect(named(run, 'bell.png')).toBeDefined();
    expect(run.result.pages.length).toBeGreaterThan(0);
  });

  test('visual.spec.ts, by the picture that it brings', async () => {
    await pass('visual.spec.ts', [pictureOf(join(folder, PICTURE))]);
  });
});

describeUnless(missing, 'a spec of the examples that fails', () => {
  test('names every soft assertion and its line', async () => {
    const script = sourceOf('soft-assertions.spec.ts').replace('4.20 €', '1 €').replace('9.90 €', '2 €');
    const { code, result, report } = await runSpec('soft-assertions.spec.ts', { script });
    expect(code).toBe(1);
    expect(report.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    expect(result.errors).toHaveLength(2);
    expect(result.errors[0]).toMatchObject({
      message: expect.stringContaining('price of twine'),
      file: '/soft-assertions.spec.ts',
      line: script.split('\n').findIndex((line) => line.includes('price of')) + 1,
    });
    expect(result.errors[1]!.message).toContain('price of almanac');
  });

  test('leaves the picture that was missing', async () => {
    const first = await runSpec('visual.spec.ts');
    expect(first.code).toBe(1);
    expect(first.result.errors[0]!.message).toContain("snapshot doesn't exist");
    const picture = named(first, 'flag-linux.png') ?? named(first, 'flag-actual.png');
    expect(readFileSync(picture!)).toEqual(readFileSync(join(folder, PICTURE)));
  });

  test('leaves a screenshot of where it stopped', async () => {
    const script = sourceOf('login.spec.ts').replace("'User or password is wrong.'", "'Come in.'");
    const run = await runSpec('login.spec.ts', { script });
    expect(run.code).toBe(1);
    expect(run.result.errors[0]!.message).toContain('Come in.');
    expect([...run.files.keys()].filter((name) => name.endsWith('.png'))).not.toEqual([]);
  });
});
