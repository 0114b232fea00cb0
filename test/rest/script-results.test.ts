import { afterAll, beforeAll, expect, test } from 'vitest';
import { reportOf, type RunFacts } from '../../src/agent/scripts/report.ts';
import type { CollectedFile } from '../../src/agent/ports.ts';
import type { Artifact, Job } from '../../src/contract/index.ts';
import { artifactId } from '../../src/service/store/index.ts';
import { startAgent, type ScriptedAgent } from './agent.ts';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
let slug: string;
let agent: ScriptedAgent;

beforeAll(async () => {
  service = await startTestService();
  const place = await service.location();
  ({ slug } = place);
  agent = await startAgent(service.url, place.key);
});
afterAll(async () => {
  agent.leave();
  await service.stop();
});

const START = Date.UTC(2026, 0, 1);
const file = (kind: CollectedFile['kind'], name: string): CollectedFile => ({
  name,
  kind,
  contentType: 'application/octet-stream',
  size: 1,
  sha256: '0'.repeat(64),
  path: '/nowhere',
});
const files = [
  file('screenshot', 'page 1.png'),
  file('trace', 'trace.zip'),
  file('video', 'video.webm'),
  file('report', 'report.json'),
];
const facts: Omit<RunFacts, 'checkType' | 'detail'> = {
  runtimeId: '2026.04',
  judged: {
    verdict: 'failed',
    errors: [{ message: 'no button', stack: 'Error: no button\n    at /script.js:3:1' }],
    failures: [{ code: 'SCRIPT_FAILED', message: 'no button', network: false }],
    isLate: false,
  },
  startTime: START,
  endTime: START + 2500,
  log: [{ time: START, msg: 'see artifact:trace.zip', level: 'INFO' }],
  files,
  eventLoopDelayMs: 2,
};
const detail = {
  traceSummary: { consoleErrors: 1, networkErrors: 2, documentErrors: 0, userScriptErrors: 1 },
  pages: [
    {
      url: 'https://shop.test/',
      webVitals: { LCP: { score: 'GOOD', value: 812.5 } },
      pageTimings: { onLoad: 930 },
      responseSizes: { document: 1024 },
    },
  ],
  requests: [{ method: 'GET', url: 'https://shop.test/api', status: 200, timings: {} }],
};

/** The result of one run, as a client reads it, after the agent reported what it does report. */
async function resultOf(route: 'browser' | 'multistep', report: Pick<RunFacts, 'checkType' | 'detail'>) {
  const here = { activated: false, locations: [], privateLocations: [slug], retryStrategy: null };
  const { id: checkId } = (await service.post(`/v1/checks/${route}`, checkBody(route, here))).body;
  await service.post('/v2/check-sessions/trigger', { target: { checkId } });
  const job: Job = await agent.take();
  const artifacts = files.map(({ name, kind, contentType, size, sha256 }): Artifact => {
    return { name, kind, contentType, size, sha256, state: 'pending' };
  });
  await agent.finish(job, { ...reportOf({ ...facts, ...report }), artifacts });
  const page = await service.get<{ entries: Entry[] }>(`/v2/check-results/${checkId}`, {
    checkType: job.checkType,
  });
  const [entry] = page.body.entries;
  const single = await service.get(`/v1/check-results/${checkId}/${entry!.id}`);
  expect(single.body).toEqual(entry);
  const assets = `${service.url}/v1/check-results/${checkId}/${entry!.id}/assets`;
  return { entry: entry!, linkTo: (name: string) => `${assets}/${artifactId(entry!.id, name)}` };
}

const COMMON = {
  hasFailures: true,
  hasErrors: false,
  startedAt: '2026-01-01T00:00:00.000Z',
  stoppedAt: '2026-01-01T00:00:02.500Z',
  responseTime: 2500,
  apiCheckResult: null,
  errors: facts.judged.failures,
};

test('a browser result is shown in the members of the interface, its files as addresses', async () => {
  const { entry, linkTo } = await resultOf('browser', { checkType: 'BROWSER', detail });
  expect(entry).toMatchObject({ ...COMMON, multiStepCheckResult: null });
  expect(entry['browserCheckResult']).toEqual({
    type: 'PLAYWRIGHT',
    ...detail,
    errors: facts.judged.errors,
    startTime: START,
    endTime: START + 2500,
    runtimeVersion: '2026.04',
    jobLog: facts.log,
    jobAssets: [linkTo('page 1.png')],
    playwrightTestTraces: [linkTo('trace.zip')],
    playwrightTestVideos: [linkTo('video.webm')],
    playwrightTestJsonReportFile: linkTo('report.json'),
  });
});

test('a multistep result has its own place, and no members of a browser', async () => {
  const { requests } = detail;
  const { entry, linkTo } = await resultOf('multistep', { checkType: 'MULTI_STEP', detail: { requests } });
  expect(entry).toMatchObject({ ...COMMON, browserCheckResult: null });
  expect(entry['multiStepCheckResult']).toEqual({
    requests,
    errors: facts.judged.errors,
    startTime: START,
    endTime: START + 2500,
    runtimeVersion: '2026.04',
    jobLog: facts.log,
    jobAssets: [linkTo('page 1.png')],
    playwrightTestTraces: [linkTo('trace.zip')],
    playwrightTestJsonReportFile: linkTo('report.json'),
  });
});
