import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Job } from '../../src/contract/index.ts';
import { cancelled, failedBy, startAgent, type ScriptedAgent } from './agent.ts';
import { ACCOUNT, API_KEY, checkBody, startTestService, type Entry, type TestService } from './service.ts';

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

interface SessionEntry extends Entry {
  testSessionId: string;
  status: string;
  errorGroupIds: string[];
  results: Entry[];
}

/** Somewhere else and once a day, so that only the test runs it. */
const makeCheck = async (change: object = {}): Promise<string> => {
  const body = checkBody('url', { frequency: 1440, retryStrategy: null, ...change });
  return (await service.post('/v1/checks/url', body)).body.id;
};

const trigger = async (body: object) =>
  service.post<SessionEntry>('/v1/test-sessions/trigger', {
    name: 'nightly',
    runLocation: place.slug,
    ...body,
  });
const read = async (id: string): Promise<SessionEntry> =>
  (await service.get<SessionEntry>(`/v1/test-sessions/${id}`)).body;
const completion = async (id: string, maxWaitSeconds = 10) =>
  service.get<SessionEntry>(`/v1/test-sessions/${id}/completion`, { maxWaitSeconds });

const suiteJob = (change: object = {}) => ({
  checkType: 'PLAYWRIGHT',
  logicalId: 'suite',
  name: 'the suite',
  codeBundlePath,
  ...change,
});
interface Started extends Entry {
  schedulingId: string;
  testSessionId: string;
  sequenceIds: Record<string, string>;
  testResultIds: Record<string, string>;
}
const run = async (body: object = {}) =>
  service.post<Started>('/v1/test-sessions/run', {
    name: 'pw-test',
    runLocation: place.slug,
    checkRunJobs: [suiteJob()],
    ...body,
  });

