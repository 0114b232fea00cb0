import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { DEFAULT_RUNTIME, findRuntimes } from '../../src/agent/runtimes/index.ts';
import { runVedette } from '../cli/program.ts';
import { temporaryFolder } from '../support/agent.ts';
import { usePlaywright, type Ran } from '../support/playwright-bench.ts';
import { describeUnless } from '../support/programs.ts';

/** The specs of examples/playwright as checks of the demo shop. */

const folder = join(import.meta.dirname, '../../examples/playwright');
const specs = readdirSync(folder).filter((name) => /\.spec\.ts$|\.js$/.test(name));
/** Specs that need no browser. */
const MULTI_STEP = ['api-request.spec.ts', 'degraded.spec.ts', 'steps.spec.ts'];
const PICTURE = 'visual.spec.ts-snapshots/flag-linux.png';

const { run, site } = usePlaywright(2);

type Dependency = { path: string; content: string };
const sourceOf = (name: string): string => readFileSync(join(folder, name), 'utf8');
const pictureOf = (path: string): Dependency => ({
  path: PICTURE,
  content: `data:image/png;base64,${readFileSync(path).toString('base64')}`,
});

/** Runs a spec, changed if wanted, as a check of its type. */
const runSpec = (
  name: string,
  {
    script = sourceOf(name),
    dependencies = [] as Dependency[],
    patienceMs = 5_000,
    runSource = 'SCHEDULER',
  } = {},
): Promise<Ran> =>
  run(script, {
    type: MULTI_STEP.includes(name) ? 'MULTI_STEP' : 'BROWSER',
    timeoutMs: 60_000,
    more: { runSource },
    scriptPath: name,
    dependencies,
    playwrightConfig: { expect: { timeout: patienceMs } },
  });

/** Runs a spec that must pass. */
async function pass(name: string, more: Parameters<typeof runSpec>[1] = {}): Promise<Ran> {
  const ran = await runSpec(name, more);
  expect(ran.failures).toEqual([]);
  expect(ran.shown).toMatchObject({ errors: [], runtimeVersion: DEFAULT_RUNTIME });
  return ran;
}

const named = ({ files }: Ran, end: string): Buffer | undefined =>
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
    const { shown, verdict } = await pass(name);
    expect(verdict).toBe('passed');
    expect(shown.playwrightTestJsonReportFile).toBeDefined();
    if (MULTI_STEP.includes(name)) expect(shown.requests!.length).toBeGreaterThan(3);
    else expect(shown.pages!.map(({ url }) => new URL(url).origin)).toContain(site());
  });

  test('shop.spec.ts, with its pages, its screenshot, its trace and its video', async () => {
    const ran = await pass('shop.spec.ts', { runSource: 'EDITOR' });
    const paths = ran.shown.pages!.map(({ url }) => new URL(url).pathname);
    expect(paths).toEqual(expect.arrayContaining(['/', '/products/lantern', '/cart', '/checkout']));
    expect(named(ran, 'cart.png')!.subarray(1, 4).toString()).toBe('PNG');
    expect(named(ran, '.zip')!.subarray(0, 2).toString()).toBe('PK');
    expect(ran.shown.playwrightTestTraces).not.toEqual([]);
    expect(ran.shown.playwrightTestVideos).not.toEqual([]);
  });

  test('page-errors.spec.ts, with the errors counted', async () => {
    const traceSummary = (await pass('page-errors.spec.ts')).shown.traceSummary!;
    expect(traceSummary.consoleErrors).toBeGreaterThanOrEqual(1);
    expect(traceSummary.networkErrors).toBe(1);
    expect(traceSummary.documentErrors).toBe(1);
    expect(traceSummary.userScriptErrors).toBe(0);
  });

  test('steps.spec.ts, with its requests in order', async () => {
    const { requests } = (await pass('steps.spec.ts')).shown;
    expect(requests!.map(({ method, url, status }) => [method, new URL(url).pathname, status])).toEqual([
      ['GET', '/api/status', 200],
      ['GET', '/api/products', 200],
      ['POST', '/api/orders', 201],
      ['GET', expect.stringMatching(/^\/api\/orders\/./), 200],
    ]);
  });

  test('degraded.spec.ts is degraded, not failed', async () => {
    expect((await pass('degraded.spec.ts')).verdict).toBe('degraded');
  });

  test('plain-script.js, with what it prints and its screenshot', async () => {
    const ran = await pass('plain-script.js');
    expect(ran.shown.jobLog.map(({ msg }) => msg)).toContain('the bell is sold out');
    expect(named(ran, 'bell.png')).toBeDefined();
    expect(ran.shown.pages!.length).toBeGreaterThan(0);
  });

  test('visual.spec.ts, by the picture that it brings', async () => {
    await pass('visual.spec.ts', { dependencies: [pictureOf(join(folder, PICTURE))] });
  });
});

describeUnless(missing, 'vedette run', () => {
  test('runs a browser check here and keeps its files', async () => {
    const kept = temporaryFolder();
    onTestFinished(() => kept[Symbol.dispose]());
    const check = {
      checkType: 'BROWSER',
      name: 'login',
      script: sourceOf('login.spec.ts'),
      scriptPath: 'login.spec.ts',
      environmentVariables: [{ key: 'SITE_URL', value: site() }],
    };
    const { code, stdout, stderr } = await runVedette(['run', '--artifacts', kept.path, '-'], {
      input: JSON.stringify(check),
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^PASS {2}BROWSER {2}login {2}\d+ ms/);
    expect(readdirSync(kept.path, { recursive: true })).toContain('report.json');
  });
});

describeUnless(missing, 'a spec of the examples that fails', () => {
  test('names every soft assertion and its line', async () => {
    const script = sourceOf('soft-assertions.spec.ts').replace('4.20 €', '1 €').replace('9.90 €', '2 €');
    const { verdict, shown } = await runSpec('soft-assertions.spec.ts', { script, patienceMs: 500 });
    expect(verdict).toBe('failed');
    expect(shown.errors).toHaveLength(2);
    expect(shown.errors[0]).toMatchObject({
      message: expect.stringContaining('price of twine'),
      file: '/soft-assertions.spec.ts',
      line: script.split('\n').findIndex((line) => line.includes('price of')) + 1,
    });
    expect(shown.errors[1]!.message).toContain('price of almanac');
  });

  test('leaves the picture that was missing', async () => {
    const first = await runSpec('visual.spec.ts');
    expect(first.verdict).toBe('failed');
    expect(first.shown.errors[0]!.message).toContain("snapshot doesn't exist");
    const picture = named(first, 'flag-linux.png') ?? named(first, 'flag-actual.png');
    expect(picture).toEqual(readFileSync(join(folder, PICTURE)));
  });

  test('leaves a screenshot of where it stopped', async () => {
    const script = sourceOf('login.spec.ts').replace("'User or password is wrong.'", "'Come in.'");
    const ran = await runSpec('login.spec.ts', { script, patienceMs: 1_000 });
    expect(ran.verdict).toBe('failed');
    expect(ran.shown.errors[0]!.message).toContain('Come in.');
    expect([...ran.files.keys()].filter((name) => name.endsWith('.png'))).not.toEqual([]);
  });
});
