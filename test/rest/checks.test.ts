import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkTypes } from '../../src/checks/index.ts';
import { routes } from '../../src/service/http/resources/index.ts';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  await service.bundle();
});
afterAll(async () => service.stop());

const ROUTES = checkTypes().map((type) => [type.route, type.name] as const);

const create = async (route: string, change: object = {}): Promise<Entry> => {
  const { status, body } = await service.post(`/v1/checks/${route}`, checkBody(route, change));
  expect(body).not.toHaveProperty('message');
  expect(status).toBe(201);
  return body;
};

describe.each(ROUTES)('a %s check', (route, name) => {
  /** Suites have the retries of their projects. */
  const isSuite = name === 'PLAYWRIGHT';

  test('is created with the defaults of the interface, read, updated and deleted', async () => {
    const made = await create(route);
    expect(made).toMatchObject({
      checkType: name,
      activated: true,
      muted: false,
      shouldFail: false,
      doubleCheck: !isSuite,
      locations: ['eu-west-1'],
      privateLocations: [],
      tags: [],
      frequency: 10,
      groupId: null,
      environmentVariables: [],
      runParallel: false,
      useGlobalAlertSettings: true,
      alertSettings: {
        escalationType: 'RUN_BASED',
        runBasedEscalation: { failedRunThreshold: 1 },
        reminders: { amount: 0, interval: 5 },
        parallelRunFailureThreshold: { enabled: false, percentage: 10 },
      },
      alertChannels: { email: [], webhook: [], slack: [], sms: [] },
      updated_at: null,
    });
    expect(made['retryStrategy']).toBe(isSuite ? null : undefined);

    const read = await service.get(`/v1/checks/${made.id}`);
    expect(read.body).toEqual(made);

    const updated = await service.put(`/v1/checks/${route}/${made.id}`, { name: 'renamed', tags: ['a'] });
    expect(updated.status).toBe(200);
    expect(updated.body).toEqual({ ...made, name: 'renamed', tags: ['a'], updated_at: expect.any(String) });

    expect((await service.delete(`/v1/checks/${made.id}`)).status).toBe(204);
    expect((await service.get(`/v1/checks/${made.id}`)).status).toBe(404);
    expect((await service.delete(`/v1/checks/${made.id}`)).status).toBe(404);
  });

  test('that was read can be sent back as it is', async () => {
    const made = await create(route, {
      description: 'round trip',
      ...(isSuite ? { pwTags: ['@smoke'] } : { retryStrategy: { type: 'LINEAR' } }),
    });
    const { status, body } = await service.put(`/v1/checks/${route}/${made.id}`, made);
    expect(status).toBe(200);
    expect(body).toEqual({ ...made, updated_at: expect.any(String) });
  });

  test('that was read is what the document lets an update send', async () => {
    const about = routes.map((each) => each.about);
    const { shownBody } = about.find(
      ({ method, path }) => method === 'PUT' && path === `/v1/checks/${route}/{id}`,
    )!;
    const { body } = await service.post(`/v1/checks/${route}`, checkBody(route));
    expect(shownBody!.safeParse(body).error?.issues ?? []).toEqual([]);
    expect(shownBody!.safeParse({ nothing: 1 }).success).toBe(false);
  });

  test('is not updated on the route of another type', async () => {
    const made = await create(route);
    const other = ROUTES.find(([each]) => each !== route)![0];
    const { status, body } = await service.put(`/v1/checks/${other}/${made.id}`, { name: 'x' });
    expect(status).toBe(400);
    expect(body.message).toContain(`/v1/checks/${route}/${made.id}`);
  });

  test('needs what has no default', async () => {
    const { status, body } = await service.post(`/v1/checks/${route}`, {
      name: 'x',
      locations: ['eu-west-1'],
    });
    expect(status).toBe(400);
    expect(body.message).toMatch(
      /^(request: is required and must be an object|(script|codeBundlePath): is required and must be a string)$/,
    );
  });
});

