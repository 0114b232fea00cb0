import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Job } from '../../src/contract/index.ts';
import { readApiDefinition, readDefinition } from '../../src/agent/scripts/definition.ts';
import { connectSocket, welcomed } from '../wire/client.ts';
import { startAgent, type ScriptedAgent } from './agent.ts';
import {
  ACCOUNT,
  checkBody,
  freshDataDir,
  startTestService,
  type Entry,
  type TestService,
} from './service.ts';

let service: TestService;
let place: { slug: string; key: string };
let agent: ScriptedAgent;
/** Everything the service logged. */
let logged = '';

beforeAll(async () => {
  const log = pino({ level: 'trace' }, { write: (line: string) => void (logged += line) });
  service = await startTestService({}, freshDataDir(), log);
  place = await service.location();
  agent = await startAgent(service.url, place.key);
});
afterAll(async () => {
  agent.leave();
  await service.stop();
});
afterEach(async () => {
  await service.put('/v1/accounts/me', { runtimeId: null });
  const { body } = await service.get<Entry[]>('/v1/variables', { limit: 100 });
  for (const { key } of body) await service.delete(`/v1/variables/${String(key)}`);
});

const created = async (path: string, body: object): Promise<Entry> => {
  const answer = await service.post(path, body);
  expect(answer.body).not.toHaveProperty('message');
  expect(answer.status).toBe(201);
  return answer.body;
};
const makeGroup = async (change: object = {}): Promise<Entry> =>
  created('/v2/check-groups', { name: 'its group', ...change });
const makeCheck = async (route: string, change: object = {}): Promise<string> => {
  const here = { activated: false, locations: [], privateLocations: [place.slug], retryStrategy: null };
  return (await created(`/v1/checks/${route}`, checkBody(route, { ...here, ...change }))).id;
};

/** The job of a check that is started now, as an agent gets it. */
async function jobOf(checkId: string): Promise<Job> {
  await created('/v2/check-sessions/trigger', { target: { checkId } });
  const job = await agent.take();
  expect(job.checkId).toBe(checkId);
  await agent.finish(job);
  return job;
}

const variable = (key: string, value: string, secret = false) => ({ key, value, locked: false, secret });

describe('variables of a run', () => {
  test('are those of the check, then of the group, then of the account, as they are when it starts', async () => {
    for (const [key, value] of [
      ['A', 'account'],
      ['B', 'account'],
      ['C', 'account'],
    ] as const) {
      await created('/v1/variables', { key, value, secret: key === 'C' });
    }
    const { id: groupId } = await makeGroup({
      environmentVariables: [variable('B', 'group', true), variable('D', 'group'), variable('E', 'group')],
    });
    const id = await makeCheck('multistep', {
      groupId,
      environmentVariables: [variable('E', 'check'), variable('A', '', true)],
    });
    expect((await jobOf(id)).spec['environmentVariables']).toEqual([
      variable('A', '', true),
      variable('B', 'group', true),
      variable('C', 'account', true),
      variable('D', 'group'),
      variable('E', 'check'),
    ]);

    await service.put('/v1/variables/C', { value: 'new' });
    await service.put(`/v2/check-groups/${groupId}`, { environmentVariables: [] });
    await service.delete('/v1/variables/B');
    expect((await jobOf(id)).spec['environmentVariables']).toEqual([
      variable('A', '', true),
      variable('C', 'new', true),
      variable('E', 'check'),
    ]);
  });

  test('reach every type, and runs that the scheduler starts', async () => {
    await created('/v1/variables', { key: 'TOKEN', value: 't0' });
    const only = { environmentVariables: [variable('TOKEN', 't0')], runtimeId: '2026.04' };
    for (const route of ['api', 'url', 'tcp', 'dns', 'icmp', 'browser', 'multistep']) {
      expect((await jobOf(await makeCheck(route))).spec, route).toMatchObject(only);
    }
    const id = await makeCheck('url', { activated: true, frequency: 1440 });
    const job = await agent.take();
    await agent.finish(job);
    expect(job).toMatchObject({ checkId: id, runSource: 'SCHEDULER', spec: only });
    await service.delete(`/v1/checks/${id}`);
  });

  test('that are secret reach the agent, and neither a reader nor the log', async () => {
    const [ofAccount, ofGroup, ofCheck] = ['s3cret-of-account', 's3cret-of-group', 's3cret-of-check'];
    await created('/v1/variables', variable('SECRET_A', ofAccount, true));
    const { id: groupId } = await makeGroup({ environmentVariables: [variable('SECRET_B', ofGroup, true)] });
    const id = await makeCheck('browser', {
      groupId,
      environmentVariables: [variable('SECRET_C', ofCheck, true)],
    });
    const sent = (await service.get(`/v1/checks/${id}`, { includeDependencies: true })).body;
    expect((await service.put(`/v1/checks/browser/${id}`, sent)).status).toBe(200);
    const group = (await service.get(`/v1/check-groups/${groupId}`)).body;
    expect((await service.put(`/v2/check-groups/${groupId}`, group)).status).toBe(200);
    const job = await jobOf(id);
    expect(job.spec['environmentVariables']).toEqual([
      variable('SECRET_A', ofAccount, true),
      variable('SECRET_B', ofGroup, true),
      variable('SECRET_C', ofCheck, true),
    ]);
    await service.post('/v1/variables', { key: 'SECRET_D', value: ofAccount, hidden: true });
    const texts = await Promise.all(
      [
        '/v1/variables',
        '/v1/variables/SECRET_A',
        '/v1/check-groups',
        `/v1/check-groups/${groupId}`,
        `/v1/check-groups/${groupId}/checks`,
        `/v2/check-groups/${groupId}/checks/${id}`,
        '/v1/checks',
        `/v1/checks/${id}?includeDependencies=true&applyGroupSettings=true`,
        `/v3/checks/${id}`,
        `/v2/check-sessions/${job.sessionId}`,
        `/v2/check-results/${id}?resultType=ALL`,
      ].map(async (path) => {
        const { status, body } = await service.get(path);
        expect(status, path).toBe(200);
        return JSON.stringify(body);
      }),
    );
    expect(logged).toContain('"level"');
    for (const text of [...texts, logged]) expect(text).not.toContain('s3cret');
  });
});

