import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startAgentProcess, startServiceProcess } from '../test/support/processes.ts';
import {
  finished,
  lastSuiteResult,
  makeLocation,
  resultsOf,
  trigger,
  uploadBundle,
  type Rest,
} from '../test/support/rest.ts';
import { archiveOf, projectWith } from '../test/support/suites.ts';
import { quantile } from './measure.ts';

/** Three minutes stand for 45. */
const SUITE_MS = 180_000;
const ALONE_MS = 60_000;
const EVERY_S = 10;
const CHECKS = 6;
/** Before the first results are in. */
const SETTLE_MS = 15_000;
/** What a check may be late with a suite beside it. */
const MOST_LATE_MS = 2_000;

/** Two workers that are never idle. */
const suiteSpec = (address: string, ms: number): string => `import { expect, test } from '@playwright/test';
test.describe.configure({ mode: 'parallel' });
for (const n of [1, 2]) {
  test('works without a break ' + n, async ({ page }) => {
    test.setTimeout(0);
    for (const end = Date.now() + ${ms}; Date.now() < end;) {
      await page.goto('${address}');
      await expect(page.locator('h1')).toHaveText('lanes');
      await page.evaluate(() => { for (const end = performance.now() + 50; performance.now() < end;); });
    }
  });
}
`;
const BROWSER_SPEC = (address: string): string => `import { expect, test } from '@playwright/test';
test('looks', async ({ page }) => {
  await page.goto('${address}');
  await expect(page.locator('h1')).toHaveText('lanes');
});`;

interface Stretch {
  fromMs: number;
  toMs: number;
}

/**
 * `npm run bench suites-lanes`: checks of ten seconds and a browser check on one agent, with and without a
 * long suite beside them. Prints how late each was; exits non-zero when somebody starved.
 */
