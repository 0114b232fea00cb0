import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cancelled, degraded, failedBy, startAgent, type ScriptedAgent } from './agent.ts';
import { ACCOUNT, checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
let place: { slug: string; key: string };
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

interface Started {
  sessions: Entry[];
}
interface SessionEntry extends Entry {
  status: string;
  results: Entry[];
  runs: Entry[];
}

/** Deactivated, so that only the test starts it. */
async function makeCheck(change: object = {}): Promise<string> {
  const { body } = await service.post(
    '/v1/checks/url',
    checkBody('url', {
      activated: false,
      locations: [],
      privateLocations: [place.slug],
      retryStrategy: null,
      ...change,
    }),
  );
  return body.id;
}

async function trigger(target: object): Promise<string[]> {
  const { status, body } = await service.post<Started>('/v2/check-sessions/trigger', { target });
  expect(status).toBe(201);
  return body.sessions.map((session) => String(session['checkSessionId']));
}

const read = async (id: string): Promise<SessionEntry> =>
  (await service.get<SessionEntry>(`/v2/check-sessions/${id}`)).body;
const completion = async (id: string, maxWaitSeconds = 10) =>
  service.get<SessionEntry>(`/v2/check-sessions/${id}/completion`, { maxWaitSeconds });

describe('a triggered session', () => {
  test('shows what was started, then its run, then its result', async () => {
    const checkId = await makeCheck({ name: 'session check' });
    const { body } = await service.post<Started>('/v2/check-sessions/trigger', { target: { checkId } });
    expect(body.sessions).toEqual([
      {
        checkSessionId: expect.any(String),
        checkSessionLink: expect.stringContaining(`${service.url}/v2/check-sessions/`),
        checkId,
        checkType: 'URL',
        name: 'session check',
        status: 'STARTED',
        startedAt: expect.any(String),
        stoppedAt: null,
        timeElapsed: expect.any(Number),
        runLocations: [place.slug],
        runSource: 'TRIGGER_API',
      },
    ]);
    const id = String(body.sessions[0]!['checkSessionId']);
    const job = await agent.take();
    await expect.poll(async () => (await read(id)).status).toBe('PROGRESS');
    expect((await read(id)).runs).toEqual([
      {
        checkRunId: job.runId,
        sequenceId: job.sequenceId,
        runLocation: place.slug,
        state: 'RUNNING',
        attempts: 0,
        reason: null,
        message: null,
      },
    ]);
    const waiting = completion(id);
    await agent.finish(job);
    const done = await waiting;
    expect(done.status).toBe(200);
    expect(done.body).toMatchObject({ status: 'PASSED', stoppedAt: expect.any(String) });
    expect(done.body.runs).toMatchObject([{ state: 'FINISHED' }]);
    expect(done.body.results).toMatchObject([
      {
        checkId,
        runLocation: place.slug,
        sequenceId: job.sequenceId,
        resultType: 'FINAL',
        hasErrors: false,
        hasFailures: false,
        isDegraded: false,
        aborted: false,
        isCancelled: false,
      },
    ]);
    const link = String(done.body.results[0]!['checkResultLink']);
    const result = await service.get(link.replace(service.url, ''));
    expect(result.body.id).toBe(done.body.results[0]!['checkResultId']);
  });

  test('has one ATTEMPT per failed try and one FINAL', async () => {
    const retryStrategy = { type: 'FIXED', baseBackoffSeconds: 0, maxRetries: 2 };
    const [id] = await trigger({ checkId: await makeCheck({ retryStrategy }) });
    await agent.finish(await agent.take(), failedBy('ECONNREFUSED', 'refused'));
    await agent.finish(await agent.take(), failedBy('ECONNREFUSED', 'refused'));
    await agent.finish(await agent.take(), degraded);
    const { body } = await completion(id!);
    expect(body.status).toBe('DEGRADED');
    expect(body.results.map((each) => String(each['resultType'])).toSorted()).toEqual([
      'ATTEMPT',
      'ATTEMPT',
      'FINAL',
    ]);
    expect(new Set(body.results.map((each) => each['sequenceId'])).size).toBe(1);
    expect(body.runs).toMatchObject([{ state: 'FINISHED', attempts: 2 }]);
  });

  test('fails with its run', async () => {
    const [id] = await trigger({ checkId: await makeCheck() });
    await agent.finish(await agent.take(), failedBy('ENOTFOUND', 'no such name'));
    expect((await completion(id!)).body).toMatchObject({
      status: 'FAILED',
      results: [{ hasFailures: true, responseTime: null }],
    });
  });

  test('runs at every location of the check', async () => {
    const other = await service.location();
    const otherAgent = await startAgent(service.url, other.key);
    const [id] = await trigger({ checkId: await makeCheck({ privateLocations: [place.slug, other.slug] }) });
    await agent.pass(1);
    await expect.poll(async () => (await read(id!)).status).toBe('PROGRESS');
    await otherAgent.finish(await otherAgent.take(), failedBy('ECONNRESET', 'reset'));
    const { body } = await completion(id!);
    expect(body['runLocations']).toEqual([place.slug, other.slug]);
    expect(body.status).toBe('FAILED');
    expect(body.results).toHaveLength(2);
    otherAgent.leave();
  });

  test('names private locations before regions, so that the rotation begins where an agent is', async () => {
    const { slug } = await service.location();
    const here = { locations: ['eu-west-1'], privateLocations: [slug], activated: false };
    const { body } = await service.post('/v1/checks/url', checkBody('url', here));
    const target = { checkId: body.id };
    const started = await service.post<{ sessions: Entry[] }>('/v2/check-sessions/trigger', { target });
    expect(started.body.sessions[0]!['runLocations']).toEqual([slug, 'eu-west-1']);
  });
});

describe('waiting', () => {
  test('ends with 408 while the session is not final, and can be repeated', async () => {
    const [id] = await trigger({ checkId: await makeCheck() });
    const job = await agent.take();
    const before = performance.now();
    const { status, body } = await completion(id!, 1);
    expect(status).toBe(408);
    expect(body).toMatchObject({ statusCode: 408, error: 'Request Timeout' });
    expect(performance.now() - before).toBeGreaterThan(950);
    await agent.finish(job);
    expect((await completion(id!)).body.status).toBe('PASSED');
  });

  test.each([0, 31, 'x', 1.5])('for %s seconds is refused', async (maxWaitSeconds) => {
    const [id] = await trigger({ checkId: await makeCheck() });
    await agent.pass(1);
    const { status, body } = await service.get(`/v2/check-sessions/${id}/completion`, { maxWaitSeconds });
    expect(status).toBe(400);
    expect(body.message).toMatch(/^maxWaitSeconds: must be /);
  });
});

describe('triggers', () => {
  test('take tags: all of an inner list, any of the lists, activated checks only', async () => {
    const mark = `t${Date.now()}`;
    const active = { activated: true, frequency: 1440 };
    const both = await makeCheck({ ...active, tags: [mark, 'a', 'b'] });
    const onlyB = await makeCheck({ ...active, tags: [mark, 'b', 'c'] });
    await makeCheck({ tags: [mark, 'a', 'b'] });
    const started = async (matchTags: string[][]): Promise<string[]> => {
      const { body } = await service.post<Started>('/v2/check-sessions/trigger', { target: { matchTags } });
      return body.sessions.map((each) => String(each['checkId'])).toSorted();
    };
    expect(await started([[mark, 'a', 'b']])).toEqual([both]);
    expect(
      await started([
        [mark, 'a'],
        [mark, 'c'],
      ]),
    ).toEqual([both, onlyB].toSorted());
    for (const id of [both, onlyB]) await service.delete(`/v1/checks/${id}`);
  });

  test('without a target take every activated check, also without a body', async () => {
    const id = await makeCheck({ activated: true, frequency: 1440 });
    for (const body of [undefined, {}, { target: {} }]) {
      const answer = await service.post<Started>('/v2/check-sessions/trigger', body);
      expect(answer.body.sessions.map((each) => each['checkId'])).toEqual([id]);
    }
    await service.delete(`/v1/checks/${id}`);
  });

  test('at one instant start one session each', async () => {
    const checkId = await makeCheck();
    const ids = await Promise.all(Array.from({ length: 8 }, async () => trigger({ checkId })));
    expect(new Set(ids.flat()).size).toBe(8);
    await agent.pass(8);
  });

  test('take a list of ids', async () => {
    const ids = [await makeCheck(), await makeCheck()];
    const { body } = await service.post<Started>('/v2/check-sessions/trigger', { target: { checkId: ids } });
    expect(body.sessions.map((each) => String(each['checkId'])).toSorted()).toEqual(ids.toSorted());
    await agent.pass(2);
  });

  test('that match nothing, or name an unknown check, are 404', async () => {
    const unknown = '11111111-1111-4111-8111-111111111111';
    for (const target of [{ matchTags: [['no such tag']] }, { checkId: unknown }]) {
      expect((await service.post('/v2/check-sessions/trigger', { target })).status).toBe(404);
    }
  });

  test.each([
    [{ target: { checkId: 'x' } }, 'target.checkId: must be a UUID'],
    [{ target: { checkId: [] } }, 'target.checkId: '],
    [{ target: { matchTags: ['a'] } }, 'target.matchTags[0]: must be a list'],
    [{ target: { tags: [] } }, 'target.tags: is not a known field (allowed: matchTags, checkId)'],
    [[], 'body: must be an object'],
  ])('%j is refused', async (body, message) => {
    const answer = await service.post('/v2/check-sessions/trigger', body);
    expect(answer.status).toBe(400);
    expect(answer.body.message).toContain(message);
  });
});

describe('cancelling', () => {
  test('ends a queued run and the session', async () => {
    const empty = await service.location();
    const [id] = await trigger({ checkId: await makeCheck({ privateLocations: [empty.slug] }) });
    const { status, body } = await service.post(`/v1/check-sessions/${id}/cancel`);
    expect([status, body]).toEqual([204, undefined]);
    const session = (await completion(id!)).body;
    expect(session.status).toBe('CANCELLED');
    expect(session.runs).toMatchObject([{ state: 'CANCELLED' }]);
    const old = await service.get<SessionEntry>(`/v1/check-sessions/${id}`);
    expect(old.body.status).toBe('TIMED_OUT');
  });

  test('takes some sequences only', async () => {
    const [a, b] = [await service.location(), await service.location()];
    const [id] = await trigger({ checkId: await makeCheck({ privateLocations: [a.slug, b.slug] }) });
    const { runs } = await read(id!);
    const sequenceId = [runs[0]!['sequenceId']];
    expect((await service.post(`/v1/check-sessions/${id}/cancel`, { sequenceId })).status).toBe(204);
    expect((await read(id!)).runs.map((run) => run['state'])).toEqual(['CANCELLED', 'QUEUED']);
    expect((await service.post(`/v1/check-sessions/${id}/cancel`, {})).status).toBe(204);
    expect((await read(id!)).status).toBe('CANCELLED');
  });

  test('of a sequence that the session does not have is 404, and nothing is cancelled', async () => {
    const empty = await service.location();
    const [id] = await trigger({ checkId: await makeCheck({ privateLocations: [empty.slug] }) });
    const { runs } = await read(id!);
    const unknown = '11111111-1111-4111-8111-111111111111';
    const sequenceId = [String(runs[0]!['sequenceId']).toUpperCase(), unknown];
    const { status, body } = await service.post(`/v1/check-sessions/${id}/cancel`, { sequenceId });
    expect(status).toBe(404);
    expect(body.message).toBe(`sequenceId: this check session has no sequence "${unknown}"`);
    expect((await read(id!)).runs).toMatchObject([{ state: 'QUEUED' }]);
    sequenceId.pop();
    expect((await service.post(`/v1/check-sessions/${id}/cancel`, { sequenceId })).status).toBe(204);
    expect((await read(id!)).status).toBe('CANCELLED');
    expect((await service.post(`/v1/check-sessions/${id}/cancel`, { sequenceId })).status).toBe(204);
  });

  test('tells the agent that runs it', async () => {
    const [id] = await trigger({ checkId: await makeCheck() });
    const job = await agent.take();
    await service.post(`/v1/check-sessions/${id}/cancel`);
    await agent.finish(job, cancelled);
    const { body } = await completion(id!);
    expect(body).toMatchObject({ status: 'CANCELLED', results: [{ isCancelled: true }] });
  });

  test.each([
    [{ sequenceId: [] }, 'sequenceId: must have at least 1 items'],
    [{ sequenceId: 'x' }, 'sequenceId: must be a list'],
    [{ sequenceId: ['x'] }, 'sequenceId[0]: must be a UUID'],
    [{ sequenceIds: [] }, 'sequenceIds: is not a known field (allowed: sequenceId)'],
  ])('with %j is refused', async (body, message) => {
    const [id] = await trigger({ checkId: await makeCheck() });
    await agent.pass(1);
    const answer = await service.post(`/v1/check-sessions/${id}/cancel`, body);
    expect(answer.status).toBe(400);
    expect(answer.body.message).toBe(message);
  });
});

test('unknown sessions are 404 everywhere', async () => {
  for (const id of ['11111111-1111-4111-8111-111111111111', 'nonsense', ACCOUNT]) {
    for (const version of ['v1', 'v2']) {
      expect((await service.get(`/${version}/check-sessions/${id}`)).status).toBe(404);
      expect((await service.get(`/${version}/check-sessions/${id}/completion`)).status).toBe(404);
    }
    expect((await service.post(`/v1/check-sessions/${id}/cancel`)).status).toBe(404);
  }
});

describe('a run in a data-center location, which nobody serves', () => {
  const notServed = {
    runLocation: 'eu-west-1',
    state: 'TIMED_OUT',
    reason: 'LOCATION_NOT_SERVED',
    message:
      'Nobody serves this data-center location here: choose a private location with an agent of your own.',
  };

  test('ends as it begins, with its session', async () => {
    const [id] = await trigger({
      checkId: await makeCheck({ locations: ['eu-west-1'], privateLocations: [] }),
    });
    const { status, body } = await completion(id!, 1);
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'TIMED_OUT', results: [], runs: [notServed] });
    expect(body['stoppedAt']).not.toBeNull();
  });

  test('keeps no run of its session waiting', async () => {
    const { slug, key } = await service.location();
    const own = await startAgent(service.url, key);
    const here = { locations: ['eu-west-1'], privateLocations: [slug] };
    const [id] = await trigger({ checkId: await makeCheck(here) });
    const job = await own.take();
    const { runs } = await read(id!);
    expect(runs).toHaveLength(2);
    expect(runs).toContainEqual(expect.objectContaining({ runLocation: slug, state: 'RUNNING' }));
    expect(runs).toContainEqual(expect.objectContaining(notServed));
    await own.finish(job);
    own.leave();
    expect((await completion(id!)).body).toMatchObject({ status: 'TIMED_OUT', results: [{}] });
  });

  test('does not hold up the next tick of its check', async () => {
    const { slug, key } = await service.location();
    const own = await startAgent(service.url, key);
    const rhythm = { activated: true, frequency: 0, frequencyOffset: 1 };
    const locations = ['eu-west-1', 'us-east-1'];
    const checkId = await makeCheck({ ...rhythm, locations, privateLocations: [slug] });
    for (let runs = 0; runs < 2; runs++) {
      const job = await own.take();
      expect(job.checkId).toBe(checkId);
      await own.finish(job);
    }
    own.leave();
    await service.delete(`/v1/checks/${checkId}`);
  });
});