describe('the runtime of a run', () => {
  test("is the check's, the group's, the account's, or the newest", async () => {
    const runtimeOf = async (id: string): Promise<unknown> => (await jobOf(id)).spec['runtimeId'];
    const { id: groupId } = await makeGroup();
    const id = await makeCheck('multistep', { groupId });
    expect(await runtimeOf(id)).toBe('2026.04');
    const account = await service.put(`/v1/accounts/${ACCOUNT}`, { runtimeId: '2025.04' });
    expect(account.body).toMatchObject({ id: ACCOUNT, runtimeId: '2025.04' });
    expect((await service.get('/v1/accounts/me')).body['runtimeId']).toBe('2025.04');
    expect(await runtimeOf(id)).toBe('2025.04');
    await service.put(`/v2/check-groups/${groupId}`, { runtimeId: '2024.09' });
    expect(await runtimeOf(id)).toBe('2024.09');
    await service.put(`/v1/checks/multistep/${id}`, { runtimeId: '2026.04' });
    expect(await runtimeOf(id)).toBe('2026.04');
    const { status, body } = await service.put('/v1/accounts/me', { runtimeId: '1.0' });
    expect(status).toBe(400);
    expect(body.message).toContain('runtimeId: must be one of 2026.04, 2025.04');
  });
});

