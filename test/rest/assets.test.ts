import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OpenArtifact, PART_BYTES, type Artifact } from '../../src/contract/index.ts';
import { derivedId } from '../../src/kit/ids.ts';
import { artifactId } from '../../src/service/store/index.ts';
import { post } from '../wire/client.ts';
import { failedBy, startAgent } from './agent.ts';
import { API_KEY, checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
let key: string;
let checkId: string;
let resultId: string;

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const entry = (name: string, kind: Artifact['kind'], contentType: string, bytes: Buffer): Artifact => ({
  name,
  kind,
  contentType,
  size: bytes.length,
  sha256: sha256(bytes),
  state: 'pending',
});

const trace = randomBytes(PART_BYTES + 1000);
const picture = Buffer.from('not really a picture');
const page = Buffer.from('<script>fetch("/v1/accounts")</script>');

const browserCheckResult = {
  type: 'PLAYWRIGHT',
  traceSummary: { consoleErrors: 1, networkErrors: 0, documentErrors: 0, userScriptErrors: 0 },
  pages: [{ url: 'https://shop.test/', screenshots: ['artifact:shots/login page.png'] }],
  errors: [{ message: 'artifact:trace.zip is what the script said' }],
  startTime: 1_795_222_800_000,
  endTime: 1_795_222_801_000,
  runtimeVersion: '2026.04',
  jobLog: [{ time: 1_795_222_800_500, msg: 'artifact:trace.zip', level: 'INFO' }],
  jobAssets: ['artifact:shots/login page.png', 'artifact:page.html'],
  playwrightTestTraces: ['artifact:trace.zip'],
  playwrightTestVideos: [],
  playwrightTestJsonReportFile: 'artifact:report.json',
};

beforeAll(async () => {
  service = await startTestService();
  const location = await service.location();
  key = location.key;
  const { body } = await service.post(
    '/v1/checks/url',
    checkBody('url', { locations: [], privateLocations: [location.slug], retryStrategy: null }),
  );
  checkId = body.id;
  const agent = await startAgent(service.url, key);
  await service.post('/v2/check-sessions/trigger', { target: { checkId } });
  const job = await agent.take();
  resultId = derivedId(job.sequenceId, job.attempt, job.token);
  await agent.finish(job, {
    ...failedBy('SCRIPT_ERROR', 'it failed', false),
    detail: { browserCheckResult },
    artifacts: [
      entry('trace.zip', 'trace', 'application/zip', trace),
      entry('shots/login page.png', 'screenshot', 'image/png', picture),
      entry('expected/login.png', 'snapshot', 'image/png', picture),
      entry('page.html', 'file', 'text/html', page),
      entry('report.json', 'report', 'application/json', Buffer.from('{}')),
      {
        ...entry('video.webm', 'video', 'video/webm', page),
        sha256: null,
        state: 'refused',
        reason: 'too big',
      },
    ],
  });
  agent.leave();
  await upload('trace.zip', trace);
  await upload('shots/login page.png', picture);
  await upload('page.html', page);
});
afterAll(async () => service.stop());

async function upload(name: string, bytes: Buffer): Promise<void> {
  const body = { resultId, name, size: bytes.length, sha256: sha256(bytes), contentType: 'x/y' };
  const opened = await post(`${service.url}${OpenArtifact.path}`, key, body);
  const { artifactId: id } = OpenArtifact.reply.parse(await opened.json());
  const authorization = `Bearer ${key}`;
  for (let n = 1; (n - 1) * PART_BYTES < bytes.length; n++) {
    const part = new Uint8Array(bytes.subarray((n - 1) * PART_BYTES, n * PART_BYTES));
    const headers = {
      authorization,
      'content-type': 'application/octet-stream',
      'x-part-sha256': sha256(part),
    };
    const url = `${service.url}/agent/v1/artifacts/${id}/parts/${n}`;
    expect((await fetch(url, { method: 'PUT', headers, body: part })).status).toBe(204);
  }
  const url = `${service.url}/agent/v1/artifacts/${id}/complete`;
  expect((await fetch(url, { method: 'POST', headers: { authorization } })).status).toBe(200);
}

const base = (): string => `/v1/check-results/${checkId}/${resultId}/assets`;
const urlOf = (name: string): string => `${service.url}${base()}/${artifactId(resultId, name)}`;

interface Listed {
  assets: Entry[];
  entriesTotal: number;
}
const list = async (query: Record<string, string | readonly string[]> = {}): Promise<string[]> => {
  const { status, body } = await service.get<Listed>(base(), query);
  expect(status).toBe(200);
  expect(body.entriesTotal).toBe(body.assets.length);
  return body.assets.map((each) => String(each['name']));
};

async function download(name: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(urlOf(name), { headers: { authorization: `Bearer ${API_KEY}`, ...headers } });
}

describe('the assets of a result', () => {
  test('are listed in the order of its manifest, with their state', async () => {
    const { body } = await service.get<Listed>(base());
    expect(body).toMatchObject({ truncated: false, entriesReturned: 6, entriesTotal: 6 });
    expect(body.assets[1]).toEqual({
      type: 'screenshot',
      name: 'shots/login page.png',
      url: urlOf('shots/login page.png'),
      contentType: 'image/png',
      size: picture.length,
      state: 'stored',
      reason: null,
      source: {
        type: 'check-result',
        checkId,
        checkName: 'a url check',
        checkType: 'URL',
        resultId,
      },
    });
    expect(body.assets.map(({ type, state, reason }) => [type, state, reason])).toEqual([
      ['trace', 'stored', null],
      ['screenshot', 'stored', null],
      ['screenshot', 'pending', null],
      ['file', 'stored', null],
      ['report', 'pending', null],
      ['video', 'refused', 'too big'],
    ]);
  });

  test('are filtered by types and by name', async () => {
    expect(await list({ type: 'screenshot' })).toEqual(['shots/login page.png', 'expected/login.png']);
    expect(await list({ type: ['trace', 'video'] })).toEqual(['trace.zip', 'video.webm']);
    expect(await list({ name: '*.png' })).toHaveLength(2);
    expect(await list({ name: 'shots/*', type: 'trace' })).toEqual([]);
  });

  test.each([
    [{ type: 'picture' }, 'type'],
    [{ name: 'x'.repeat(201) }, 'name'],
    [{ kind: 'log' }, 'kind'],
  ])('are not listed by %j', async (query, field) => {
    const { status, body } = await service.call('GET', base(), { query });
    expect([status, /^\w+/.exec(body.message)?.[0]]).toEqual([400, field]);
  });

  test('of an unknown result are 404', async () => {
    expect((await service.get(`/v1/check-results/${checkId}/${checkId}/assets`)).status).toBe(404);
    expect((await service.get(`/v1/check-results/${resultId}/${resultId}/assets`)).status).toBe(404);
  });
});

test('a result names its files by their addresses, and leaves alone what a script wrote', async () => {
  const { body } = await service.get(`/v1/check-results/${checkId}/${resultId}`);
  const picture = urlOf('shots/login page.png');
  expect(body['browserCheckResult']).toEqual({
    ...browserCheckResult,
    pages: [{ url: 'https://shop.test/', screenshots: [picture] }],
    jobAssets: [picture, urlOf('page.html')],
    playwrightTestTraces: [urlOf('trace.zip')],
    playwrightTestJsonReportFile: urlOf('report.json'),
  });
  const { body: listed } = await service.get<{ entries: Entry[] }>(`/v2/check-results/${checkId}`);
  expect(listed.entries[0]).toEqual(body);
});

describe('a download', () => {
  test('is the file, to be saved and with no rights in a browser', async () => {
    const response = await download('page.html');
    expect([response.status, await response.text()]).toEqual([200, page.toString()]);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/html',
      'content-length': String(page.length),
      'content-disposition': `attachment; filename="page.html"; filename*=UTF-8''page.html`,
      'content-security-policy': "default-src 'none'; sandbox",
      'x-content-type-options': 'nosniff',
      'accept-ranges': 'bytes',
    });
  });

  test('over several parts is whole, and in ranges too', async () => {
    const whole = await download('trace.zip');
    expect(Buffer.from(await whole.arrayBuffer()).equals(trace)).toBe(true);
    const etag = whole.headers.get('etag')!;
    const cases: [string, number, number][] = [
      ['bytes=0-0', 0, 1],
      [`bytes=${PART_BYTES - 2}-${PART_BYTES + 1}`, PART_BYTES - 2, PART_BYTES + 2],
      ['bytes=-10', trace.length - 10, trace.length],
      [`bytes=${PART_BYTES}-`, PART_BYTES, trace.length],
    ];
    for (const [range, start, end] of cases) {
      const part = await download('trace.zip', { range, 'if-range': etag });
      expect([part.status, part.headers.get('content-range')]).toEqual([
        206,
        `bytes ${start}-${end - 1}/${trace.length}`,
      ]);
      expect(Buffer.from(await part.arrayBuffer()).equals(trace.subarray(start, end))).toBe(true);
    }
    const beyond = await download('trace.zip', { range: `bytes=${trace.length}-` });
    expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, `bytes */${trace.length}`]);
    expect(await beyond.json()).toMatchObject({ statusCode: 416, error: 'Range Not Satisfiable' });
    expect((await download('trace.zip', { range: 'bytes=0-0', 'if-range': '"old"' })).status).toBe(200);
  });

  test('by HEAD has the headers only', async () => {
    const response = await fetch(urlOf('trace.zip'), {
      method: 'HEAD',
      headers: { authorization: `Bearer ${API_KEY}` },
    });
    expect([response.status, response.headers.get('content-length')]).toEqual([200, String(trace.length)]);
  });

  test('needs the API key', async () => {
    expect((await download('trace.zip', { authorization: '' })).status).toBe(401);
    expect((await download('trace.zip', { authorization: `Bearer ${key}` })).status).toBe(401);
  });

  test.each([
    ['report.json', 409, 'asset "report.json" is still on its way from the agent; ask again'],
    ['video.webm', 404, 'asset "video.webm" was not sent: too big'],
    ['none.png', 404, 'does not exist'],
  ])('of %s is %d', async (name, status, words) => {
    const response = await download(name);
    const { message } = (await response.json()) as { message: string };
    expect(response.status).toBe(status);
    expect(message).toContain(words);
  });
});
