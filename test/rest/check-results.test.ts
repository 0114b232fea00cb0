import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { degraded, failedBy, startAgent, type ScriptedAgent } from './agent.ts';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

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

interface Page {
  length: number;
  entries: Entry[];
  nextId: string | null;
  message: string;
}

async function makeCheck(change: object = {}): Promise<string> {
  const here = { locations: [], privateLocations: [place.slug], activated: false, retryStrategy: null };
  const { body } = await service.post('/v1/checks/url', checkBody('url', { ...here, ...change }));
  return body.id;
}

/** One run whose result begins at this second after the start of 2026. */
async function run(checkId: string, second: number, change: object = {}): Promise<void> {
  await service.post('/v2/check-sessions/trigger', { target: { checkId } });
  const at = new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
  await agent.finish(await agent.take(), { startedAt: at, stoppedAt: at, ...change });
}
const START = Date.UTC(2026, 0, 1) / 1000;

const list = async (checkId: string, query: Record<string, string | number | boolean> = {}) =>
  service.get<Page>(`/v2/check-results/${checkId}`, query);
const seconds = (entries: readonly Entry[]): number[] =>
  entries.map((each) => Date.parse(String(each['startedAt'])) / 1000 - START);

describe('an entry', () => {
  test('carries everything that the run found out', async () => {
    const checkId = await makeCheck({ name: 'entry' });
    const detail = {
      apiCheckResult: { requestError: 'connect ECONNREFUSED', response: null, odd: '\u{1F600}' },
    };
    const measured = { eventLoopDelayMs: 3.5, resolvedAddress: '192.0.2.7' };
    const stoppedAt = '2026-01-01T00:00:01.250Z';
    const failed = failedBy('ECONNREFUSED', 'refused by 192.0.2.7');
    await run(checkId, 1, { ...failed, stoppedAt, detail, measured });
    const { body } = await list(checkId);
    expect(body).toMatchObject({ length: 1, nextId: null });
    expect(body.entries[0]).toEqual({
      id: expect.any(String),
      name: 'entry',
      checkId,
      hasFailures: true,
      hasErrors: false,
      isDegraded: false,
      isCancelled: false,
      overMaxResponseTime: false,
      runLocation: place.slug,
      startedAt: '2026-01-01T00:00:01.000Z',
      stoppedAt,
      created_at: expect.any(String),
      // What the interface types as a number and an object is one, also when nothing answered.
      responseTime: 250,
      apiCheckResult: { ...detail.apiCheckResult, response: {} },
      tcpCheckResult: null,
      dnsCheckResult: null,
      icmpCheckResult: null,
      browserCheckResult: null,
      multiStepCheckResult: null,
      agenticCheckResult: null,
      playwrightCheckResult: null,
      checkRunId: expect.any(Number),
      attempts: 0,
      resultType: 'FINAL',
      sequenceId: expect.any(String),
      traceId: null,
      errorGroupIds: [expect.any(String)],
      errors: [{ code: 'ECONNREFUSED', message: 'refused by 192.0.2.7', network: true }],
      ...measured,
    });
    const single = await service.get(`/v1/check-results/${checkId}/${body.entries[0]!.id}`);
    expect(single.body).toEqual(body.entries[0]);
    await expect
      .poll(() => service.results)
      .toContainEqual(
        expect.objectContaining({ checkName: 'entry', hasFailures: true, message: 'refused by 192.0.2.7' }),
      );
  });

  test('can be narrowed to some members', async () => {
    const checkId = await makeCheck();
    await run(checkId, 1);
    const { body } = await service.get<Page>(`/v2/check-results/${checkId}`, {
      fields: ['hasFailures', 'runLocation'],
    });
    expect(body.entries).toEqual([{ hasFailures: false, runLocation: place.slug }]);
  });
});