describe('an API check in a group', () => {
  test('has the request parts of the group besides its own, of which its own win', async () => {
    const pair = (key: string, value: string) => ({ key, value, locked: false });
    const status = { source: 'STATUS_CODE', comparison: 'EQUALS', property: '', target: '200', regex: '' };
    const { id: groupId } = await makeGroup({
      apiCheckDefaults: {
        url: 'https://base.test',
        headers: [pair('Accept', 'group'), pair('X-Group', 'group')],
        queryParameters: [pair('q', 'group'), pair('Q', 'group')],
        assertions: [status],
        basicAuth: { username: 'group', password: 'p' },
      },
    });
    const request = {
      url: '{{GROUP_BASE_URL}}/path',
      headers: [pair('accept', 'check'), pair('accept', 'again')],
      queryParameters: [pair('q', 'check')],
      assertions: [{ ...status, target: '201' }],
    };
    const id = await makeCheck('api', { groupId, request });
    const { spec } = await jobOf(id);
    expect(spec['request']).toMatchObject({
      url: '{{GROUP_BASE_URL}}/path',
      headers: [pair('X-Group', 'group'), pair('accept', 'check'), pair('accept', 'again')],
      queryParameters: [pair('Q', 'group'), pair('q', 'check')],
      assertions: [status, { ...status, target: '201' }],
      basicAuth: { username: 'group', password: 'p' },
    });
    expect(spec['environmentVariables']).toEqual([variable('GROUP_BASE_URL', 'https://base.test')]);

    await service.put(`/v1/checks/api/${id}`, { request: { ...request, basicAuth: { username: 'own' } } });
    expect((await jobOf(id)).spec['request']).toMatchObject({ basicAuth: { username: 'own', password: '' } });
    expect((await service.get(`/v1/checks/${id}`)).body['request']).toMatchObject(request);

    const url = await makeCheck('url', { groupId });
    expect((await jobOf(url)).spec['request']).not.toHaveProperty('headers');
  });

  test('runs its scripts and those of the group', async () => {
    const { id: groupId } = await makeGroup({ localSetupScript: 'group()', localTearDownScript: '' });
    const job = await jobOf(await makeCheck('api', { groupId, localTearDownScript: 'own()' }));
    expect(readApiDefinition(job)).toMatchObject({
      localSetupScript: null,
      localTearDownScript: 'own()',
      groupScripts: { setup: 'group()', tearDown: '' },
    });
    expect((await jobOf(await makeCheck('api'))).spec).not.toHaveProperty('groupScripts');
  });

  test('goes to agents with room for scripts alone as soon as its group has one', async () => {
    const { slug, key } = await service.location();
    const { agent: light, say } = await welcomed(connectSocket, service.url, key, { checkTypes: ['API'] });
    const { id: groupId } = await makeGroup({ localSetupScript: 'group()', privateLocations: [slug] });
    const [scripted, plain] = [
      await makeCheck('api', { groupId }),
      await makeCheck('api', { privateLocations: [slug] }),
    ];
    for (const checkId of [scripted, plain]) {
      await created('/v2/check-sessions/trigger', { target: { checkId } });
    }
    say('ready', { free: 5 });
    expect((await light.next('offer')).d.jobs.map(({ checkId }) => checkId)).toEqual([plain]);
    say('ready', { free: 0, freeByClass: { script: 1, browser: 0 } });
    expect((await light.next('offer')).d.jobs.map(({ checkId }) => checkId)).toEqual([scripted]);
    light.vanish();
  });

  test('has the code of the snippets that it and the group have chosen', async () => {
    const [setup, tearDown] = [
      await created('/v1/snippets', { name: 'setup', script: 'setup()' }),
      await created('/v1/snippets', { name: 'teardown', script: "require('./util')" }),
    ];
    await created('/v1/snippets', { name: 'util', script: "require('./deep.js')" });
    await created('/v1/snippets', { name: 'deep.js', script: 'deep()' });
    await created('/v1/snippets', { name: 'unrelated', script: 'unrelated()' });
    const { id: groupId } = await makeGroup({ setupSnippetId: setup.id });
    const id = await makeCheck('api', { groupId, setupSnippetId: setup.id, tearDownSnippetId: tearDown.id });
    const { spec } = await jobOf(id);
    expect(spec).toMatchObject({
      groupScripts: { setup: 'setup()', tearDown: null },
      snippetScripts: { setup: 'setup()', tearDown: "require('./util')" },
    });
    expect(spec['snippets']).toBeUndefined();

    await service.put(`/v1/snippets/${tearDown.id}`, { script: "require('./snippets/util')" });
    const again = await jobOf(id);
    expect(again.spec['snippets']).toEqual({ util: "require('./deep.js')", 'deep.js': 'deep()' });
    expect(readApiDefinition(again).snippets).toEqual(again.spec['snippets']);
  });
});

describe('the snippets of a script', () => {
  test('are those that it or its files name, or all where names are put together', async () => {
    const names = ['one', 'two', 'three'];
    for (const name of names) await created('/v1/snippets', { name: `${name}.ts`, script: `// ${name}` });
    const snippetsOf = async (change: object): Promise<string[]> => {
      const job = await jobOf(await makeCheck('browser', change));
      return Object.keys(readDefinition(job).snippets ?? {});
    };
    expect(await snippetsOf({ script: "import './snippets/one.ts'" })).toEqual(['one.ts']);
    const dependencies = [{ path: 'lib/x.js', content: "require('../snippets/two.ts')" }];
    expect(await snippetsOf({ script: "require('./lib/x')", dependencies })).toEqual(['two.ts']);
    expect(await snippetsOf({ script: '1', description: './snippets/one.ts' })).toEqual([]);
    const all = await snippetsOf({ script: 'require(`./snippets/${name}.ts`)' });
    expect(all).toEqual(expect.arrayContaining(['one.ts', 'two.ts', 'three.ts']));
  });
});

describe('settings of a group that take the place of the check’s own', () => {
  test('are its locations, its parallel runs and its retries', async () => {
    const other = await service.location();
    const { id: groupId } = await makeGroup({
      locations: ['eu-west-1'],
      privateLocations: [place.slug],
      retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0 },
      runParallel: true,
    });
    const id = await makeCheck('url', { groupId, privateLocations: [other.slug] });
    const { body } = await service.post<{ sessions: Entry[] }>('/v2/check-sessions/trigger', {
      target: { checkId: id },
    });
    expect(body.sessions[0]!['runLocations']).toEqual([place.slug, 'eu-west-1']);
    const job = await agent.take();
    await agent.finish(job);
    expect(job.spec).toMatchObject({ runParallel: true, retryStrategy: { type: 'FIXED', maxRetries: 2 } });
    await service.put(`/v2/check-groups/${groupId}`, { locations: [], privateLocations: [] });
    const back = await service.post<{ sessions: Entry[] }>('/v2/check-sessions/trigger', {
      target: { checkId: id },
    });
    expect(back.body.sessions[0]!['runLocations']).toEqual([other.slug]);
  });
});