describe('the other names of a TCP request', () => {
  const create = async (request: object) =>
    service.post('/v1/checks/tcp', { ...checkBody('tcp'), request: { port: 443, ...request } });

  test.each([
    [
      { url: 'a.test', body: 'PING' },
      { hostname: 'a.test', data: 'PING' },
    ],
    [
      { hostname: 'a.test', url: null, data: 'PING', body: null },
      { hostname: 'a.test', data: 'PING' },
    ],
    [
      { hostname: 'a.test', url: 'a.test' },
      { hostname: 'a.test', data: null },
    ],
    [{ url: 'a.test', hostname: null }, { hostname: 'a.test' }],
  ])('%j', async (sent, stored) => {
    const { status, body } = await create(sent);
    expect(status).toBe(201);
    expect(body['request']).toMatchObject(stored);
    expect(body['request']).not.toHaveProperty('url');
    expect(body['request']).not.toHaveProperty('body');
  });

  test('must not disagree with its name', async () => {
    const { status, body } = await create({ hostname: 'a.test', url: 'b.test', body: 5, odd: 1 });
    expect(status).toBe(400);
    expect(body.message).toBe('request.url: must be the same as hostname, or absent');
    const odd = await create({ hostname: 'a.test', body: 5, odd: 1 });
    expect(odd.body.message).toBe(
      'request.data: must be a string; ' +
        'request.odd: is not a known field (allowed: hostname, port, data, ipFamily, assertions)',
    );
  });
});

describe('updates', () => {
  test('replace the request as a whole, so that left-out members get their defaults', async () => {
    const made = await create('url', { request: { url: 'https://example.com', skipSSL: true } });
    const { body } = await service.put(`/v1/checks/url/${made.id}`, {
      request: { url: 'https://example.org' },
    });
    expect(body['request']).toMatchObject({ url: 'https://example.org', skipSSL: false });
  });

  test('can set the retry strategy, none, and leave it', async () => {
    const made = await create('url');
    const path = `/v1/checks/url/${made.id}`;
    const set = await service.put(path, { retryStrategy: { type: 'EXPONENTIAL', baseBackoffSeconds: 2 } });
    expect(set.body['retryStrategy']).toEqual({
      type: 'EXPONENTIAL',
      baseBackoffSeconds: 2,
      sameRegion: true,
      maxRetries: 2,
      maxDurationSeconds: 600,
      onlyOn: [],
    });
    expect((await service.put(path, { name: 'y' })).body['retryStrategy']).toEqual(set.body['retryStrategy']);
    expect((await service.put(path, { retryStrategy: null })).body['retryStrategy']).toBeNull();
  });

  test('are refused as a whole when the outcome would not be allowed', async () => {
    const made = await create('url');
    const { status, body } = await service.put(`/v1/checks/url/${made.id}`, { locations: [] });
    expect(status).toBe(400);
    expect(body.message).toBe('locations: at least one of locations and privateLocations is required');
    expect((await service.get(`/v1/checks/${made.id}`)).body).toEqual(made);
  });

  test('of unknown checks are 404', async () => {
    for (const id of ['11111111-1111-4111-8111-111111111111', 'nonsense', '0']) {
      expect((await service.put(`/v1/checks/url/${id}`, { name: 'x' })).status).toBe(404);
    }
  });

  test('keep the value of a secret that comes back empty', async () => {
    const variables = [
      { key: 'TOKEN', value: 's3cret', secret: true },
      { key: 'PLAIN', value: 'shown' },
    ];
    const made = await create('api', { environmentVariables: variables });
    const shown = [
      { key: 'TOKEN', value: '', locked: false, secret: true },
      { key: 'PLAIN', value: 'shown', locked: false, secret: false },
    ];
    expect(made['environmentVariables']).toEqual(shown);
    const { body } = await service.put(`/v1/checks/api/${made.id}`, { environmentVariables: shown });
    expect(body['environmentVariables']).toEqual(shown);
    expect(JSON.stringify(body)).not.toContain('s3cret');
  });
});

