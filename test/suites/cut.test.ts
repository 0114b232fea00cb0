import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunResult } from '../../src/contract/index.ts';
import { startTestAgent, type TestAgent } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { projectWith, suiteJob, suiteResult, type SuiteSpec } from '../support/suites.ts';

const missing = lacksRuntime('2026.04');
if (missing !== undefined) console.warn(`suites are not tested: ${missing}`);

let service: FakeService;
let agent: TestAgent;

beforeAll(async () => {
  service = await startFakeService();
  agent = await startTestAgent(service);
  await service.heard('ready', (d) => (d.freeByClass?.suite ?? 0) > 0);
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

const MINUTES = 60_000;
const SHORT = `const { test } = require('@playwright/test');
for (let i = 1; i <= 3; i++) test('short ' + i, async ({ page }) => { await page.setContent('<p>' + i + '</p>'); });
`;
const ENDLESS = `${SHORT}test('endless', async () => { console.log('it begins'); await new Promise(() => {}); });
test('never begun', () => {});
`;
const config = (more = ''): string =>
  `module.exports = { testDir: '.', testMatch: '*.spec.js', timeout: 0, workers: 1, retries: 0, ${more} };\n`;

async function start(
  files: Record<string, string>,
  spec: SuiteSpec = {},
): Promise<{ ended: Promise<RunResult>; runId: number; token: number }> {
  using project = projectWith('npm', {
    'playwright.config.ts': '',
    'playwright.config.js': config(),
    ...files,
  });
  const job = await suiteJob(service, project.path, {
    configPath: 'playwright.config.js',
    streamLogs: true,
    ...spec,
  });
  await service.session();
  service.offer(job);
  const look = (): RunResult | undefined => service.results.find(({ runId }) => runId === job.runId);
  return { ended: until('the result', look, 2 * MINUTES), runId: job.runId, token: job.token };
}

const printed = (runId: number): string =>
  service.logs
    .filter((log) => log.runId === runId)
    .map(({ text }) => text)
    .join('');

function expectWhatWasDone(result: RunResult): void {
  const suite = suiteResult(result);
  expect(suite.tests.map(({ titlePath, status }) => `${titlePath.join()} ${status}`)).toEqual([
    'short 1 passed',
    'short 2 passed',
    'short 3 passed',
    'endless interrupted',
  ]);
  expect(suite.metrics).toMatchObject({ total: 5, passed: 3, interrupted: 1, notRun: 1 });
  const traces = result.artifacts?.filter(({ kind, state }) => kind === 'trace' && state === 'pending');
  expect(traces?.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['traces/short-1.zip', 'traces/short-2.zip', 'traces/short-3.zip']),
  );
  expect(suite.playwrightTestJsonReportFile).toBe('artifact:report.json');
}

describe.skipIf(missing !== undefined)('a suite that is cut', () => {
  test('by its limit keeps every finished test with its trace', async () => {
    const { ended } = await start({ 'a.spec.js': ENDLESS }, { timeoutSeconds: 25 });
    const result = await ended;
    expect(result.flags).toMatchObject({ hasFailures: true, isCancelled: false });
    expect(result.errors[0]).toMatchObject({ code: 'TIME_LIMIT' });
    expectWhatWasDone(result);
  });

  test('by a cancel keeps them, too, and ends within ten seconds', async () => {
    const { ended, runId, token } = await start({ 'a.spec.js': ENDLESS });
    await until('the endless test', () => printed(runId).includes('it begins'), MINUTES);
    const sentMs = performance.now();
    (await service.session()).send('cancel', { runs: [{ runId, token }], graceMs: 10_000 });
    const result = await ended;
    expect(performance.now() - sentMs).toBeLessThan(10_000);
    expect(result.flags).toMatchObject({ isCancelled: true, hasFailures: false, hasErrors: false });
    expectWhatWasDone(result);
  });

  test('while nothing in it ends by itself keeps them as well', async () => {
    const deaf = `${ENDLESS}process.on('SIGINT', () => {}); process.on('SIGTERM', () => {});`;
    const reporter = `process.removeAllListeners('SIGINT'); process.on('SIGINT', () => {});
module.exports = class { onEnd() { return new Promise(() => {}); } };`;
    const { ended, runId, token } = await start({
      'a.spec.js': deaf,
      'deaf.js': reporter,
      'playwright.config.js': config(`reporter: [['./deaf.js'], ['line']]`),
    });
    await until('the endless test', () => printed(runId).includes('it begins'), MINUTES);
    const sentMs = performance.now();
    (await service.session()).send('cancel', { runs: [{ runId, token }], graceMs: 10_000 });
    const result = await ended;
    expect(performance.now() - sentMs).toBeLessThan(10_000);
    expect(result.flags.isCancelled).toBe(true);
    expectWhatWasDone(result);
  });

  test('by its own globalTimeout says so', async () => {
    const files = { 'a.spec.js': ENDLESS, 'playwright.config.js': config('globalTimeout: 12_000') };
    const result = await (await start(files)).ended;
    expect(result.errors[0]).toMatchObject({
      code: 'GLOBAL_TIMEOUT',
      message: expect.stringContaining('globalTimeout'),
    });
  });
});

describe.skipIf(missing !== undefined)('a degraded suite', () => {
  const MARK = `require('node:fs').writeFileSync('degraded.json', JSON.stringify({ messages: ['slow search'] }));`;

  test('passes, or fails softly, and is degraded', async () => {
    const soft = `const { test, expect } = require('@playwright/test');
test('soft', () => { ${MARK} expect.soft(1).toBe(2); });`;
    const result = await (await start({ 'a.spec.js': soft })).ended;
    expect(result.flags).toMatchObject({ isDegraded: true, hasFailures: false });
    expect(suiteResult(result).degraded).toEqual(['slow search']);
  });

  test('that fails stays failed', async () => {
    const hard = `const { test, expect } = require('@playwright/test');
test('hard', () => { ${MARK} expect(1).toBe(2); });`;
    const result = await (await start({ 'a.spec.js': hard })).ended;
    expect(result.flags).toMatchObject({ isDegraded: false, hasFailures: true });
  });
});
