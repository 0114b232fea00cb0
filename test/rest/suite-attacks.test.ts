import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startAgent, type ScriptedAgent } from './agent.ts';
import { API_KEY, checkBody, keyOf, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
let place: { id: string; slug: string; key: string };
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
/** Whatever was thrown at it, it serves on. */
afterEach(async () => {
  expect((await service.get('/v1/accounts/me')).status).toBe(200);
});

const job = (change: object = {}) => ({
  checkType: 'PLAYWRIGHT',
  logicalId: 'suite',
  name: 'the suite',
  codeBundlePath,
  ...change,
});
const run = async (body: object = {}) =>
  service.post('/v1/test-sessions/run', {
    name: 'attack',
    runLocation: place.slug,
    checkRunJobs: [job()],
    ...body,
  });

describe('bodies of test sessions', () => {
  test.each([
    [{ checkRunJobs: null }, 'checkRunJobs: '],
    [{ checkRunJobs: {} }, 'checkRunJobs: '],
    [{ checkRunJobs: [null] }, 'checkRunJobs[0]: '],
    [{ checkRunJobs: [[]] }, 'checkRunJobs[0]'],
    [{ checkRunJobs: [{}] }, 'checkRunJobs[0].checkType: '],
    [{ checkRunJobs: Array.from({ length: 201 }, (_, at) => ({ ...job(), logicalId: String(at) })) }, '200'],
    [{ runLocation: '' }, 'runLocation: '],
    [{ runLocation: ['x'] }, 'runLocation: '],
    [{ runLocation: { type: 'PRIVATE', slugName: { toString: 'x' } } }, 'runLocation'],
    [{ shouldRecord: 'no' }, 'shouldRecord: '],
    [{ name: 'x'.repeat(256) }, 'name: '],
    [{ name: 'a\0b' }, 'must not contain the NUL character'],
    [{ environment: { a: 1 } }, 'environment: '],
    [{ repoInfo: { commitMessage: 5 } }, 'repoInfo.commitMessage: '],
    [{ repoInfo: { more: 'x'.repeat(20_000) } }, 'repoInfo: must have at most 16000 characters as JSON'],
    [{ project: { logicalId: '' } }, 'project.logicalId: '],
  ])('with %j are refused', async (change, message) => {
    const { status, body } = await run(change);
    expect(body.message).toContain(message);
    expect(status).toBe(400);
  });

  test.each([
    [{ shards: 2.5 }, 'shards: '],
    [{ shards: '2' }, 'shards: '],
    [{ shards: null }, 'shards: '],
    [{ shard: { index: 1, total: 2 } }, 'shard: is not a known field'],
    [{ bundle: { sha256: 'a'.repeat(64), size: 1 } }, 'bundle: is not a known field'],
    [{ isTestSession: false }, 'isTestSession: is not a known field'],
    [{ codeBundlePath: '../../etc/passwd' }, 'codeBundlePath: must be the key'],
    [{ codeBundlePath: 5 }, 'codeBundlePath: '],
    [{ testCommand: 'a\u0007b' }, 'testCommand: must be one line'],
    [{ testCommand: '   ' }, 'testCommand: must not be empty'],
    [{ pwProjects: [''] }, 'pwProjects[0]: must not be empty'],
    [{ pwTags: Array(101).fill('@a') }, 'pwTags: '],
    [{ browsers: ['chromium; rm -rf /'] }, 'browsers[0]: must be a browser'],
    [{ cacheHash: '../x y' }, 'cacheHash: '],
    [{ workingDir: 'a/../../b' }, 'workingDir: '],
    [{ timeoutSeconds: 0 }, 'timeoutSeconds: '],
  ])('whose suite has %j are refused', async (change, message) => {
    const { status, body } = await run({ checkRunJobs: [job(change)] });
    expect(body.message).toContain(message);
    expect(status).toBe(400);
  });

  test('have a limit of their own, which is named', async () => {
    const { status, body } = await run({ padding: 'x'.repeat(9 * 1024 * 1024) });
    expect(status).toBe(413);
    expect(body.message).toBe('body: is too large; 8 MB is allowed');
  });
});

describe('lists and logs', () => {
  test.each([
    'x',
    'AAAA',
    '0'.repeat(200),
    '../../etc',
    "' or 1=1",
    Buffer.from('1/x').toString('base64url'),
  ])('the cursor %j is refused', async (nextId) => {
    const { status, body } = await service.get('/v1/test-sessions', { nextId });
    expect(status).toBe(400);
    expect(body.message).toBe('nextId: must be the nextId of an earlier answer of the same list');
  });

  test('a cursor of another list is refused', async () => {
    const check = await service.post(
      '/v1/checks/url',
      checkBody('url', { activated: false, locations: [], privateLocations: [place.slug] }),
    );
    for (let n = 0; n < 2; n++) {
      await service.post('/v2/check-sessions/trigger', { target: { checkId: check.body.id } });
      await agent.finish(await agent.take());
    }
    const results = await service.get<{ nextId: string }>(`/v2/check-results/${check.body.id}`, { limit: 1 });
    expect(results.body.nextId).toBeTypeOf('string');
    expect((await service.get('/v1/test-sessions', { nextId: results.body.nextId })).status).toBe(400);
  });

  type Query = Record<string, string | number>;
  test.each<Query>([
    { limit: 0 },
    { limit: 101 },
    { limit: '1e3' },
    { statuses: 'DONE' },
    { providers: 'NOBODY' },
    { textSearch: 'a\0bc' },
    { textSearch: 'x'.repeat(201) },
    { errorGroupId: 'x' },
    { from: 'yesterday' },
    { colour: 'red' },
  ])('the query %j is refused', async (query) => {
    expect((await service.get('/v1/test-sessions', query)).status).toBe(400);
  });

  test('a search for wildcards finds what is written so', async () => {
    await run({ name: '100%_sure\\' });
    const names = async (textSearch: string): Promise<unknown[]> =>
      (await service.get<{ entries: Entry[] }>('/v1/test-sessions', { textSearch })).body.entries.map(
        ({ name }) => name,
      );
    expect(await names('0%_s')).toEqual(['100%_sure\\']);
    expect(await names('sure\\')).toEqual(['100%_sure\\']);
    expect(await names('%%%')).toEqual([]);
    await agent.finish(await agent.take());
  });

  test('odd places in a log are refused, or empty', async () => {
    const { body } = await run();
    const { testSessionId, sequenceIds } = body as unknown as {
      testSessionId: string;
      sequenceIds: { suite: string };
    };
    const log = async (query: Query) =>
      service.get(`/v1/test-sessions/${testSessionId}/results/${sequenceIds.suite}/log`, query);
    const odd: Query[] = [{ after: -1 }, { after: 'x' }, { after: 2 ** 60 }, { maxWaitSeconds: 31 }];
    for (const query of odd) {
      expect((await log(query)).status, JSON.stringify(query)).toBe(400);
    }
    expect((await log({ after: Number.MAX_SAFE_INTEGER })).body).toEqual({
      entries: [],
      next: Number.MAX_SAFE_INTEGER,
      isOver: false,
    });
    await agent.finish(await agent.take());
  });

  test.each(['%00', '%2e%2e%2f', '%F0%9F%98%80', 'x'.repeat(400)])('the identifier %s is 404', async (id) => {
    for (const path of [
      `/v1/test-sessions/${id}`,
      `/v1/test-sessions/${id}/completion`,
      `/next/test-sessions/${id}/link`,
      `/v1/test-session-error-groups/${id}`,
      `/v1/triggers/checks/${id}`,
      `/v1/triggers/check-groups/${id}`,
    ]) {
      expect((await service.get(path)).status, path).toBe(404);
    }
    const groups = await service.get(`/v1/test-session-error-groups/projects/${id}`);
    expect(groups.status).toBe(id === '%00' ? 404 : 200);
  });
});

describe('an agent that does not keep to the rules', () => {
  const post = async (path: string, body: unknown, key = place.key): Promise<number> => {
    const answer = await fetch(service.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return answer.status;
  };

  test('writes no log of runs that it has not', async () => {
    await run({ streamLogs: true });
    const { runId, token } = await agent.take().then(async (taken) => {
      await agent.finish(taken);
      return taken;
    });
    expect(await post('/agent/v1/logs', { runId, token, text: 'late' })).toBe(409);
    expect(await post('/agent/v1/logs', { runId: 2 ** 52, token: 1, text: 'x' })).toBe(409);
    expect(await post('/agent/v1/logs', { runId, token: 2 ** 31, text: 'x' })).toBeOneOf([400, 409]);
    expect(await post('/agent/v1/logs', { runId: 'x', token, text: 'x' })).toBe(400);
    expect(await post('/agent/v1/logs', { runId, token, text: 'x' }, 'pl_nobody')).toBe(401);
  });

  test.each(['%00', '..%2f..%2fx', 'A'.repeat(64), "'", '0'.repeat(63)])(
    'fetches no archive named %s',
    async (name) => {
      const answer = await fetch(`${service.url}/agent/v1/bundles/${name}`, {
        headers: { authorization: `Bearer ${place.key}` },
      });
      expect(answer.status).toBeOneOf([400, 404]);
    },
  );
});

test('uploads whose headers lie are refused or taken as they are', async () => {
  const send = async (headers: Record<string, string>, body = Uint8Array.from([0x1f, 0x8b, 1])) =>
    (
      await fetch(`${service.url}/next/storage/upload-code-bundle`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${API_KEY}`,
          'content-type': 'application/octet-stream',
          ...headers,
        },
        body,
      })
    ).status;
  expect(await send({ 'content-encoding': 'gzip' })).toBe(415);
  expect(await send({ 'content-type': 'application/octet-stream; charset=x' })).toBeOneOf([201, 415]);
  expect(await send({ 'content-type': 'multipart/form-data; boundary=x' })).toBe(415);
  expect(await send({})).toBe(201);
  expect((await service.get('/next/storage/download', { key: keyOf(Buffer.from([1])) })).status).toBe(404);
});
