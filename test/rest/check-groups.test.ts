import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { routes } from '../../src/service/http/resources/index.ts';
import { startAgent } from './agent.ts';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(async () => service.stop());

interface Group {
  id: number;
  [field: string]: unknown;
}

const create = async (change: object = {}): Promise<Group> => {
  const { status, body } = await service.post<Group>('/v2/check-groups', { name: 'a group', ...change });
  expect(body).not.toHaveProperty('message');
  expect(status).toBe(201);
  return body;
};
const update = async (id: number, change: object) => service.put(`/v2/check-groups/${id}`, change);
const member = async (groupId: number, change: object = {}, route = 'url'): Promise<Entry> => {
  const { body } = await service.post(`/v1/checks/${route}`, checkBody(route, { groupId, ...change }));
  expect(body).not.toHaveProperty('message');
  return body;
};
const read = async (id: string, query = {}): Promise<Entry> =>
  (await service.get(`/v1/checks/${id}`, query)).body;

describe('a check group', () => {
  test('is created with the defaults of the interface', async () => {
    expect(await create()).toEqual({
      id: expect.any(Number),
      name: 'a group',
      activated: true,
      muted: false,
      tags: [],
      locations: [],
      privateLocations: [],
      concurrency: 3,
      apiCheckDefaults: { url: '', headers: [], queryParameters: [], assertions: [], basicAuth: null },
      runtimeId: null,
      environmentVariables: [],
      alertChannelSubscriptions: [],
      setupSnippetId: null,
      tearDownSnippetId: null,
      localSetupScript: null,
      localTearDownScript: null,
      runParallel: null,
      alertSettings: {
        escalationType: 'RUN_BASED',
        runBasedEscalation: { failedRunThreshold: 1 },
        reminders: { amount: 0, interval: 5 },
        parallelRunFailureThreshold: { enabled: false, percentage: 10 },
      },
      retryStrategy: 'FALLBACK',
      useGlobalAlertSettings: null,
      doubleCheck: false,
      created_at: expect.any(String),
      updated_at: null,
    });
  });

  test.each(['v1', 'v2'])(
    'is written by %s routes, read, sent back as it is, and deleted',
    async (version) => {
      const made = await service.post(`/${version}/check-groups`, {
        name: 'round trip',
        tags: ['a'],
        locations: null,
        retryStrategy: { type: 'LINEAR' },
        apiCheckDefaults: {
          url: 'https://a.test',
          headers: [{ key: 'accept', value: 'text/plain' }],
          basicAuth: { username: 'u', password: 'p' },
        },
        browserCheckDefaults: {},
      });
      expect(made.status).toBe(201);
      const path = `/v1/check-groups/${made.body.id}`;
      expect((await service.get(path)).body).toEqual(made.body);
      const { shownBody } = routes
        .map((each) => each.about)
        .find((about) => about.method === 'PUT' && about.path === `/${version}/check-groups/{id}`)!;
      expect(shownBody!.safeParse(made.body).error?.issues ?? []).toEqual([]);
      const back = await service.put(path.replace('v1', version), made.body);
      expect(back.status).toBe(200);
      expect(back.body).toEqual({ ...made.body, updated_at: expect.any(String) });
      const { body } = await service.put(path.replace('v1', version), { muted: true });
      expect(body).toEqual({ ...made.body, muted: true, updated_at: expect.any(String) });

      expect((await service.delete(path)).status).toBe(204);
      for (const answer of [
        await service.get(path),
        await service.put(path, { name: 'x' }),
        await service.delete(path),
        await service.get(`${path}/checks`),
      ]) {
        expect(answer.status).toBe(404);
        expect(answer.body.message).toBe(`check group "${made.body.id}" does not exist`);
      }
    },
  );

  test.each(['0', 'x', '1.5', '99999999999', '-1'])('with the id %s does not exist', async (id) => {
    expect((await service.get(`/v1/check-groups/${id}`)).status).toBe(404);
  });

  test('is listed newest first, in pages, by tag and by name', async () => {
    const mark = `mark-${Date.now()}`;
    const [one, two, three] = [
      await create({ name: `${mark} one`, tags: [mark, 'x'] }),
      await create({ name: `${mark} two`, tags: [mark] }),
      await create({ name: `${mark} three`, tags: ['x'] }),
    ];
    const ids = async (query: Record<string, string | number | string[]>): Promise<number[]> =>
      (await service.get<Group[]>('/v1/check-groups', query)).body.map(({ id }) => id);
    expect(await ids({ limit: 2 })).toEqual([three.id, two.id]);
    expect((await ids({ limit: 2, page: 2 }))[0]).toBe(one.id);
    expect(await ids({ tag: mark })).toEqual([two.id, one.id]);
    expect(await ids({ name: [`${mark} one`, `${mark} three`] })).toEqual([three.id, one.id]);
    expect(await ids({ name: 'nobody' })).toEqual([]);
  });

  test.each([
    [{}, 'name: is required and must be a string'],
    [{ name: '' }, 'name: must not be empty'],
    [{ concurrency: 0 }, 'concurrency: must be at least 1'],
    [{ concurrency: 1.5 }, 'concurrency: must be '],
    [{ locations: ['moon'] }, 'locations[0]: must be one of us-east-1'],
    [{ privateLocations: ['nowhere'] }, 'privateLocations: "nowhere" is not a private location'],
    [{ runtimeId: '1999.01' }, 'runtimeId: must be one of 2026.04'],
    [{ retryStrategy: 'NEVER' }, 'retryStrategy: must be '],
    [{ runParallel: 'yes' }, 'runParallel: must be true or false'],
    [{ environmentVariables: [{ key: 'A' }] }, 'environmentVariables[0].value: is required'],
    [{ apiCheckDefaults: { method: 'GET' } }, 'apiCheckDefaults.method: is not a known field (allowed: url'],
    [{ colour: 'red' }, 'colour: is not a known field (allowed: name, activated'],
    [
      { setupSnippetId: 1, localSetupScript: 'throw 1' },
      'localSetupScript: must be null or empty beside setupSnippetId',
    ],
    [
      {
        apiCheckDefaults: { assertions: [{ source: 'TEXT_BODY', comparison: 'NOT_NULL', property: '(' }] },
      },
      'apiCheckDefaults.assertions[0].property: must be a regular expression: ',
    ],
  ])('%j is refused', async (change, message) => {
    const body = Object.keys(change).length === 0 ? {} : { name: 'x', ...change };
    for (const answer of [
      await service.post('/v2/check-groups', body),
      await service.post('/v1/check-groups', body),
    ]) {
      expect(answer.status).toBe(400);
      expect(answer.body.message).toContain(message);
    }
  });

  test('shows no secret, and keeps those that come back empty', async () => {
    const environmentVariables = [
      { key: 'TOKEN', value: 'hunter2-hunter2', secret: true },
      { key: 'NAME', value: 'shown' },
    ];
    const group = await create({ environmentVariables });
    expect(group['environmentVariables']).toEqual([
      { key: 'TOKEN', value: '', secret: true, locked: false },
      { key: 'NAME', value: 'shown', secret: false, locked: false },
    ]);
    const back = await update(group.id, group);
    for (const answer of [back, await service.get(`/v1/check-groups/${group.id}`)]) {
      expect(JSON.stringify(answer.body)).not.toContain('hunter2');
    }
  });
});

