import { afterAll, beforeAll, expect, test } from 'vitest';
import { hashSecret, newId } from '../../src/kit/ids.ts';
import { openStore } from '../../src/service/store/index.ts';
import { silentLog } from '../support/databases.ts';
import { failedBy, startAgent, type ScriptedAgent } from './agent.ts';
import {
  ACCOUNT,
  API_KEY,
  checkBody,
  freshDataDir,
  startTestService,
  type Entry,
  type TestService,
} from './service.ts';

const STRANGER_KEY = 'vk_of_somebody_else_000';
let service: TestService;
let agent: ScriptedAgent;

/** Two accounts, of which a bootstrap would make only the first. */
async function withTwoAccounts(): Promise<string> {
  const dataDir = freshDataDir();
  const store = await openStore({ dataDir, log: silentLog });
  for (const [account_id, key] of [
    [ACCOUNT, API_KEY],
    [newId(), STRANGER_KEY],
  ] as const) {
    await store.db.insertInto('account').values({ id: account_id, name: key }).execute();
    const row = { id: newId(), account_id, name: 'key', hash: hashSecret(key), masked: '' };
    await store.db.insertInto('api_key').values(row).execute();
  }
  await store.close();
  return dataDir;
}

beforeAll(async () => {
  service = await startTestService({}, await withTwoAccounts());
});
afterAll(async () => {
  agent.leave();
  await service.stop();
});

