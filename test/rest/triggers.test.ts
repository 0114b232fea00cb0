import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startAgent, type ScriptedAgent } from './agent.ts';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
let agent: ScriptedAgent;
let here: object;

beforeAll(async () => {
  service = await startTestService();
  const place = await service.location();
  agent = await startAgent(service.url, place.key);
  here = { locations: [], privateLocations: [place.slug], frequency: 1440, activated: false };
});
afterAll(async () => {
  agent.leave();
  await service.stop();
});

const makeCheck = async (change: object = {}): Promise<string> =>
  (await service.post('/v1/checks/url', checkBody('url', { ...here, ...change }))).body.id;
const makeGroup = async (): Promise<number> =>
  Number((await service.post('/v2/check-groups', { name: 'a group' })).body.id);
/** Without an API key: the link is all that its holder has. */
const call = async (path: string, method = 'GET') =>
  service.call<{ sessions: Entry[]; message: string }>(method, path, { headers: { authorization: '' } });

describe('the trigger of a check', () => {
  test('is one, whoever asks for it how often', async () => {
    const checkId = await makeCheck();
    const path = `/v1/triggers/checks/${checkId}`;
    expect((await service.get(path)).status).toBe(404);
    const made = await service.post(path);
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      id: expect.any(Number) as number,
      token: expect.stringMatching(/^tr_[0-9a-f]{32}$/) as string,
      created_at: expect.any(String) as string,
      called_at: null,
      updated_at: null,
      checkId,
    });
    expect((await service.post(path)).body).toEqual(made.body);
    expect((await service.get(path)).body).toEqual(made.body);
  });

  test.each(['GET', 'POST'])('starts it for whoever %ss its link, deactivated or not', async (method) => {
    const checkId = await makeCheck();
    const { body } = await service.post(`/v1/triggers/checks/${checkId}`);
    const answer = await call(`/checks/${checkId}/trigger/${String(body['token'])}`, method);
    expect(answer.status).toBe(201);
    expect(answer.body.sessions).toMatchObject([{ checkId, runSource: 'LEGACY_TRIGGER' }]);
    const job = await agent.take();
    expect(job).toMatchObject({ checkId, runSource: 'LEGACY_TRIGGER', lane: 0 });
    await agent.finish(job);
    const { body: after } = await service.get(`/v1/triggers/checks/${checkId}`);
    expect(Math.abs(Date.parse(String(after['called_at'])) - Date.now())).toBeLessThan(60_000);
    const results = await service.get<{ entries: Entry[] }>(`/v2/check-results/${checkId}`);
    expect(results.body.entries).toHaveLength(1);
  });

  test('ends with its deletion, and with its check', async () => {
    const checkId = await makeCheck();
    const path = `/v1/triggers/checks/${checkId}`;
    const token = String((await service.post(path)).body['token']);
    expect((await service.delete(path)).status).toBe(204);
    expect((await service.delete(path)).status).toBe(404);
    expect((await call(`/checks/${checkId}/trigger/${token}`)).status).toBe(401);
    const next = String((await service.post(path)).body['token']);
    expect(next).not.toBe(token);
    await service.delete(`/v1/checks/${checkId}`);
    expect((await call(`/checks/${checkId}/trigger/${next}`)).status).toBe(401);
  });

  test('is for nothing else', async () => {
    const [checkId, other] = [await makeCheck(), await makeCheck()];
    const groupId = await makeGroup();
    const token = String((await service.post(`/v1/triggers/checks/${checkId}`)).body['token']);
    await service.post(`/v1/triggers/checks/${other}`);
    expect((await call(`/checks/${other}/trigger/${token}`)).status).toBe(404);
    expect((await call(`/check-groups/${groupId}/trigger/${token}`)).status).toBe(404);
    expect((await call(`/checks/nonsense/trigger/${token}`)).status).toBe(404);
    for (const wrong of ['x', '\0', `${token}x`, "' or 1=1 --", 'x'.repeat(400)]) {
      const answer = await call(`/checks/${checkId}/trigger/${encodeURIComponent(wrong)}`);
      expect(answer.status, wrong).toBe(401);
      expect(answer.body.message).toBe('Bad Token');
    }
  });
});

describe('the trigger of a group', () => {
  test('starts its activated checks', async () => {
    const groupId = await makeGroup();
    await makeCheck({ groupId, name: 'asleep' });
    const checkId = await makeCheck({ groupId, name: 'awake', activated: true });
    const path = `/v1/triggers/check-groups/${groupId}`;
    const { status, body } = await service.post(path);
    expect(status).toBe(201);
    expect(body).toMatchObject({ groupId, called_at: null, updated_at: null });
    const answer = await call(`/check-groups/${groupId}/trigger/${String(body['token'])}`, 'POST');
    expect(answer.body.sessions).toMatchObject([{ checkId, runSource: 'LEGACY_TRIGGER' }]);
    await expect
      .poll(async () => {
        const job = await agent.take();
        await agent.finish(job);
        return job.runSource;
      })
      .toBe('LEGACY_TRIGGER');
  });

  test('says that there is nothing to start', async () => {
    const groupId = await makeGroup();
    const { body } = await service.post(`/v1/triggers/check-groups/${groupId}`);
    const answer = await call(`/check-groups/${groupId}/trigger/${String(body['token'])}`);
    expect(answer.status).toBe(404);
    expect(answer.body.message).toBe('no activated check matches the target');
    expect((await service.delete(`/v1/check-groups/${groupId}`)).status).toBe(204);
    for (const method of ['GET', 'POST', 'DELETE']) {
      expect((await service.call(method, `/v1/triggers/check-groups/${groupId}`)).status).toBe(404);
    }
  });
});

test('calls of triggers count against the limit of their account', async () => {
  const narrow = await startTestService({ RATE_LIMIT_PER_MINUTE: '5' });
  const { slug } = await narrow.location();
  const body = checkBody('url', { activated: false, locations: [], privateLocations: [slug] });
  const { id } = (await narrow.post('/v1/checks/url', body)).body;
  const token = String((await narrow.post(`/v1/triggers/checks/${id}`)).body['token']);
  const statuses = [];
  for (let i = 0; i < 4; i++) {
    statuses.push((await fetch(`${narrow.url}/checks/${id}/trigger/${token}`)).status);
  }
  expect(statuses).toEqual([201, 201, 429, 429]);
  await narrow.stop();
});