describe('a triggered test session', () => {
  test('runs stored checks at its own place, and their own results stay as they are', async () => {
    const checkId = await makeCheck({
      name: 'tested',
      environmentVariables: [
        { key: 'A', value: 'check' },
        { key: 'B', value: 'check' },
      ],
    });
    const metadata = { environment: 'staging', branchName: 'main', commitId: 'abc' };
    const made = await trigger({
      target: { checkId: [checkId] },
      environmentVariables: [{ key: 'B', value: 'session' }],
      metadata,
    });
    expect(made.status).toBe(201);
    const { testSessionId: id, results } = made.body;
    expect(made.body).toMatchObject({
      testSessionLink: `${service.url}/v1/test-sessions/${id}`,
      name: 'nightly',
      status: 'RUNNING',
      errorGroupIds: [],
      stoppedAt: null,
      runSource: 'TRIGGER_RECORD',
      metadata,
    });
    expect(results).toHaveLength(1);
    expect(results[0]).toMatchObject({
      checkId,
      checkType: 'URL',
      name: 'tested',
      runLocation: place.slug,
      resultType: 'PENDING',
      status: 'RUNNING',
      aborted: false,
    });

    const job = await agent.take();
    expect(job).toMatchObject({ checkId, runSource: 'TRIGGER_RECORD', lane: 0, location: place.slug });
    expect(job.spec['environmentVariables']).toMatchObject([
      { key: 'A', value: 'check' },
      { key: 'B', value: 'session' },
    ]);
    const waiting = completion(id);
    await agent.finish(job, failedBy('ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:443'));
    const done = await waiting;
    expect(done.status).toBe(200);
    expect(done.body).toMatchObject({ status: 'FAILED', stoppedAt: expect.any(String) as string });
    expect(done.body.errorGroupIds).toHaveLength(1);
    const [final] = done.body.results;
    expect(final).toMatchObject({
      testSessionResultId: results[0]!['testSessionResultId'],
      resultType: 'FINAL',
      status: 'FAILED',
      hasFailures: true,
      errorGroupIds: done.body.errorGroupIds,
    });

    const path = `/v1/test-sessions/${id}/results/${String(final!['testSessionResultId'])}`;
    expect((await service.get(path)).body).toMatchObject({
      checkId,
      hasFailures: true,
      errorGroupIds: done.body.errorGroupIds,
    });
    expect((await service.get(`${path}/assets`)).body).toMatchObject({ assets: [], entriesTotal: 0 });
    expect((await service.get(`/v2/check-results/${checkId}`)).body).toMatchObject({ length: 0 });
    expect((await service.get(`/v1/check-statuses/${checkId}`)).status).toBe(404);
    expect((await service.get(`/v1/error-groups/checks/${checkId}`)).body).toEqual([]);
    const group = await service.get(`/v1/test-session-error-groups/${done.body.errorGroupIds[0]!}`);
    expect(group.body).toMatchObject({
      cleanedErrorMessage: 'connect ECONNREFUSED <n>.<n>:<n>',
      environments: ['staging'],
      projectId: null,
      pwtMetadata: null,
    });
    expect((await service.get(`/v1/error-groups/${group.body.id}`)).status).toBe(404);
  });

  test('repeats what fails only when asked to', async () => {
    const checkId = await makeCheck({ retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0 } });
    const once = await trigger({ target: { checkId } });
    await agent.finish(await agent.take(), failedBy('ECONNRESET', 'reset'));
    expect((await completion(once.body.testSessionId)).body.results).toHaveLength(1);
    const twice = await trigger({
      target: { checkId },
      retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0, maxRetries: 1 },
    });
    await agent.finish(await agent.take(), failedBy('ECONNRESET', 'reset'));
    await agent.finish(await agent.take());
    const { body } = await completion(twice.body.testSessionId);
    expect(body.status).toBe('PASSED');
    expect(body.results.map(({ resultType }) => resultType)).toEqual(['ATTEMPT', 'FINAL']);
  });

  test.each([
    [{ runLocation: 'nowhere' }, 400, 'runLocation: "nowhere" is neither a private location nor a region'],
    [{ target: { checkId: '11111111-1111-4111-8111-111111111111' } }, 404, 'does not exist'],
    [{ target: { matchTags: [['no-such-tag']] } }, 404, 'no check matches the target'],
    [{ retryStrategy: { type: 'SINGLE_RETRY' } }, 400, 'retryStrategy.type: must be one of FIXED'],
    [{ name: '' }, 400, 'name: must not be empty'],
  ])('is refused with %j', async (change, status, message) => {
    const answer = await trigger(change);
    expect(answer.body.message).toContain(message);
    expect(answer.status).toBe(status);
  });

  test('wants to be told that a check is deactivated', async () => {
    const checkId = await makeCheck({ activated: false, tags: ['asleep'] });
    const refused = await trigger({ target: { checkId } });
    expect(refused.body.message).toBe(
      `target.checkId: ${checkId} is deactivated; allowDeactivated lets it run`,
    );
    expect((await trigger({ target: { matchTags: [['asleep']] } })).status).toBe(404);
    const made = await trigger({ target: { matchTags: [['asleep']], allowDeactivated: true } });
    expect(made.status).toBe(201);
    await agent.finish(await agent.take());
    expect((await completion(made.body.testSessionId)).body.status).toBe('PASSED');
  });

  test('in a region that nobody serves says so at once', async () => {
    const made = await trigger({ runLocation: 'eu-west-1', target: { checkId: await makeCheck() } });
    expect(made.body).toMatchObject({ status: 'FAILED' });
    expect(made.body.results).toMatchObject([
      { resultType: 'FINAL', status: 'FAILED', aborted: true, hasErrors: true },
    ]);
    expect(made.body.results[0]!['message']).toMatch(/^Nobody serves this data-center location/);
  });
});