test('what one account has does not exist for another', async () => {
  const headers = { authorization: `Bearer ${STRANGER_KEY}` };
  const asStranger = async (method: string, path: string, body?: object) =>
    service.call<Entry[] & Entry>(method, path, { headers, ...(body && { body }) });
  const place = await service.location();
  agent = await startAgent(service.url, place.key);
  const here = { locations: [], privateLocations: [place.slug], activated: false, tags: ['mine'] };
  const check = await service.post('/v1/checks/url', checkBody('url', here));
  const target = { checkId: check.body.id };
  const group = await service.post('/v2/check-groups', { name: 'mine' });
  const snippet = await service.post('/v1/snippets', { name: 'mine', script: '' });
  await service.post('/v1/variables', { key: 'MINE', value: 'x' });
  const started = await service.post<{ sessions: Entry[] }>('/v2/check-sessions/trigger', { target });
  await agent.pass(1);
  const session = String(started.body.sessions[0]!['checkSessionId']);
  const results = await service.get<{ entries: Entry[] }>(`/v2/check-results/${check.body.id}`);
  const result = results.body.entries[0]!.id;
  const name = 'mine';
  const tested = await service.post('/v1/test-sessions/trigger', {
    name,
    runLocation: place.slug,
    target: { ...target, allowDeactivated: true },
  });
  await agent.finish(await agent.take(), failedBy('ECONNRESET', 'reset'));
  const tests = `/v1/test-sessions/${String(tested.body['testSessionId'])}`;
  const { body: over } = await service.get<{ errorGroupIds: string[]; results: Entry[] }>(
    `${tests}/completion`,
  );
  const testResult = `${tests}/results/${String(over.results[0]!['sequenceId'])}`;
  const codeBundlePath = await service.bundle();

  await service.post(`/v1/triggers/checks/${check.body.id}`);
  await service.post(`/v1/triggers/check-groups/${group.body.id}`);

  for (const [method, path, body] of [
    ['GET', `/v1/checks/${check.body.id}`],
    ['PUT', `/v1/checks/${check.body.id}`, { name: 'stolen' }],
    ['PUT', `/v1/checks/url/${check.body.id}`, { name: 'stolen' }],
    ['DELETE', `/v1/checks/${check.body.id}`],
    ['GET', `/v1/check-statuses/${check.body.id}`],
    ['GET', `/v2/check-results/${check.body.id}`],
    ['GET', `/v1/check-results/${check.body.id}/${result}`],
    ['GET', `/v2/check-sessions/${session}`],
    ['GET', `/v2/check-sessions/${session}/completion`],
    ['POST', `/v1/check-sessions/${session}/cancel`],
    ['POST', '/v2/check-sessions/trigger', { target }],
    ['POST', '/v2/check-sessions/trigger', { target: { matchTags: [['mine']] } }],
    ['GET', tests],
    ['GET', `${tests}/completion`],
    ['POST', `${tests}/cancel`],
    ['GET', testResult],
    ['GET', `${testResult}/log`],
    ['GET', `${testResult}/assets`],
    ['GET', `${tests.replace('/v1', '/next')}/link`],
    ['GET', `${testResult.replace('/v1', '/next')}/links`],
    ['POST', '/next/test-sessions/trigger', { name, runLocation: place.slug, checkId: [check.body.id] }],
    ['GET', `/next/storage/download?key=${encodeURIComponent(codeBundlePath)}`],
    ['GET', `/v1/triggers/checks/${check.body.id}`],
    ['POST', `/v1/triggers/checks/${check.body.id}`],
    ['DELETE', `/v1/triggers/checks/${check.body.id}`],
    ['GET', `/v1/triggers/check-groups/${group.body.id}`],
    ['POST', `/v1/triggers/check-groups/${group.body.id}`],
    ['GET', `/v1/test-session-error-groups/${over.errorGroupIds[0]!}`],
    ['PATCH', `/v1/test-session-error-groups/${over.errorGroupIds[0]!}`, { archiveForEver: true }],
    ['GET', `/v1/error-groups/checks/${check.body.id}`],
    ['GET', `/v1/private-locations/${place.id}`],
    ['PUT', `/v1/private-locations/${place.id}`, { name: 'stolen' }],
    ['DELETE', `/v1/private-locations/${place.id}`],
    ['POST', `/v1/private-locations/${place.id}/keys`],
    ['DELETE', `/v1/private-locations/${place.id}/keys/${place.keyId}`],
    ['GET', `/v1/accounts/${ACCOUNT}`],
    ['PUT', `/v1/accounts/${ACCOUNT}`, { runtimeId: null }],
    ['GET', `/v1/check-groups/${group.body.id}`],
    ['PUT', `/v1/check-groups/${group.body.id}`, { name: 'stolen' }],
    ['PUT', `/v2/check-groups/${group.body.id}`, { name: 'stolen' }],
    ['DELETE', `/v1/check-groups/${group.body.id}`],
    ['GET', `/v1/check-groups/${group.body.id}/checks`],
    ['GET', `/v2/check-groups/${group.body.id}/checks/${check.body.id}`],
    ['GET', '/v1/variables/MINE'],
    ['PUT', '/v1/variables/MINE', { value: 'stolen' }],
    ['DELETE', '/v1/variables/MINE'],
    ['GET', `/v1/snippets/${snippet.body.id}`],
    ['PUT', `/v1/snippets/${snippet.body.id}`, { script: 'stolen' }],
    ['DELETE', `/v1/snippets/${snippet.body.id}`],
  ] as const) {
    expect((await asStranger(method, path, body)).status, `${method} ${path}`).toBe(404);
  }
  for (const path of [
    '/v1/checks',
    '/v1/check-statuses',
    '/v1/private-locations',
    '/v1/check-groups',
    '/v1/variables',
    '/v1/snippets',
    '/v1/error-groups',
    '/v1/test-session-error-groups',
  ]) {
    expect((await asStranger('GET', path)).body).toEqual([]);
  }
  expect((await service.get(`/v1/triggers/checks/${check.body.id}`)).status).toBe(200);
  const list = await asStranger('GET', '/v1/test-sessions');
  expect(list.body).toEqual({ length: 0, entries: [], nextId: null });
  const suite = await asStranger(
    'POST',
    '/v1/checks/playwright',
    checkBody('playwright', { codeBundlePath }),
  );
  expect(suite.body.message).toBe('codeBundlePath: no archive was uploaded with this key');
  const foreign = await asStranger('POST', '/v1/checks/url', checkBody('url', here));
  expect(foreign.body.message).toBe(`privateLocations: "${place.slug}" is not a private location`);
  const { id: groupId } = group.body;
  const intruder = await asStranger('POST', '/v1/checks/url', checkBody('url', { groupId }));
  expect(intruder.body.message).toBe(`groupId: ${groupId} is not a check group`);
  const thief = checkBody('api', { setupSnippetId: snippet.body.id });
  expect((await asStranger('POST', '/v1/checks/api', thief)).body.message).toBe(
    `setupSnippetId: ${snippet.body.id} is not a snippet`,
  );
  for (const [path, body] of [
    ['/v1/variables', { key: 'MINE', value: 'y' }],
    ['/v1/snippets', { name: 'mine', script: 'y' }],
  ] as const) {
    expect((await asStranger('POST', path, body)).status).toBe(201);
  }
  expect((await service.get('/v1/variables/MINE')).body['value']).toBe('x');
  const same = await asStranger('POST', '/v1/private-locations', { name: 'x', slugName: place.slug });
  expect(same.status).toBe(201);
  expect((await service.get(`/v1/checks/${check.body.id}`)).body['name']).toBe('a url check');
});