describe('a run that no agent takes', () => {
  let hasty: TestService;
  beforeAll(async () => {
    hasty = await startTestService({ QUEUE_EXPIRY_SECONDS: '1' });
  });
  afterAll(async () => hasty.stop());

  test('times out with the reason', async () => {
    const { slug } = await hasty.location();
    const made = await hasty.post(
      '/v1/checks/url',
      checkBody('url', { activated: false, locations: [], privateLocations: [slug] }),
    );
    const started = await hasty.post<Started>('/v2/check-sessions/trigger', {
      target: { checkId: made.body.id },
    });
    const id = String(started.body.sessions[0]!['checkSessionId']);
    const { body } = await hasty.get<SessionEntry>(`/v2/check-sessions/${id}/completion`);
    expect(body).toMatchObject({
      status: 'TIMED_OUT',
      results: [],
      runs: [
        {
          state: 'TIMED_OUT',
          reason: 'NO_AGENT_CONNECTED',
          message: 'No agent of this location was connected before the run expired.',
        },
      ],
    });
    const metrics = await (await fetch(`${hasty.url}/metrics`)).text();
    const counter = `vedette_location_runs_expired_total{location="${slug}",reason="NO_AGENT_CONNECTED"}`;
    expect(metrics).toContain(`${counter} 1`);
  });
});