describe('a test session of a suite that is stored nowhere', () => {
  const log = async (text: string, job: Job): Promise<number> => {
    const { runId, token } = job;
    const answer = await fetch(`${service.url}/agent/v1/logs`, {
      method: 'POST',
      headers: { authorization: `Bearer ${place.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ runId, token, text }),
    });
    return answer.status;
  };

  test('tells its agent that somebody tests, and its reader what it prints', async () => {
    const started = await run({
      streamLogs: true,
      refreshCache: true,
      project: { logicalId: 'shop' },
      repoInfo: { branchName: 'feature' },
      environment: 'ci',
    });
    expect(started.status).toBe(202);
    const { testSessionId: id, sequenceIds, testResultIds, schedulingId } = started.body;
    const sequenceId = sequenceIds['suite']!;
    expect(testResultIds).toEqual(sequenceIds);
    const scheduling = await service.get(`/v1/test-sessions/scheduling/${schedulingId}/completion`);
    expect(scheduling.body).toMatchObject({ testSessionId: id, status: 'SUCCEEDED', checksTotal: 1 });
    const job = await agent.take();
    expect(job).toMatchObject({ runSource: 'TEST_RECORD', checkType: 'PLAYWRIGHT', sequenceId });
    expect(job.spec).toMatchObject({ isTestSession: true, streamLogs: true, refreshCache: true });

    const logPath = `/v1/test-sessions/${id}/results/${sequenceId}/log`;
    expect((await service.get(logPath)).body).toEqual({ entries: [], next: 0, isOver: false });
    const waiting = service.get<Entry & { next: number }>(logPath, { maxWaitSeconds: 10 });
    expect(await log('Running 2 tests\n', job)).toBe(204);
    const first = (await waiting).body;
    expect(first).toMatchObject({ entries: [{ shard: null, text: 'Running 2 tests\n' }], isOver: false });
    expect(await log('2 passed\0\ud800\n', job)).toBe(204);
    expect(await log('x', { ...job, token: job.token + 1 })).toBe(409);
    expect(await log('x'.repeat(65_537), job)).toBe(400);

    const error = { message: 'expect(received).toBe(2)\n\nReceived: 3' };
    await agent.finish(job, {
      ...failedBy('TEST_FAILED', error.message, false),
      detail: {
        playwrightCheckResult: {
          errors: [{ ...error, test: 'cart › adds', project: 'chromium' }],
          tests: [
            {
              id: '1',
              project: 'chromium',
              file: 'tests/cart.spec.ts',
              line: 3,
              column: 1,
              titlePath: ['cart', 'adds'],
              tags: [],
              status: 'failed',
              duration: 12,
              startTime: 0,
              retries: 0,
              errors: [error],
              steps: [],
              attachments: [],
            },
          ],
        },
      },
      artifacts: [
        {
          name: 'trace.zip',
          kind: 'trace',
          contentType: 'application/zip',
          size: 3,
          sha256: null,
          state: 'refused',
        },
      ],
    });
    const { body } = await completion(id);
    expect(body.status).toBe('FAILED');
    const rest = (await service.get(logPath, { after: first.next })).body;
    expect(rest).toMatchObject({ entries: [{ text: '2 passed\ufffd\ufffd\n' }], isOver: true });
    expect(await log('too late', job)).toBe(409);

    const groups = await service.get<Entry[]>('/v1/test-session-error-groups/projects/shop');
    expect(groups.body.map((group) => group.id)).toEqual(body.errorGroupIds);
    expect(groups.body).toMatchObject([
      {
        cleanedErrorMessage: 'expect(received).toBe(<n>) Received: <n>',
        environments: ['ci'],
        projectId: 'shop',
        pwtMetadata: [
          { projectName: 'chromium', testFile: 'tests/cart.spec.ts', testTitle: 'adds', suitePath: ['cart'] },
        ],
      },
    ]);
    const assets = await service.get<{ assets: { url: string; source: object }[] }>(
      `/v1/test-sessions/${id}/results/${sequenceId}/assets`,
    );
    expect(assets.body.assets).toMatchObject([
      { name: 'trace.zip', source: { type: 'test-session-result', checkId: null, testSessionId: id } },
    ]);
    const asset = await service.get(new URL(assets.body.assets[0]!.url).pathname);
    expect(asset.body.message).toMatch(/^asset "trace.zip" was not sent/);
  });

  test('is taken packed by gzip', async () => {
    const body = gzipSync(
      JSON.stringify({
        name: 'packed',
        checkRunJobs: [suiteJob()],
        runLocation: { type: 'PRIVATE', id: place.id, slugName: place.slug },
        shouldRecord: false,
      }),
    );
    const send = async (bytes: Buffer) =>
      fetch(`${service.url}/v1/test-sessions/run`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${API_KEY}`,
          'content-type': 'application/json',
          'content-encoding': 'gzip',
        },
        body: Uint8Array.from(bytes),
      });
    const answer = await send(body);
    expect(answer.status).toBe(202);
    expect((await agent.take()).runSource).toBe('TEST_NO_RECORD');
    expect((await send(Buffer.from('not packed'))).status).toBe(400);
    expect((await send(gzipSync(Buffer.alloc(9 * 1024 * 1024, 32)))).status).toBe(413);
  });

  test.each([
    [
      { checkRunJobs: [{ ...suiteJob(), checkType: 'AGENTIC' }] },
      'checkRunJobs[0].checkType: AGENTIC does not run here',
    ],
    [{ checkRunJobs: [suiteJobWith({ shards: 0 })] }, 'checkRunJobs[0].shards: must be at least 1'],
    [{ checkRunJobs: [suiteJobWith({ colour: 'red' })] }, 'colour: is not a known field'],
    [
      { checkRunJobs: [suiteJobWith({ codeBundlePath: `bundles/${'0'.repeat(64)}.tar.gz` })] },
      'checkRunJobs[0].codeBundlePath: no archive was uploaded with this key',
    ],
    [{ checkRunJobs: [] }, 'checkRunJobs: '],
    [
      { checkRunJobs: [suiteJobWith({}), suiteJobWith({})] },
      'checkRunJobs: must have a logicalId of its own each',
    ],
    [{ sharedFiles: [{ path: 'a', content: 'b' }] }, 'sharedFiles: must be empty'],
  ])('is refused with %j', async (change, message) => {
    const { status, body } = await run(change);
    expect(body.message).toContain(message);
    expect(status).toBe(400);
  });

  /** As suiteJob, before there is an archive. */
  function suiteJobWith(change: object): object {
    const key = `bundles/${'0'.repeat(64)}.tar.gz`;
    return { checkType: 'PLAYWRIGHT', logicalId: 'suite', name: 'x', codeBundlePath: key, ...change };
  }

  test('is cancelled; checks of other types end by themselves', async () => {
    const jobs = [suiteJob(), { ...checkBody('url'), checkType: 'URL', logicalId: 'url' }];
    const { body } = await run({ checkRunJobs: jobs });
    const { testSessionId: id, sequenceIds } = body;
    const [one, two] = [await agent.take(), await agent.take()];
    const suite = [one, two].find(({ checkType }) => checkType === 'PLAYWRIGHT')!;
    const url = [one, two].find(({ checkType }) => checkType === 'URL')!;
    const path = `/v1/test-sessions/${id}/cancel`;
    const other = await service.post(path, { sequenceId: ['11111111-1111-4111-8111-111111111111'] });
    expect(other.status).toBe(404);
    expect((await service.post(path, { sequenceId: [] })).status).toBe(400);
    expect((await service.post(path, { sequenceId: [sequenceIds['url']!] })).status).toBe(204);
    expect((await service.post(path)).status).toBe(204);
    expect((await read(id)).status).toBe('RUNNING');
    await agent.finish(suite, cancelled);
    expect((await read(id)).status).toBe('RUNNING');
    expect((await completion(id, 1)).status).toBe(408);
    await agent.finish(url);
    const done = (await completion(id)).body;
    expect(done.status).toBe('CANCELLED');
    const statuses = done.results.map(({ checkType, status, isCancelled }) => [
      checkType,
      status,
      isCancelled,
    ]);
    expect(statuses).toEqual(
      expect.arrayContaining([
        ['PLAYWRIGHT', 'CANCELLED', true],
        ['URL', 'PASSED', false],
      ]),
    );
    expect((await service.post(path)).status).toBe(204);
  });

  test('in parts is one result', async () => {
    const { body } = await run({ checkRunJobs: [suiteJob({ shards: 2, name: 'in parts' })] });
    const jobs = [await agent.take(), await agent.take()];
    expect(jobs.map(({ spec }) => spec['shard'])).toEqual([
      { index: 1, total: 2 },
      { index: 2, total: 2 },
    ]);
    await log('a', jobs[1]!);
    for (const job of jobs) await agent.finish(job);
    const { results, status } = (await completion(body.testSessionId)).body;
    expect(status).toBe('PASSED');
    expect(results).toHaveLength(1);
    expect(results[0]!['sequenceId']).toBe(body.sequenceIds['suite']);
    const path = `/v1/test-sessions/${body.testSessionId}/results/${body.sequenceIds['suite']!}`;
    expect((await service.get(`${path}/log`)).body).toMatchObject({
      entries: [{ shard: 2, text: 'a' }],
      isOver: true,
    });
    expect((await service.get(path)).body).toMatchObject({ sequenceId: body.sequenceIds['suite'] });
    const seen = () => service.results.filter(({ checkName }) => checkName === 'in parts');
    await expect.poll(seen).toHaveLength(1);
  });
});

