import { afterAll, beforeAll, expect, test } from 'vitest';
import { metricsOf, type SuiteTest } from '../../src/checks/index.ts';
import type { RunResult } from '../../src/contract/index.ts';
import { failedBy, startAgent, type ScriptedAgent } from './agent.ts';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
let place: { slug: string; key: string };
let agent: ScriptedAgent;
let codeBundlePath: string;

beforeAll(async () => {
  service = await startTestService();
  place = await service.location();
  agent = await startAgent(service.url, place.key);
  codeBundlePath = await service.bundle();
});
afterAll(async () => {
  agent.leave();
  await service.stop();
});

const here = () => ({ locations: [], privateLocations: [place.slug], activated: false });

function suiteTest(title: string, error?: string): SuiteTest {
  return {
    id: title,
    project: 'chromium',
    file: 'shop.spec.ts',
    line: 1,
    column: 1,
    titlePath: ['shop', title],
    tags: [],
    status: error === undefined ? 'passed' : 'failed',
    duration: title.length,
    startTime: 0,
    retries: 0,
    errors: error === undefined ? [] : [{ message: error }],
    steps: [],
    attachments: [],
  };
}

/** As an agent sends it: each distinct error once, with the first test that had it. */
function found(tests: SuiteTest[], notRun = 0): Partial<RunResult> {
  const errors = new Map(
    tests.flatMap((each) =>
      each.errors.map((error) => [error.message, { ...error, test: each.titlePath.join(' › ') }]),
    ),
  );
  const suite = { tests, errors: [...errors.values()], metrics: metricsOf(tests, notRun) };
  const failed = errors.size === 0 ? {} : failedBy('TEST_FAILED', 'shop: failed', false);
  return { ...failed, detail: { playwrightCheckResult: suite } };
}

async function run(checkId: string, result: Partial<RunResult>): Promise<void> {
  const { body } = await service.post<{ sessions: Entry[] }>('/v2/check-sessions/trigger', {
    target: { checkId },
  });
  await agent.finish(await agent.take(), result);
  await service.get(`/v2/check-sessions/${String(body.sessions[0]!['checkSessionId'])}/completion`);
}

const makeSuite = async (change: object = {}): Promise<string> =>
  (
    await service.post(
      '/v1/checks/playwright',
      checkBody('playwright', { codeBundlePath, ...here(), ...change }),
    )
  ).body.id;

test('each distinct error of a suite is one group, however many tests had it', async () => {
  const checkId = await makeSuite();
  const tests = [
    suiteTest('login', 'expect(1).toBe(2)'),
    suiteTest('cart', 'expect(3).toBe(4)'),
    suiteTest('pay', 'locator.click: Timeout 30000ms exceeded.'),
    suiteTest('search'),
  ];
  await run(checkId, found(tests));
  const [result] = (await service.get<{ entries: Entry[] }>(`/v2/check-results/${checkId}`)).body.entries;
  expect(result!['errorGroupIds']).toHaveLength(2);
  const groups = (await service.get<Entry[]>(`/v1/error-groups/checks/${checkId}`)).body;
  expect(groups.map(({ id }) => id).toSorted()).toEqual((result!['errorGroupIds'] as string[]).toSorted());
  expect(groups.map((group) => String(group['cleanedErrorMessage'])).toSorted()).toEqual([
    'expect(<n>).toBe(<n>)',
    'locator.click: Timeout <n>ms exceeded.',
  ]);
  await run(checkId, found([suiteTest('login'), suiteTest('pay', 'expect(5).toBe(6)')]));
  const [again] = (await service.get<{ entries: Entry[] }>(`/v2/check-results/${checkId}`)).body.entries;
  expect(result!['errorGroupIds']).toEqual(expect.arrayContaining(again!['errorGroupIds'] as string[]));
  expect((await service.get<Entry[]>(`/v1/error-groups/checks/${checkId}`)).body).toHaveLength(2);
});

test('the state of a suite tells its tests by their outcome, and the slowest of them', async () => {
  const checkId = await makeSuite({ name: 'overview' });
  const path = `/v1/check-statuses/${checkId}`;
  expect((await service.get(path)).status).toBe(404);
  await run(checkId, found([suiteTest('a long title'), suiteTest('short', 'no')], 3));
  expect((await service.get(path)).body).toMatchObject({
    hasFailures: true,
    testMetrics: {
      total: 5,
      passed: 1,
      failed: 1,
      flaky: 0,
      skipped: 0,
      notRun: 3,
      testDuration: 17,
      slowest: [
        { title: 'shop › a long title', project: 'chromium', duration: 12 },
        { title: 'shop › short', project: 'chromium', duration: 5 },
      ],
    },
  });
  await run(checkId, { detail: { playwrightCheckResult: { metrics: { total: 'many' } } } });
  expect((await service.get(path)).body).toMatchObject({ hasFailures: false, testMetrics: null });
  const url = await service.post('/v1/checks/url', checkBody('url', here()));
  await run(url.body.id, {});
  const all = (await service.get<Entry[]>('/v1/check-statuses')).body;
  expect(all.find((each) => each['checkId'] === url.body.id)).toMatchObject({ testMetrics: null });
});