describe('the deprecated routes', () => {
  test('create by the type in the body and update any type', async () => {
    const made = await service.post('/v1/checks', { ...checkBody('tcp'), checkType: 'TCP' });
    expect(made.status).toBe(201);
    expect(made.body['checkType']).toBe('TCP');
    const updated = await service.put(`/v1/checks/${made.body.id}`, { name: 'by the old route' });
    expect(updated.body).toMatchObject({ checkType: 'TCP', name: 'by the old route' });
  });

  test('name the types they know', async () => {
    const { status, body } = await service.post('/v1/checks', { ...checkBody('tcp'), checkType: 'AGENTIC' });
    expect(status).toBe(400);
    expect(body.message).toMatch(/^checkType: must be one of .*TCP/);
  });

  test('v2 and v3 read the same check', async () => {
    const made = await create('dns');
    for (const version of ['v2', 'v3']) {
      expect((await service.get(`/${version}/checks/${made.id}`)).body).toEqual(made);
    }
  });
});

describe('references', () => {
  test('to private locations must exist', async () => {
    const { slug } = await service.location();
    const good = await create('url', { locations: [], privateLocations: [slug] });
    expect(good['privateLocations']).toEqual([slug]);
    const { status, body } = await service.post(
      '/v1/checks/url',
      checkBody('url', { privateLocations: [slug, 'nowhere'] }),
    );
    expect(status).toBe(400);
    expect(body.message).toBe('privateLocations: "nowhere" is not a private location');
  });

  test('to groups must exist', async () => {
    const { status, body } = await service.post('/v1/checks/url', checkBody('url', { groupId: 5 }));
    expect(status).toBe(400);
    expect(body.message).toBe('groupId: 5 is not a check group');
  });
});

describe('the list', () => {
  const marked = `list-${Date.now()}`;
  const list = async (query: Record<string, string | number | readonly string[]>): Promise<string[]> => {
    const { status, body } = await service.get<Entry[]>('/v1/checks', { limit: 100, ...query });
    expect(status).toBe(200);
    return body.map((each) => String(each['name']));
  };

  beforeAll(async () => {
    await create('url', {
      name: `${marked} One`,
      tags: ['red', 'round'],
      request: { url: 'https://a.test/x' },
    });
    await create('api', { name: `${marked} two`, tags: ['red'], request: { url: 'https://b.test/%25' } });
    await create('tcp', { name: `${marked} three`, tags: ['blue'] });
  });

  test('is newest first and in pages', async () => {
    const all = await list({ search: marked });
    expect(all).toEqual([`${marked} three`, `${marked} two`, `${marked} One`]);
    const pages = [];
    for (const page of [1, 2, 3, 4]) pages.push(...(await list({ search: marked, limit: 1, page })));
    expect(pages).toEqual(all);
  });

  test('filters by name, in any case, taking wildcards literally', async () => {
    expect(await list({ search: `${marked} ONE` })).toEqual([`${marked} One`]);
    expect(await list({ search: `${marked}%` })).toEqual([]);
    expect(await list({ search: `${marked}_one` })).toEqual([]);
  });

  test('filters by any of several tags, by type and by address', async () => {
    expect(await list({ search: marked, tag: 'red' })).toEqual([`${marked} two`, `${marked} One`]);
    expect(await list({ search: marked, tag: ['round', 'blue'] })).toEqual([
      `${marked} three`,
      `${marked} One`,
    ]);
    expect(await list({ search: marked, checkType: 'TCP' })).toEqual([`${marked} three`]);
    expect(await list({ search: marked, checkType: 'BROWSER' })).toEqual([]);
    expect(await list({ search: marked, apiCheckUrlFilterPattern: 'B.test/%25' })).toEqual([`${marked} two`]);
  });

  test.each([
    [{ limit: 0 }, 'limit: must be at least 1'],
    [{ limit: 101 }, 'limit: must be at most 100'],
    [{ limit: 'ten' }, 'limit: must be a number'],
    [{ limit: 1.5 }, 'limit: must be a whole number'],
    [{ limit: '' }, 'limit: must be a number'],
    [{ page: 0 }, 'page: must be at least 1'],
    [{ checkType: 'PING' }, 'checkType: must be one of AGENTIC, API'],
    [{ status: 'green' }, 'status: must be one of passing, failing, degraded'],
    [{ limits: 5 }, 'limits: is not a known field (allowed: limit, page'],
    [{ search: 'a\0b' }, 'query.search: must not contain the NUL character'],
  ])('refuses %j', async (query, message) => {
    const answer = await service.call('GET', '/v1/checks', { query });
    expect(answer.status).toBe(400);
    expect(answer.body.message).toContain(message);
  });
});