describe('the list of test sessions', () => {
  interface List {
    length: number;
    entries: Entry[];
    nextId: string | null;
  }
  const list = async (query: Record<string, string | number | boolean | readonly string[]> = {}) =>
    (await service.get<List>('/v1/test-sessions', query)).body;
  const marked = `list-${Date.now()}`;

  beforeAll(async () => {
    for (const [at, branchName] of ['main', 'feature', 'main'].entries()) {
      const { body } = await run({
        name: `${marked} ${at}`,
        repoInfo: { branchName, commitMessage: `say ${at}` },
      });
      const job = await agent.take();
      await agent.finish(job, at === 0 ? failedBy('X', `${marked} broke`) : {});
      await completion(body.testSessionId);
    }
    await run({ name: `${marked} hidden`, shouldRecord: false });
    await agent.finish(await agent.take());
  });

  test('is newest first and in pages, without those that were not to be recorded', async () => {
    const all = await list({ textSearch: marked });
    expect(all.entries.map(({ name }) => name)).toEqual([2, 1, 0].map((at) => `${marked} ${at}`));
    expect(all.nextId).toBeNull();
    expect(all.entries[0]).toMatchObject({
      accountId: ACCOUNT,
      provider: 'API',
      status: 'PASSED',
      privateLocationId: place.id,
      region: null,
      branchName: 'main',
      commitMessage: 'say 2',
      running: [],
      failed: [],
      passed: [expect.any(String)],
    });
    const first = await list({ textSearch: marked, limit: 2 });
    const second = await list({ textSearch: marked, limit: 2, nextId: first.nextId! });
    expect([...first.entries, ...second.entries]).toEqual(all.entries);
    expect(second.nextId).toBeNull();
  });

  test('filters', async () => {
    const names = async (query: Record<string, string | readonly string[]>) =>
      (await list({ textSearch: marked, ...query })).entries.map(({ name }) => String(name).slice(-1));
    expect(await names({ statuses: ['FAILED'] })).toEqual(['0']);
    expect(await names({ branches: 'feature' })).toEqual(['1']);
    expect(await names({ providers: 'TRIGGER' })).toEqual([]);
    expect(await names({ users: 'somebody' })).toEqual([]);
    expect(await names({ from: '2100-01-01' })).toEqual([]);
    expect(await names({ to: '2100-01-01' })).toEqual(['2', '1', '0']);
    const [failed] = (await list({ textSearch: marked, statuses: ['FAILED'] })).entries;
    const [errorGroupId] = failed!['errorGroupIds'] as string[];
    expect(await names({ errorGroupId: errorGroupId! })).toEqual(['0']);
    expect((await service.get('/v1/test-sessions', { textSearch: 'ab' })).status).toBe(400);
  });

  test('knows nothing of what does not exist', async () => {
    for (const id of ['11111111-1111-4111-8111-111111111111', 'nonsense']) {
      for (const path of ['', '/completion', '/results/x', `/results/${id}/log`, `/results/${id}/assets`]) {
        expect((await service.get(`/v1/test-sessions/${id}${path}`)).status).toBe(404);
      }
      expect((await service.post(`/v1/test-sessions/${id}/cancel`)).status).toBe(404);
    }
  });
});

