import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startAgent } from './agent.ts';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(async () => service.stop());

const PATH = '/v1/private-locations';
interface Location extends Entry {
  keys: Entry[];
}

describe('a private location', () => {
  test('is created with one key, which is shown once', async () => {
    const { status, body } = await service.post<Location>(PATH, { name: 'Basement', slugName: 'basement' });
    expect(status).toBe(201);
    const rawKey = String(body.keys[0]!['rawKey']);
    expect(rawKey).toMatch(/^pl_[0-9a-f]{32}$/);
    expect(body).toEqual({
      id: expect.any(String),
      name: 'Basement',
      slugName: 'basement',
      icon: 'location',
      proxyUrl: null,
      keys: [
        {
          id: expect.any(String),
          rawKey,
          maskedKey: `...${rawKey.slice(-4)}`,
          created_at: expect.any(String),
          updated_at: null,
        },
      ],
      minAgentVersion: null,
      lastSeen: null,
      agentCount: 0,
      created_at: expect.any(String),
      updated_at: null,
    });
    const read = await service.get<Location>(`${PATH}/${body.id}`);
    expect(read.body.keys).toEqual([{ ...body.keys[0], rawKey: undefined }]);
    expect(JSON.stringify((await service.get(PATH)).body)).not.toContain(rawKey);
  });

  test('changes what the body names and nothing else', async () => {
    const { id } = await service.location();
    const { body: before } = await service.get(`${PATH}/${id}`);
    const proxyUrl = 'http://user:{{PASSWORD}}@proxy.test:3128';
    const { status, body } = await service.put(`${PATH}/${id}`, { name: 'new', proxyUrl, icon: 'home' });
    expect(status).toBe(200);
    expect(body).toEqual({ ...before, name: 'new', proxyUrl, icon: 'home', updated_at: expect.any(String) });
    expect((await service.put(`${PATH}/${id}`, { proxyUrl: null })).body['proxyUrl']).toBeNull();
  });

  test('is deleted only when no check uses it', async () => {
    const { id, slug } = await service.location();
    const check = await service.post(
      '/v1/checks/url',
      checkBody('url', { name: 'user', privateLocations: [slug] }),
    );
    const refused = await service.delete(`${PATH}/${id}`);
    expect(refused.status).toBe(409);
    expect(refused.body.message).toBe('the private location cannot be deleted while checks use it: "user"');
    expect((await service.put(`${PATH}/${id}`, { slugName: 'other-name' })).status).toBe(409);
    await service.delete(`/v1/checks/${check.body.id}`);
    expect((await service.put(`${PATH}/${id}`, { slugName: 'other-name' })).body['slugName']).toBe(
      'other-name',
    );
    expect((await service.delete(`${PATH}/${id}`)).status).toBe(204);
    expect((await service.get(`${PATH}/${id}`)).status).toBe(404);
  });

  test.each([
    [{ slugName: 'a' }, 'name: is required and must be a string'],
    [{ name: 'a' }, 'slugName: is required and must be a string'],
    [{ name: '', slugName: 'a' }, 'name: must not be empty'],
    [{ name: 'a', slugName: 'eu-west-1' }, 'slugName: must be 1 to 30 letters'],
    [{ name: 'a', slugName: 'us-gov-east-12-x' }, 'slugName: must be 1 to 30 letters'],
    [{ name: 'a', slugName: 'a'.repeat(31) }, 'slugName: must be 1 to 30 letters'],
    [{ name: 'a', slugName: 'a b' }, 'slugName: must be 1 to 30 letters'],
    [{ name: 'a', slugName: 'a\n' }, 'slugName: must be 1 to 30 letters'],
    [{ name: 'a', slugName: '' }, 'slugName: must be 1 to 30 letters'],
    [{ name: 'a', slugName: 'a', proxyUrl: 'ftp://x' }, 'proxyUrl: must start with http:// or https://'],
    [{ name: 'a', slugName: 'a', proxyUrl: 'http://' }, 'proxyUrl: is not a valid URL'],
    [{ name: 'a', slugName: 'a', icon: 5 }, 'icon: must be a string'],
    [{ name: 'a', slugName: 'a', keys: [] }, 'keys: is not a known field (allowed: name, slugName'],
  ])('%j is refused', async (body, message) => {
    const answer = await service.post(PATH, body);
    expect(answer.status).toBe(400);
    expect(answer.body.message).toContain(message);
  });

  test.each(['a', 'A-1', '-', 'eu-west', 'europe-west-1', 'a'.repeat(30)])(
    'may be called %s',
    async (slug) => {
      expect((await service.post(PATH, { name: 'ok', slugName: slug })).status).toBe(201);
    },
  );

  test('needs a slug of its own', async () => {
    const [{ slug }, other] = [await service.location(), await service.location()];
    const made = await service.post(PATH, { name: 'again', slugName: slug });
    expect(made.status).toBe(409);
    expect(made.body.message).toBe(`slugName: "${slug}" is taken by another private location`);
    expect((await service.put(`${PATH}/${other.id}`, { slugName: slug })).status).toBe(409);
  });

  test('of one slug is made once, however many ask at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 5 }, async () => service.post(PATH, { name: 'race', slugName: 'race' })),
    );
    expect(answers.filter((each) => each.status === 201)).toHaveLength(1);
    expect(answers.filter((each) => each.status === 409)).toHaveLength(4);
  });
});

