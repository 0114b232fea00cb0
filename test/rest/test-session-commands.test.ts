import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { failedBy, startAgent, type ScriptedAgent } from './agent.ts';
import {
  API_KEY,
  checkBody,
  EMPTY_BUNDLE,
  startTestService,
  type Entry,
  type TestService,
} from './service.ts';

let service: TestService;
let place: { id: string; slug: string; key: string };
let agent: ScriptedAgent;

beforeAll(async () => {
  service = await startTestService();
  place = await service.location();
  agent = await startAgent(service.url, place.key);
});
afterAll(async () => {
  agent.leave();
  await service.stop();
});

interface Triggered extends Entry {
  checks: Entry[];
  testSessionId: string;
  testResultIds: Record<string, string>;
  sequenceIds: Record<string, string>;
}

const trigger = async (body: object = {}) =>
  service.post<Triggered>('/next/test-sessions/trigger', {
    name: 'by hand',
    shouldRecord: true,
    runLocation: { type: 'PRIVATE', id: place.id, slugName: place.slug },
    checkRunSuiteId: 'a-b-c',
    targetTags: [],
    environmentVariables: [],
    repoInfo: null,
    environment: null,
    testRetryStrategy: null,
    refreshCache: false,
    ...body,
  });
const makeCheck = async (change: object = {}): Promise<string> =>
  (await service.post('/v1/checks/url', checkBody('url', { frequency: 1440, ...change }))).body.id;

describe('a test session that a command triggers', () => {
  test('runs the checks with the tags, and tells the sequence of each', async () => {
    const checkId = await makeCheck({ name: 'tagged', tags: ['shop', 'smoke'] });
    await makeCheck({ tags: ['shop'] });
    const { status, body } = await trigger({
      targetTags: [['shop', 'smoke']],
      environment: 'staging',
      repoInfo: { branchName: 'main' },
    });
    expect(status).toBe(201);
    expect(body.checks).toMatchObject([{ id: checkId, name: 'tagged', checkType: 'URL' }]);
    expect(Object.keys(body.sequenceIds)).toEqual([checkId]);
    expect(body.testResultIds).toEqual(body.sequenceIds);
    const job = await agent.take();
    expect(job).toMatchObject({
      checkId,
      runSource: 'TRIGGER_RECORD',
      sequenceId: body.sequenceIds[checkId],
    });
    await agent.finish(job);
    const session = await service.get(`/v1/test-sessions/${body.testSessionId}/completion`);
    expect(session.body).toMatchObject({
      status: 'PASSED',
      metadata: { environment: 'staging', branchName: 'main' },
    });
  });

  test('is in no list when it is not to be recorded', async () => {
    const checkId = await makeCheck();
    const { body } = await trigger({ checkId: [checkId], shouldRecord: false, name: 'unrecorded' });
    const job = await agent.take();
    expect(job.runSource).toBe('TRIGGER_NO_RECORD');
    await agent.finish(job);
    expect((await service.get(`/v1/test-sessions/${body.testSessionId}`)).status).toBe(200);
    const list = await service.get('/v1/test-sessions', { textSearch: 'unrecorded' });
    expect(list.body).toMatchObject({ length: 0 });
  });

  test('that nothing matches is told apart from what is forbidden', async () => {
    const { status, body } = await trigger({ targetTags: [['no-such-tag']] });
    expect(status).toBe(403);
    expect(body).toEqual({
      statusCode: 403,
      error: 'Forbidden',
      message: 'no check matches the target',
      errorCode: 'ERR_NO_MATCHING_CHECKS',
    });
  });

  test.each([
    [{ runLocation: { type: 'PRIVATE', slugName: 'nowhere' } }, 400, 'runLocation: "nowhere" is neither'],
    [{ runLocation: { type: 'MOON' } }, 400, 'runLocation: '],
    [{ checkId: ['11111111-1111-4111-8111-111111111111'] }, 404, 'does not exist'],
    [{ targetTags: 'shop' }, 400, 'targetTags: must be a list'],
    [{ colour: 'red' }, 400, 'colour: is not a known field'],
  ])('is refused with %j', async (change, status, message) => {
    const answer = await trigger({ targetTags: [['shop']], ...change });
    expect(answer.body.message).toContain(message);
    expect(answer.status).toBe(status);
  });
});

test('a session and its results have links to hand on', async () => {
  const checkId = await makeCheck();
  const { body } = await trigger({ checkId: [checkId] });
  const { testSessionId: id, sequenceIds } = body;
  const link = await service.get(`/next/test-sessions/${id}/link`);
  expect(link.body).toEqual({ link: `${service.url}/v1/test-sessions/${id}` });
  const job = await agent.take();
  const file = { contentType: 'application/zip', size: 3, sha256: null, state: 'refused' } as const;
  await agent.finish(job, {
    ...failedBy('TEST_FAILED', 'no', false),
    artifacts: [
      { ...file, name: 'traces/a.zip', kind: 'trace' },
      { ...file, name: 'videos/a.webm', kind: 'video' },
      { ...file, name: 'a.png', kind: 'screenshot' },
      { ...file, name: 'a-diff.png', kind: 'snapshot' },
      { ...file, name: 'report.json', kind: 'report' },
    ],
  });
  const path = `/test-sessions/${id}/results/${sequenceIds[checkId]!}`;
  const links = await service.get<Record<string, string[]>>(`/next${path}/links`);
  const url = `${service.url}/v1${path}`;
  expect(links.body).toEqual({
    testResultLink: url,
    testTraceLinks: [expect.stringContaining(`${url}/assets/`)],
    videoLinks: [expect.stringContaining(`${url}/assets/`)],
    screenshotLinks: [expect.any(String), expect.any(String)],
  });
  const nobody = '11111111-1111-4111-8111-111111111111';
  expect((await service.get(`/next/test-sessions/${nobody}/link`)).status).toBe(404);
  expect((await service.get(`/next/test-sessions/${id}/results/${nobody}/links`)).status).toBe(404);
});

test('an archive comes back as it was sent, whole and in part', async () => {
  const key = await service.bundle();
  const read = async (wanted: string, headers: object = {}) =>
    fetch(`${service.url}/next/storage/download?key=${encodeURIComponent(wanted)}`, {
      headers: { authorization: `Bearer ${API_KEY}`, ...headers },
    });
  const whole = await read(key);
  expect(whole.headers.get('content-disposition')).toContain(key.slice('bundles/'.length));
  expect(EMPTY_BUNDLE.equals(Buffer.from(await whole.arrayBuffer()))).toBe(true);
  const part = await read(key, { range: 'bytes=2-5' });
  expect([part.status, Buffer.from(await part.arrayBuffer())]).toEqual([206, EMPTY_BUNDLE.subarray(2, 6)]);
  for (const wrong of [
    '',
    '../../etc/passwd',
    key.replace('.gz', '.zst'),
    `bundles/${'0'.repeat(64)}.tar.gz`,
  ]) {
    expect((await read(wrong)).status, wrong).toBe(404);
  }
});