export async function suitesLanes(suiteMs = SUITE_MS): Promise<boolean> {
  const target = await startTarget();
  const address = `http://127.0.0.1:${(target.address() as AddressInfo).port}/`;
  const folder = mkdtempSync(join(tmpdir(), 'lanes-'));
  const service = await startServiceProcess({ dataDir: folder, databaseUrl: undefined }, {});
  try {
    const { rest } = service;
    const { key } = await makeLocation(rest, 'lanes');
    const agent = await startAgentProcess(service.url, key);
    const suiteId = await makeSuite(rest, address, suiteMs);
    const urls = await Promise.all(
      Array.from({ length: CHECKS }, (_, n) =>
        makeActive(rest, 'url', {
          name: `url ${n}`,
          frequency: 0,
          frequencyOffset: EVERY_S,
          request: { url: address },
        }),
      ),
    );
    const browser = await makeActive(rest, 'browser', {
      name: 'browser',
      frequency: 1,
      script: BROWSER_SPEC(address),
    });
    await delay(SETTLE_MS);
    const alone = await stretch(() => delay(ALONE_MS));
    const [session] = await trigger(rest, suiteId);
    const beside = await stretch(() => finished(rest, session!, suiteMs + 240_000));
    const suite = await lastSuiteResult(rest, suiteId);
    const wrong: string[] = [];
    const [before, during] = await Promise.all([alone, beside].map((each) => report(rest, urls, each)));
    const [browserBefore, browserDuring] = await Promise.all(
      [alone, beside].map((each) => report(rest, [browser], each, 60)),
    );
    print('url checks without a suite', before!);
    print('url checks beside a suite', during!);
    print('browser check without a suite', browserBefore!);
    print('browser check beside a suite', browserDuring!);
    const took = (beside.toMs - beside.fromMs) / 1000;
    console.log(
      `the suite: ${took.toFixed(0)} s for ${suiteMs / 1000} s of work, ${JSON.stringify(suite.metrics)}`,
    );
    if (suite.metrics.passed !== 2)
      wrong.push(`the suite: ${suite.error?.message ?? 'not every test passed'}`);
    if (during!.missed > 0) wrong.push(`${during!.missed} runs of url checks were left out`);
    if (during!.failed > 0) wrong.push(`${during!.failed} url checks did not pass`);
    const lateMs = quantile(during!.lateMs, 0.95);
    if (lateMs > MOST_LATE_MS) wrong.push(`url checks were late by ${Math.round(lateMs)} ms`);
    if (browserDuring!.runs === 0 || browserDuring!.failed > 0) wrong.push('the browser check starved');
    const code = await agent.stop();
    if (code !== 0) wrong.push(`the agent ended with ${code}`);
    for (const each of wrong) console.log(`WRONG ${each}`);
    return wrong.length === 0;
  } finally {
    await service.stop();
    target.close();
    target.closeAllConnections();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startTarget(): Promise<Server> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>lanes</title><h1>lanes</h1>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function makeActive(rest: Rest, route: string, fields: object): Promise<string> {
  const { id } = await rest.call<{ id: string }>('POST', `/v1/checks/${route}`, {
    activated: true,
    privateLocations: ['lanes'],
    retryStrategy: null,
    doubleCheck: false,
    ...fields,
  });
  return id;
}

async function makeSuite(rest: Rest, address: string, ms: number): Promise<string> {
  using project = projectWith('npm', {
    'tests/pages.spec.ts': suiteSpec(address, ms),
    'playwright.config.ts': `export default { testDir: './tests', workers: 2, retries: 0, use: { trace: 'off' } };`,
  });
  const codeBundlePath = await uploadBundle(rest, await archiveOf(project.path));
  const { id } = await rest.call<{ id: string }>('POST', '/v1/checks/playwright', {
    name: 'a long suite',
    activated: false,
    privateLocations: ['lanes'],
    codeBundlePath,
  });
  return id;
}

async function stretch(work: () => Promise<unknown>): Promise<Stretch> {
  const fromMs = Date.now();
  await work();
  return { fromMs, toMs: Date.now() };
}

interface Report {
  runs: number;
  missed: number;
  failed: number;
  lateMs: number[];
  tookMs: number[];
}

/** Runs come every so many seconds; the one that was earliest in its turn sets the time of all. */
function latenessOf(starts: readonly number[], everyMs: number): (startMs: number) => number {
  const [any = 0] = starts;
  const offset = (startMs: number): number => {
    const after = (((startMs - any) % everyMs) + everyMs) % everyMs;
    return after > everyMs / 2 ? after - everyMs : after;
  };
  const earliest = Math.min(...starts.map(offset));
  return (startMs) => offset(startMs) - earliest;
}

async function report(
  rest: Rest,
  checks: readonly string[],
  within: Stretch,
  everyS = EVERY_S,
): Promise<Report> {
  const found: Report = { runs: 0, missed: 0, failed: 0, lateMs: [], tookMs: [] };
  const everyMs = everyS * 1000;
  for (const check of checks) {
    const all = (await resultsOf(rest, check)).map((entry) => ({
      startMs: Date.parse(String(entry['startedAt'])),
      stopMs: Date.parse(String(entry['stoppedAt'])),
      failed: entry.hasFailures || entry.hasErrors,
    }));
    const lateMs = latenessOf(
      all.map(({ startMs }) => startMs),
      everyMs,
    );
    const mine = all.filter(({ startMs }) => startMs >= within.fromMs && startMs < within.toMs);
    found.runs += mine.length;
    found.failed += mine.filter(({ failed }) => failed).length;
    // The first and the last may lie outside by chance.
    found.missed += Math.max(0, Math.floor((within.toMs - within.fromMs) / everyMs) - 1 - mine.length);
    found.lateMs.push(...mine.map(({ startMs }) => lateMs(startMs)));
    found.tookMs.push(...mine.map(({ startMs, stopMs }) => stopMs - startMs));
  }
  return found;
}

function print(name: string, { runs, missed, failed, lateMs, tookMs }: Report): void {
  const of = (values: readonly number[]): string =>
    values.length === 0 ? '-' : [0.5, 0.95, 1].map((q) => Math.round(quantile(values, q))).join('/');
  console.log(
    `${name}: ${runs} runs, ${missed} left out, ${failed} not passed; late by ${of(lateMs)} ms, took ${of(tookMs)} ms (median/95 %/most)`,
  );
}

if (import.meta.main) process.exit((await suitesLanes(Number(process.argv[2] ?? SUITE_MS))) ? 0 : 1);