describe('checks of a group', () => {
  test('are listed in their order, read through it, and in no other', async () => {
    const [group, other] = [await create(), await create()];
    const last = await member(group.id, { name: 'last', groupOrder: 2 });
    const first = await member(group.id, { name: 'first', groupOrder: 1 }, 'browser');
    const unordered = await member(group.id, { name: 'unordered' });
    for (const version of ['v1', 'v2']) {
      const path = `/${version}/check-groups/${group.id}/checks`;
      const { status, body } = await service.get<Entry[]>(path);
      expect(status).toBe(200);
      expect(body.map(({ id }) => id)).toEqual([first.id, last.id, unordered.id]);
      const second = await service.get<Entry[]>(path, { limit: 1, page: 2 });
      expect(second.body.map(({ id }) => id)).toEqual([last.id]);
      expect((await service.get(`${path}/${last.id}`)).body).toEqual(last);
    }
    expect((await service.get(`/v1/check-groups/${other.id}/checks`)).body).toEqual([]);
    for (const id of [last.id, 'nonsense']) {
      expect((await service.get(`/v1/check-groups/${other.id}/checks/${id}`)).status).toBe(404);
    }
  });

  test('keep it from being deleted', async () => {
    const group = await create();
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c', 'd']) ids.push((await member(group.id, { name })).id);
    const refused = await service.delete(`/v1/check-groups/${group.id}`);
    expect(refused.status).toBe(409);
    expect(refused.body.message).toBe('the check group still has checks: "a", "b", "c" and others');
    await service.put(`/v1/checks/url/${ids.pop()}`, { groupId: null });
    for (const id of ids) await service.delete(`/v1/checks/${id}`);
    expect((await service.delete(`/v1/check-groups/${group.id}`)).status).toBe(204);
  });

  test.each([999_999, 1.5, -1, 2 ** 40])('cannot be in the group %d', async (groupId) => {
    const { status, body } = await service.post('/v1/checks/url', checkBody('url', { groupId }));
    expect(status).toBe(400);
    expect(body.message).toBe(`groupId: ${groupId} is not a check group`);
  });

  test('need a location of their own or of the group', async () => {
    const message =
      'locations: at least one of locations and privateLocations is required, here or in the group';
    const empty = await create();
    const homeless = checkBody('url', { locations: [], groupId: empty.id });
    expect((await service.post('/v1/checks/url', homeless)).body.message).toBe(message);
    const home = await create({ locations: ['eu-west-1'] });
    const { id } = await member(home.id, { name: 'lodger', locations: [] });
    for (const change of [{ groupId: null }, { groupId: empty.id }]) {
      const { status, body } = await service.put(`/v1/checks/url/${id}`, change);
      expect(status).toBe(400);
      expect(body.message).toContain('locations: at least one of locations and privateLocations is required');
    }
    const moved = await update(home.id, { locations: [] });
    expect(moved.status).toBe(400);
    expect(moved.body.message).toBe(
      'locations: at least one is required, since check "lodger" has none of its own',
    );
    expect((await service.get(`/v1/check-groups/${home.id}`)).body['locations']).toEqual(['eu-west-1']);
  });

  test('keep its private locations from being deleted', async () => {
    const place = await service.location();
    await create({ name: 'settled', privateLocations: [place.slug] });
    const { status, body } = await service.delete(`/v1/private-locations/${place.id}`);
    expect(status).toBe(409);
    expect(body.message).toContain('"settled"');
  });

  test('are shown with its settings when asked for', async () => {
    const alertSettings = { escalationType: 'TIME_BASED' };
    const group = await create({
      activated: false,
      muted: true,
      locations: ['us-east-1'],
      runtimeId: '2025.04',
      runParallel: true,
      retryStrategy: null,
      useGlobalAlertSettings: false,
      alertSettings,
    });
    const own = await member(group.id);
    expect(own).toMatchObject({ activated: true, muted: false, runtimeId: null, locations: ['eu-west-1'] });
    expect(await read(own.id)).toEqual(own);
    const inGroup = {
      ...own,
      activated: false,
      muted: true,
      locations: ['us-east-1'],
      privateLocations: [],
      runtimeId: '2025.04',
      runParallel: true,
      retryStrategy: null,
      useGlobalAlertSettings: false,
      alertSettings: group['alertSettings'],
    };
    expect(await read(own.id, { applyGroupSettings: true })).toEqual(inGroup);
    const listed = await service.get<Entry[]>('/v1/checks', { applyGroupSettings: true });
    expect(listed.body.find(({ id }) => id === own.id)).toEqual(inGroup);
    const fallback = await create();
    const plain = await member(fallback.id, { runtimeId: '2026.04', runParallel: true });
    expect(await read(plain.id, { applyGroupSettings: true })).toEqual(plain);
  });

  test('sleep while it is not activated, and wake with it', async () => {
    const place = await service.location();
    const agent = await startAgent(service.url, place.key);
    const group = await create({ activated: false, privateLocations: [place.slug], tags: ['sleepers'] });
    const tags = [`in ${group.id}`];
    const rhythm = { frequency: 0, frequencyOffset: 1, retryStrategy: null, tags };
    const { id } = await member(group.id, rhythm);
    const off = await member(group.id, { ...rhythm, activated: false });
    const trigger = async () => service.post('/v2/check-sessions/trigger', { target: { matchTags: [tags] } });
    expect((await trigger()).status).toBe(404);
    expect((await update(group.id, { activated: true })).status).toBe(200);
    const job = await agent.take();
    expect(job).toMatchObject({ checkId: id, location: place.slug, runSource: 'SCHEDULER' });
    await agent.finish(job);
    await update(group.id, { activated: false });
    expect((await trigger()).status).toBe(404);
    agent.leave();
    for (const each of [id, off.id]) await service.delete(`/v1/checks/${each}`);
  });

  test('and their group can be changed at the same time', async () => {
    const group = await create({ locations: ['us-east-1'] });
    const ids = await Promise.all(Array.from({ length: 6 }, async () => (await member(group.id)).id));
    const answers = await Promise.all([
      ...ids.map(async (id, n) => service.put(`/v1/checks/url/${id}`, { name: `renamed ${n}` })),
      ...ids.map(async (_, n) => update(group.id, { concurrency: n + 1, activated: n % 2 === 0 })),
      ...ids.map(async (id) => service.put(`/v1/checks/url/${id}`, { groupId: group.id, muted: true })),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    for (const id of ids)
      expect(await read(id)).toMatchObject({ muted: true, name: expect.stringMatching(/^renamed \d$/) });
  });

  test('that could not be sent with its scripts keep them out', async () => {
    const group = await create({ name: 'full' });
    const localSetupScript = 'a'.repeat(250_000);
    const own = { localSetupScript: 'b'.repeat(200_000), localTearDownScript: 'c'.repeat(190_000) };
    await member(group.id, { name: 'large', ...own }, 'api');
    expect((await update(group.id, { localSetupScript })).status).toBe(200);
    const { status, body } = await update(group.id, {
      localTearDownScript: 'd'.repeat(200_000),
      environmentVariables: Array.from({ length: 100 }, (_, n) => ({
        key: `K${n}`,
        value: 'v'.repeat(3000),
      })),
    });
    expect(status).toBe(400);
    expect(body.message).toMatch(
      /^body: check "large" has \d+ bytes together with what its group, .+ at most \d+ can be sent to an agent$/,
    );
  });
});