describe('error groups of checks', () => {
  const failing = async (checkId: string, message: string) => {
    const { body } = await service.post<{ sessions: Entry[] }>('/v2/check-sessions/trigger', {
      target: { checkId },
    });
    await agent.finish(await agent.take(), failedBy('ECONNRESET', message));
    await service.get(`/v2/check-sessions/${String(body.sessions[0]!['checkSessionId'])}/completion`);
  };
  const groupsOf = async (checkId: string) =>
    (await service.get<Entry[]>(`/v1/error-groups/checks/${checkId}`)).body;

  test('gather what failed alike, and are archived', async () => {
    const checkId = await makeCheck({ activated: false, locations: [], privateLocations: [place.slug] });
    await failing(checkId, 'socket 12 hung up');
    await failing(checkId, 'socket 13 hung up');
    const [group, ...others] = await groupsOf(checkId);
    expect(others).toEqual([]);
    expect(group).toMatchObject({
      checkId,
      rawErrorMessage: 'socket 13 hung up',
      cleanedErrorMessage: 'socket <n> hung up',
      archivedUntilNextEvent: false,
      rootCauseAnalyses: [],
    });
    const results = await service.get<{ entries: Entry[] }>(`/v2/check-results/${checkId}`);
    expect(results.body.entries.map(({ errorGroupIds }) => errorGroupIds)).toEqual([
      [group!.id],
      [group!.id],
    ]);
    const path = `/v1/error-groups/${group!.id}`;
    expect((await service.get(path)).body).toEqual(group);

    const patch = async (body: object) => service.call('PATCH', path, { body });
    expect((await patch({ archivedUntilNextEvent: true })).body).toMatchObject({
      archivedUntilNextEvent: true,
    });
    await failing(checkId, 'socket 14 hung up');
    expect(await groupsOf(checkId)).toMatchObject([{ archivedUntilNextEvent: false }]);
    expect((await patch({ archiveForEver: true })).status).toBe(200);
    expect(await groupsOf(checkId)).toEqual([]);
    expect((await patch({ archived: true })).status).toBe(400);

    await service.delete(`/v1/checks/${checkId}`);
    expect((await service.get(path)).status).toBe(404);
    expect((await service.get(`/v1/error-groups/checks/${checkId}`)).status).toBe(404);
  });
});
