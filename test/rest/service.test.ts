import { rmSync } from 'node:fs';
import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkTypes } from '../../src/checks/index.ts';
import { FatalError } from '../../src/kit/errors.ts';
import { readSettings } from '../../src/kit/settings.ts';
import { routes } from '../../src/service/http/resources/index.ts';
import { startService } from '../../src/service/index.ts';
import { serviceSettings } from '../../src/service/settings.ts';
import { silentLog } from '../support/databases.ts';
import { startAgent } from './agent.ts';
import {
  ACCOUNT,
  checkBody,
  freshDataDir,
  startTestService,
  type Entry,
  type TestService,
} from './service.ts';

interface Document extends Record<string, unknown> {
  paths: Record<string, Record<string, { operationId: string; security?: unknown[]; responses: object }>>;
  components: { schemas: Record<string, { properties?: Record<string, object>; required?: string[] }> };
}

describe('the OpenAPI document', () => {
  let service: TestService;
  let document: Document;
  beforeAll(async () => {
    service = await startTestService();
    document = (await service.get<Document>('/openapi.json')).body;
  });
  afterAll(async () => service.stop());

  test('is valid OpenAPI 3.1', async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(document));
    expect(errors ?? []).toEqual([]);
    expect(valid).toBe(true);
  });

  test('has every route once, with its errors', () => {
    for (const { about, access } of routes) {
      const operation = document.paths[about.path]![about.method.toLowerCase()]!;
      const expected = [
        about.status,
        400,
        ...(about.errors ?? []),
        ...(access === 'key' ? [401, 403, 429] : []),
      ];
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(expected.map(String)));
    }
    const ids = Object.values(document.paths).flatMap((path) =>
      Object.values(path).map((o) => o.operationId),
    );
    expect(new Set(ids).size).toBe(routes.length);
  });

  test('shows each check type with its fields, required and optional', () => {
    for (const type of checkTypes()) {
      const name = type.route[0]!.toUpperCase() + type.route.slice(1);
      const input = document.components.schemas[`${name}CheckInput`]!;
      const isProbe = type.lane === 'probe';
      const needed = { probe: 'request', script: 'script', suite: 'codeBundlePath' }[type.lane];
      expect(input.required?.toSorted()).toEqual([needed, 'name'].toSorted());
      expect(Object.keys(input.properties!)).toEqual(
        expect.arrayContaining(['frequency', 'retryStrategy', ...Object.keys(type.fields.shape)]),
      );
      const text = { default: '' };
      if (isProbe)
        expect(input.properties!['request']).toMatchObject({
          properties: {
            assertions: { default: [], items: { properties: { property: text, target: text, regex: text } } },
          },
        });
      const output = document.components.schemas[`${name}Check`]!;
      expect(output.required).toEqual(expect.arrayContaining(['id', 'checkType', 'created_at', 'frequency']));
    }
  });

  test('points nowhere but into itself', () => {
    const names = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(
      ([, name]) => name!,
    );
    expect(names.length).toBeGreaterThan(50);
    for (const name of names) expect(Object.keys(document.components.schemas)).toContain(name);
    expect(JSON.stringify(document)).not.toContain('#/$defs');
  });
});

describe('accounts and lists that never change', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService();
  });
  afterAll(async () => service.stop());

  test('the account of the key', async () => {
    const { body } = await service.get('/v1/accounts/me');
    expect(body).toMatchObject({ id: ACCOUNT, name: 'Default account' });
    expect((await service.get(`/v1/accounts/${ACCOUNT}`)).body).toEqual(body);
    expect((await service.get<Entry[]>('/v1/accounts')).body).toEqual([body]);
    expect((await service.get('/v1/accounts/11111111-1111-4111-8111-111111111111')).status).toBe(404);
  });

  test('regions and runtimes', async () => {
    const locations = await service.get<Entry[]>('/v1/locations');
    expect(locations.body).toHaveLength(22);
    expect(locations.body).toContainEqual({ region: 'eu-central-1', name: 'Frankfurt' });
    const runtimes = await service.get<Entry[]>('/v1/runtimes');
    expect(runtimes.body).toHaveLength(7);
    expect(runtimes.body.map(({ name, stage }) => `${String(name)} ${String(stage)}`).slice(0, 3)).toEqual([
      '2026.04 CURRENT',
      '2025.04 STABLE',
      '2024.09 REMOVED',
    ]);
    const { status, body } = await service.get('/v1/runtimes/2026.04');
    expect(status).toBe(200);
    expect(body).toEqual(runtimes.body[0]);
    expect(body).toMatchObject({ nodeJsVersion: '24.13.1', multiStepSupport: true, runtimeEndOfLife: null });
    const packages = Object.keys(body['dependencies'] as object);
    expect(packages).toEqual(expect.arrayContaining(['@playwright/test', 'playwright', 'axios', 'ws']));
    expect(packages.filter((name) => name.startsWith('node-linux'))).toEqual([]);
    expect((await service.get('/v1/runtimes/1999.01')).status).toBe(404);
  });
});