describe('its keys', () => {
  test('are two at most', async () => {
    const { id, keyId } = await service.location();
    const second = await service.post(`${PATH}/${id}/keys`);
    expect(second.status).toBe(201);
    expect(second.body['rawKey']).toMatch(/^pl_[0-9a-f]{32}$/);
    const third = await service.post(`${PATH}/${id}/keys`);
    expect(third.status).toBe(409);
    expect(third.body.message).toBe('a private location has at most 2 keys; delete one first');
    expect((await service.delete(`${PATH}/${id}/keys/${keyId}`)).status).toBe(204);
    expect((await service.delete(`${PATH}/${id}/keys/${keyId}`)).status).toBe(404);
    const left = await service.get<Location>(`${PATH}/${id}`);
    expect(left.body.keys.map((key) => key.id)).toEqual([second.body.id]);
  });

  test('are not made one too many by asking at once', async () => {
    const { id } = await service.location();
    const answers = await Promise.all(
      Array.from({ length: 4 }, async () => service.post(`${PATH}/${id}/keys`)),
    );
    expect(answers.filter((each) => each.status === 201)).toHaveLength(1);
    expect(answers.filter((each) => each.status === 409)).toHaveLength(3);
  });

  test('cut off their agents within a second when they are revoked', async () => {
    const { id, key, keyId } = await service.location();
    const agent = await startAgent(service.url, key);
    await service.delete(`${PATH}/${id}/keys/${keyId}`);
    const revokedAt = performance.now();
    expect(await agent.closed).toMatchObject({ code: 4401 });
    expect(performance.now() - revokedAt).toBeLessThan(1000);
  });

  test('of another location are not found', async () => {
    const [mine, other] = [await service.location(), await service.location()];
    expect((await service.delete(`${PATH}/${mine.id}/keys/${other.keyId}`)).status).toBe(404);
  });
});

test('connected agents are counted, and shown by version when asked for', async () => {
  const { id, key } = await service.location();
  const agents = [await startAgent(service.url, key), await startAgent(service.url, key)];
  const read = await service.get(`${PATH}/${id}`);
  expect(read.body).toMatchObject({
    agentCount: 2,
    lastSeen: expect.any(String),
    minAgentVersion: '0.1.0',
  });
  expect(read.body).not.toHaveProperty('runningAgents');
  const list = await service.get<Entry[]>(PATH, { versions: true });
  expect(list.body.find((each) => each.id === id)).toMatchObject({
    minAgentVersion: '0.1.0',
    runningAgents: [
      {
        version: '0.1.0',
        isOutdated: false,
        count: 2,
        agents: [
          { id: expect.any(String), lastSeenAt: expect.any(String) },
          { id: expect.any(String), lastSeenAt: expect.any(String) },
        ],
      },
    ],
  });
  for (const agent of agents) agent.leave();
  await expect.poll(async () => (await service.get(`${PATH}/${id}`)).body['agentCount']).toBe(0);
});

test('unknown private locations are 404', async () => {
  for (const id of ['nonsense', '11111111-1111-4111-8111-111111111111']) {
    expect((await service.get(`${PATH}/${id}`)).status).toBe(404);
    expect((await service.put(`${PATH}/${id}`, { name: 'x' })).status).toBe(404);
    expect((await service.delete(`${PATH}/${id}`)).status).toBe(404);
    expect((await service.post(`${PATH}/${id}/keys`)).status).toBe(404);
    expect((await service.delete(`${PATH}/${id}/keys/${id}`)).status).toBe(404);
  }
});