describe('the list', () => {
  test('filters', async () => {
    const other = await service.location();
    const checkId = await makeCheck({
      retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0, maxRetries: 1 },
    });
    await run(checkId, 10);
    await run(checkId, 20, failedBy('ECONNRESET', 'reset'));
    await agent.finish(await agent.take(), {
      startedAt: '2026-01-01T00:00:30.000Z',
      stoppedAt: '2026-01-01T00:00:30.000Z',
      ...failedBy('ECONNRESET', 'reset again'),
    });
    await run(checkId, 40, degraded);
    const found = async (query: Record<string, string | number | boolean>): Promise<number[]> =>
      seconds((await list(checkId, query)).body.entries);
    expect(await found({})).toEqual([40, 30, 10]);
    expect(await found({ resultType: 'FINAL' })).toEqual([40, 30, 10]);
    expect(await found({ resultType: 'ATTEMPT' })).toEqual([20]);
    expect(await found({ resultType: 'ALL' })).toEqual([40, 30, 20, 10]);
    expect(await found({ resultType: 'ALL', hasFailures: true })).toEqual([30, 20]);
    expect(await found({ hasFailures: false })).toEqual([40, 10]);
    expect(await found({ location: place.slug })).toEqual([40, 30, 10]);
    expect(await found({ location: other.slug })).toEqual([]);
    expect(await found({ location: 'eu-west-1' })).toEqual([]);
    expect(await found({ checkType: 'URL' })).toEqual([40, 30, 10]);
    expect(await found({ checkType: 'TCP' })).toEqual([]);
    expect(await found({ from: START + 30 })).toEqual([40, 30]);
    expect(await found({ to: START + 30 })).toEqual([10]);
    expect(await found({ from: (START + 10) * 1000, to: (START + 40) * 1000 })).toEqual([30, 10]);
    expect(await found({ from: START + 41 })).toEqual([]);
    const attempts = (await list(checkId, { resultType: 'ALL' })).body.entries.map(
      (each) => each['attempts'],
    );
    expect(attempts).toEqual([0, 1, 0, 0]);
  });

  test('is walked without loss or repetition while results arrive', async () => {
    const checkId = await makeCheck();
    for (const second of [1, 2, 3, 4, 5, 6, 7]) await run(checkId, second);
    const seen: number[] = [];
    let nextId: string | null = null;
    do {
      const query: Record<string, string | number> = nextId === null ? { limit: 2 } : { limit: 2, nextId };
      const { body } = await list(checkId, query);
      seen.push(...seconds(body.entries));
      ({ nextId } = body);
      await run(checkId, 100 + seen.length);
    } while (nextId !== null);
    expect(seen).toEqual([7, 6, 5, 4, 3, 2, 1]);
  });

  test('orders results of one instant', async () => {
    const checkId = await makeCheck();
    for (let i = 0; i < 3; i++) await run(checkId, 1);
    const all = (await list(checkId)).body.entries.map((each) => each.id);
    const first = (await list(checkId, { limit: 2 })).body;
    const rest = (await list(checkId, { limit: 2, nextId: first.nextId! })).body;
    expect([...first.entries, ...rest.entries].map((each) => each.id)).toEqual(all);
    expect(rest.nextId).toBeNull();
  });

  test('refuses a cursor that was changed or made for another check', async () => {
    const [mine, other] = [await makeCheck(), await makeCheck()];
    for (const second of [1, 2]) await run(mine, second);
    const { nextId } = (await list(mine, { limit: 1 })).body;
    const changed = `${nextId!.slice(0, -2)}${nextId!.endsWith('AA') ? 'BB' : 'AA'}`;
    for (const [check, cursor] of [
      [mine, changed],
      [mine, ''],
      [mine, 'null'],
      [mine, `${nextId}=`],
      [other, nextId!],
    ] as const) {
      const answer = await list(check, { nextId: cursor });
      expect(answer.status).toBe(400);
      expect(answer.body.message).toBe('nextId: must be the nextId of an earlier answer of the same list');
    }
  });

  test.each([
    [{ limit: 0 }, 'limit: must be at least 1'],
    [{ limit: 101 }, 'limit: must be at most 100'],
    [{ resultType: 'LAST' }, 'resultType: must be one of FINAL, ATTEMPT, ALL'],
    [{ hasFailures: 'maybe' }, 'hasFailures: must be true or false'],
    [{ from: -1 }, 'from: must be at least 0'],
    [{ from: 'yesterday' }, 'from: must be a number'],
    [{ to: 1e15 }, 'to: must be at most 100000000000000'],
    [{ fields: 'nothing' }, 'fields[0]: must be one of id, name'],
    [{ checkType: 'x' }, 'checkType: must be one of'],
    [{ page: 2 }, 'page: is not a known field (allowed: limit, nextId'],
  ])('refuses %j', async (query, message) => {
    const { status, body } = await list(await makeCheck(), query as Record<string, string>);
    expect(status).toBe(400);
    expect(body.message).toContain(message);
  });
});

test('unknown checks and results are 404', async () => {
  const [mine, other] = [await makeCheck(), await makeCheck()];
  await run(mine, 1);
  const { id } = (await list(mine)).body.entries[0]!;
  expect((await list('nonsense')).status).toBe(404);
  expect((await list('11111111-1111-4111-8111-111111111111')).status).toBe(404);
  for (const path of [`${other}/${id}`, `${mine}/nonsense`, `${mine}/${other}`, `nonsense/${id}`]) {
    expect((await service.get(`/v1/check-results/${path}`)).status).toBe(404);
  }
});

describe('the status of a check', () => {
  test('is that of its last final result, and filters the list of checks', async () => {
    const checkId = await makeCheck({ name: 'status check' });
    expect((await service.get(`/v1/check-statuses/${checkId}`)).status).toBe(404);
    const states = async (): Promise<string[]> => {
      const found = [];
      for (const status of ['passing', 'failing', 'degraded']) {
        const { body } = await service.get<Entry[]>('/v1/checks', { status, search: 'status check' });
        if (body.length > 0) found.push(status);
      }
      return found;
    };
    expect(await states()).toEqual([]);
    await run(checkId, 1, { responseTimeMs: 40 });
    expect(await states()).toEqual(['passing']);
    await run(checkId, 2, { ...degraded, responseTimeMs: 90 });
    expect(await states()).toEqual(['degraded']);
    await run(checkId, 3, { ...failedBy('ENOTFOUND', 'no such name'), responseTimeMs: 20 });
    expect(await states()).toEqual(['failing']);
    const { body } = await service.get(`/v1/check-statuses/${checkId}`);
    expect(body).toMatchObject({
      name: 'status check',
      checkId,
      hasFailures: true,
      isDegraded: false,
      longestRun: 90,
      shortestRun: 20,
      lastRunLocation: place.slug,
    });
    const all = await service.get<Entry[]>('/v1/check-statuses');
    expect(all.body).toContainEqual(body);
  });
});

test('results of a deleted check are gone with it', async () => {
  const checkId = await makeCheck();
  await run(checkId, 1);
  await service.delete(`/v1/checks/${checkId}`);
  expect((await list(checkId)).status).toBe(404);
});