describe('a service', () => {
  const settingsFor = (env: Record<string, string>) =>
    readSettings(serviceSettings, { SERVICE_HOST: '127.0.0.1', SERVICE_PORT: '0', ...env }).values;

  test('makes an account and a key at its first start only, and keeps its data', async () => {
    const dataDir = freshDataDir();
    const settings = settingsFor({ SERVICE_DATA_DIR: dataDir });
    const call = async (url: string, apiKey: string, path: string, body?: object) =>
      fetch(url + path, {
        method: body ? 'POST' : 'GET',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      });
    const first = await startService(settings, { log: silentLog });
    const { apiKey } = first.bootstrap!;
    expect(apiKey).toMatch(/^vk_[0-9a-f]{32}$/);
    expect((await call(first.url, apiKey, '/v1/checks/url', checkBody('url'))).status).toBe(201);
    await first.stop();
    await first.done;

    const second = await startService(settings, { log: silentLog });
    expect(second.bootstrap).toBeUndefined();
    expect(await (await call(second.url, apiKey, '/v1/checks')).json()).toHaveLength(1);
    await second.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  test('says in one line that its port is taken, and closes the store', async () => {
    const service = await startTestService();
    const dataDir = freshDataDir();
    const settings = settingsFor({ SERVICE_DATA_DIR: dataDir, SERVICE_PORT: String(service.service.port) });
    const refusal = await startService(settings, { log: silentLog }).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(FatalError);
    expect(String(refusal)).toContain(`SERVICE_PORT=${service.service.port}`);
    const again = await startService({ ...settings, port: 0 }, { log: silentLog });
    await again.stop();
    await service.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  test('runs scheduled checks by itself', async () => {
    const service = await startTestService();
    const { slug, key } = await service.location();
    const agent = await startAgent(service.url, key);
    const { body } = await service.post(
      '/v1/checks/url',
      checkBody('url', {
        locations: [],
        privateLocations: [slug],
        frequency: 0,
        frequencyOffset: 10,
      }),
    );
    const job = await agent.take();
    expect(job).toMatchObject({ checkId: body.id, lane: 1, location: slug });
    await service.put(`/v1/checks/url/${body.id}`, { activated: false });
    await agent.finish(job);
    agent.leave();
    await service.stop();
  });

  test('ends waiting calls and turns unready when it stops', async () => {
    const service = await startTestService();
    const { slug } = await service.location();
    const made = await service.post(
      '/v1/checks/url',
      checkBody('url', { activated: false, privateLocations: [slug] }),
    );
    const started = await service.post<{ sessions: Entry[] }>('/v2/check-sessions/trigger', {
      target: { checkId: made.body.id },
    });
    const id = String(started.body.sessions[0]!['checkSessionId']);
    const waiting = service.get(`/v2/check-sessions/${id}/completion`);
    // The request has to be in the service's hands before it stops.
    await service.get(`/v2/check-sessions/${id}`);
    const before = performance.now();
    const stopped = service.stop();
    expect((await waiting).status).toBe(408);
    await stopped;
    expect(performance.now() - before).toBeLessThan(10_000);
    await expect(fetch(`${service.url}/health`)).rejects.toThrow('fetch failed');
  });

  test('serves on while it is unready, for as long as a balancer needs or until it is hurried', async () => {
    const service = await startTestService({ SERVICE_DRAIN_SECONDS: '600' });
    const { key } = await service.location();
    const agent = await startAgent(service.url, key);
    const hurry = new AbortController();
    const stopped = service.service.stop(hurry.signal);
    expect((await fetch(`${service.url}/-/readiness`)).status).toBe(503);
    expect((await fetch(`${service.url}/-/liveness`)).status).toBe(200);
    expect((await service.get('/v1/checks')).status).toBe(200);
    const early = await startAgent(service.url, (await service.location()).key);
    hurry.abort();
    await stopped;
    expect([await agent.closed, await early.closed]).toMatchObject([{ code: 4503 }, { code: 4503 }]);
    await expect(fetch(`${service.url}/health`)).rejects.toThrow('fetch failed');
    await service.stop();
  });

  test('limits the requests of a key when told to', async () => {
    const service = await startTestService({ RATE_LIMIT_PER_MINUTE: '3' });
    const statuses = [];
    for (let i = 0; i < 5; i++) statuses.push((await service.get('/v1/checks')).status);
    expect(statuses.slice(0, 3)).toEqual([200, 200, 200]);
    const { status, body } = await service.get('/v1/checks');
    expect(status).toBe(429);
    expect(body.message).toMatch(/^3 requests a minute are allowed; wait \d+ s$/);
    expect((await fetch(`${service.url}/health`)).status).toBe(200);
    await service.stop();
  });

  test('shows links under its public address', async () => {
    const service = await startTestService({ PUBLIC_URL: 'https://monitor.example/base/' });
    const { body } = await service.get<{ servers: object[] }>('/openapi.json');
    expect(body.servers).toEqual([{ url: 'https://monitor.example/base' }]);
    await service.stop();
  });
});
