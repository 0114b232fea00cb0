import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Outcome } from '../check-type.ts';
import { closedPort, httpServer, testContext } from '../http-probe/servers.ts';
import type { PhaseAnswer, PhaseQuestion, ScriptHooks } from '../script-hooks.ts';
import { api } from './index.ts';

type Change = (question: PhaseQuestion) => void | Partial<PhaseAnswer> | Promise<void>;

interface Fake extends ScriptHooks {
  asked: PhaseQuestion[];
}

/** Scripts that do what a test says with what they are given. */
function scripts(setup: Change = () => {}, teardown: Change = () => {}): Fake {
  const asked: PhaseQuestion[] = [];
  return {
    asked,
    run: async (question) => {
      asked.push(structuredClone(question));
      const own = { ...structuredClone(question), env: { CHECK_NAME: 'c', ...question.env } };
      const more = await (question.phase === 'setup' ? setup : teardown)(own);
      const { request, response, env } = own;
      return { request, response, env, log: [], error: null, ...more };
    },
  };
}

interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  raw: string[];
  body: string;
}

/** A target that remembers its requests and answers JSON. */
async function target(answer = '{"a":1}') {
  const seen: Seen[] = [];
  const server = await httpServer((request, response) => {
    void text(request).then((body) => {
      const { method = '', url = '', headers, rawHeaders: raw } = request;
      seen.push({ method, url, headers, raw, body });
      response.setHeader('content-type', 'application/json').end(answer);
    });
  });
  return {
    seen,
    url: (path?: string) => server.url(path),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

const CODE = { localSetupScript: 'setup', localTearDownScript: 'teardown' };

interface Detail {
  request: { url: string; data: string };
  response: { body: string } | null;
  assertions: { passed: boolean; actual: unknown }[];
  requestError: string | null;
  jobLog: Record<'setup' | 'request' | 'teardown', { time: number; level: string; msg: string }[]>;
}
type Run = Outcome & { detail: Detail };

async function run(request: object, hooks: ScriptHooks | null, more: object = {}): Promise<Run> {
  return (await api.run({ request, ...CODE, ...more }, testContext({ scripts: hooks }))) as unknown as Run;
}
const variables = (values: Record<string, string>): object => ({
  environmentVariables: Object.entries(values).map(([key, value]) => ({ key, value })),
});

describe('setup', () => {
  test('sees the request, changes every part of it, and that is what is sent', async () => {
    await using server = await target();
    const hooks = scripts(({ request }) => {
      request.method = 'put';
      request.url += 'changed';
      request.body = 'new';
      request.headers = { 'X-New': 'n' };
      request.queryParameters['q'] = 'a b';
    });
    const outcome = await run({ method: 'POST', url: server.url('/'), bodyType: 'JSON', body: '{}' }, hooks);
    expect(outcome).toMatchObject({ verdict: 'passed', failures: [] });
    expect(hooks.asked[0]).toEqual({
      phase: 'setup',
      request: { method: 'POST', url: server.url('/'), body: '{}', headers: {}, queryParameters: {} },
      response: null,
      env: null,
    });
    expect(server.seen[0]).toMatchObject({ method: 'PUT', url: '/changed?q=a%20b', body: 'new' });
    expect(server.seen[0]?.headers).toMatchObject({ 'x-new': 'n', 'content-type': 'application/json' });
  });

  test('sees values where they are known, and braces where they are not yet', async () => {
    await using server = await target();
    const request = {
      url: server.url('/{{KNOWN}}/{{LATER}}'),
      headers: [{ key: 'X-T', value: '{{{KNOWN}}} {{LATER}}' }],
      queryParameters: [{ key: 'q', value: '{{KNOWN}}' }],
    };
    const hooks = scripts(({ env }) => void (env!['LATER'] = 'now'));
    await run(request, hooks, variables({ KNOWN: 'a b' }));
    expect(hooks.asked[0]?.request).toMatchObject({
      url: server.url('/a%20b/{{LATER}}'),
      headers: { 'X-T': 'a b {{LATER}}' },
      queryParameters: { q: 'a b' },
    });
  });

  test('defines variables that fill what it left alone, and what it wrote itself', async () => {
    await using server = await target();
    const request = {
      method: 'POST',
      url: server.url('/{{TOKEN}}'),
      headers: [{ key: 'Authorization', value: 'Bearer {{{TOKEN}}}' }],
      body: '{{CHECK_NAME}}',
      bodyType: 'RAW',
    };
    const hooks = scripts(({ env, request: seen }) => {
      env!['TOKEN'] = 'fresh';
      seen.headers['X-Own'] = 'own {{TOKEN}}';
    });
    await run(request, hooks, variables({ TOKEN: 'stale' }));
    expect(server.seen[0]).toMatchObject({ url: '/fresh', body: 'c' });
    expect(server.seen[0]?.headers).toMatchObject({ authorization: 'Bearer fresh', 'x-own': 'own fresh' });
  });

  test('signs what is sent: generated values do not change after it', async () => {
    await using server = await target();
    const hooks = scripts(
      ({ request, env }) => void Object.assign(env!, { NAME: 'n', SIGNATURE: request.body }),
    );
    const headers = [{ key: 'X-Signature', value: '{{{SIGNATURE}}}' }];
    const body = '{{$UUID}} {{moment "x"}} {{$RANDOM_NUMBER}} {{NAME}}';
    const request = { method: 'POST', url: server.url(), bodyType: 'RAW', body, headers };
    await run(request, hooks, variables({ NAME: 'n' }));
    expect(server.seen[0]?.body).toMatch(/^[0-9a-f-]{36} \d{13} \d+ n$/);
    expect(server.seen[0]?.headers['x-signature']).toBe(server.seen[0]?.body);
  });

  test('has headers without case; what is there twice is one to it, and two when left alone', async () => {
    await using server = await target();
    const headers = [
      { key: 'X-Twice', value: '1' },
      { key: 'x-twice', value: '2' },
      { key: 'X-Old', value: 'old' },
      { key: 'X-Gone', value: 'gone' },
    ];
    const queryParameters = [
      { key: 'a', value: '1' },
      { key: 'a', value: '2' },
    ];
    const hooks = scripts(({ request }) => {
      request.headers['x-old'] = 'new';
      delete request.headers['X-Gone'];
    });
    await run({ url: server.url(), headers, queryParameters }, hooks);
    expect(hooks.asked[0]?.request.headers['X-Twice']).toBe('1, 2');
    const [seen] = server.seen;
    expect(seen?.url).toBe('/?a=1&a=2');
    expect(seen?.raw.filter((part) => /^x-/i.test(part))).toEqual(['X-Twice', 'x-twice', 'x-old']);
    expect(seen?.headers['x-old']).toBe('new');
  });

  test('may give a body to a check without one, or take it away', async () => {
    await using server = await target();
    await run(
      { method: 'POST', url: server.url() },
      scripts(({ request }) => void (request.body = 'x')),
    );
    const request = { method: 'POST', url: server.url(), bodyType: 'JSON', body: '{}' };
    await run(
      request,
      scripts(({ request: seen }) => void (seen.body = '')),
    );
    expect(server.seen.map(({ body }) => body)).toEqual(['x', '']);
    expect(server.seen[1]?.headers['content-type']).toBeUndefined();
  });

  test('that fails ends the run: no request, no assertions, no teardown', async () => {
    await using server = await target();
    const error = { message: 'the setup script failed: boom', file: '/setup.js', line: 3, column: 7 };
    const log = [{ time: 5, level: 'INFO', msg: 'so far' } as const];
    const hooks = scripts(() => ({ error, log }));
    const assertions = [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }];
    const outcome = await run({ url: server.url(), assertions }, hooks, { shouldFail: true });
    const message = 'the setup script failed: boom (/setup.js:3:7)';
    expect(outcome).toMatchObject({
      verdict: 'failed',
      responseTimeMs: null,
      failures: [{ code: 'SETUP_SCRIPT', message, network: false }],
      detail: { assertions: [], response: null, requestError: message },
    });
    expect(outcome.detail.jobLog.setup.map(({ level, msg }) => [level, msg])).toEqual([
      ['INFO', 'so far'],
      ['ERROR', message],
    ]);
    expect(server.seen).toEqual([]);
    expect(hooks.asked.map(({ phase }) => phase)).toEqual(['setup']);
  });

  test('that leaves no method of HTTP says so', async () => {
    const hooks = scripts(({ request }) => void (request.method = 'FETCH'));
    const outcome = await run({ url: 'http://127.0.0.1:1/' }, hooks);
    expect(outcome.failures[0]?.message).toMatch(/^request.method is "FETCH" after setup; it must be one of/);
  });

  test('takes no part of the response time', async () => {
    await using server = await target();
    const slow = async (): Promise<void> => await sleep(150);
    const outcome = await run({ url: server.url() }, scripts(slow, slow), { maxResponseTime: 140 });
    expect(outcome).toMatchObject({ verdict: 'passed' });
    expect(outcome.responseTimeMs).toBeLessThan(140);
  });
});

describe('teardown', () => {
  const equals = (property: string, wanted: string): object => ({
    source: 'JSON_BODY',
    comparison: 'EQUALS',
    property,
    target: wanted,
  });

  test('sees what was sent and what came', async () => {
    await using server = await target();
    const hooks = scripts(({ env }) => void (env!['MADE'] = 'here'));
    const request = {
      url: server.url('/x'),
      basicAuth: { username: 'u', password: 'p' },
      queryParameters: [{ key: 'k', value: '{{MADE}}' }],
    };
    await run(request, hooks);
    expect(hooks.asked[1]).toMatchObject({
      phase: 'teardown',
      env: { MADE: 'here' },
      request: {
        method: 'GET',
        url: server.url('/x?k=here'),
        headers: { Authorization: `Basic ${btoa('u:p')}` },
        queryParameters: { k: 'here' },
      },
      response: {
        statusCode: 200,
        statusText: 'OK',
        headers: { 'content-type': 'application/json' },
        body: '{"a":1}',
        timings: { end: expect.any(Number) },
        timingPhases: { total: expect.any(Number) },
      },
    });
  });

  test('changes the body for assertions and result, and variables in assertions', async () => {
    await using server = await target('not JSON');
    const hooks = scripts(undefined, ({ response, env }) => {
      response!.body = '{"b":"x"}';
      env!['WANTED'] = 'x';
    });
    const outcome = await run({ url: server.url(), assertions: [equals('$.b', '{{WANTED}}')] }, hooks);
    expect(outcome).toMatchObject({ verdict: 'passed', detail: { response: { body: '{"b":"x"}' } } });
  });

  test('that fails fails the run, after the assertions were evaluated', async () => {
    await using server = await target();
    const hooks = scripts(undefined, () => ({ error: { message: 'the teardown script failed: late' } }));
    const outcome = await run({ url: server.url(), assertions: [equals('$.a', '1')] }, hooks);
    expect(outcome).toMatchObject({
      verdict: 'failed',
      failures: [{ code: 'TEARDOWN_SCRIPT', message: 'the teardown script failed: late' }],
      detail: { assertions: [{ passed: true, actual: 1 }], response: { body: '{"a":1}' } },
    });
  });

  test('runs without an answer too, since what setup made is still there', async () => {
    const hooks = scripts();
    const outcome = await run({ url: `http://127.0.0.1:${await closedPort()}/` }, hooks);
    expect(outcome.failures.map(({ code }) => code)).toEqual(['ECONNREFUSED']);
    expect(hooks.asked[1]).toMatchObject({ phase: 'teardown', response: null });
    const invalid = scripts();
    expect((await run({ url: '{{NOTHING}}' }, invalid)).failures[0]?.code).toBe('INVALID_URL');
    expect(invalid.asked[1]).toMatchObject({ phase: 'teardown', response: null });
  });

  test('sees the start of a large body, and leaves the whole one to the assertions', async () => {
    await using server = await target(JSON.stringify({ long: 'x'.repeat(300_000), last: 'y' }));
    const hooks = scripts();
    const outcome = await run({ url: server.url(), assertions: [equals('$.last', 'y')] }, hooks);
    expect(hooks.asked[1]?.response?.body).toHaveLength(256 * 1024);
    expect(outcome.verdict).toBe('passed');
    expect(outcome.detail.jobLog.teardown).toMatchObject([
      { level: 'WARN', msg: 'response.body is cut: scripts see the first 256 kB of it' },
    ]);
  });
});

describe('scripts', () => {
  test('are asked for once each, setup before teardown', async () => {
    await using server = await target();
    const hooks = scripts();
    await run({ url: server.url() }, hooks);
    expect(hooks.asked.map(({ phase }) => phase)).toEqual(['setup', 'teardown']);
  });

  test('print into the log, up to a limit', async () => {
    await using server = await target();
    const log = Array.from({ length: 300 }, () => ({
      time: 1,
      level: 'DEBUG' as const,
      msg: 'x'.repeat(1000),
    }));
    const outcome = await run(
      { url: server.url() },
      scripts(() => ({ log })),
    );
    const { setup } = outcome.detail.jobLog;
    expect(setup).toHaveLength(101);
    expect(setup.at(-1)).toMatchObject({ level: 'WARN', msg: expect.stringMatching(/^200 more lines/) });
    expect(outcome.detail.jobLog.request.length).toBeGreaterThan(0);
  });

  test('that nobody can run are a fault of ours, and so is a snippet without its code', async () => {
    await expect(run({ url: 'http://x/' }, null)).rejects.toMatchObject({ code: 'SCRIPTS_UNAVAILABLE' });
    const snippet = { localSetupScript: null, setupSnippetId: 5 };
    await expect(run({ url: 'http://x/' }, scripts(), snippet)).rejects.toMatchObject({
      code: 'SNIPPET_MISSING',
    });
  });
});

describe('a check with scripts', () => {
  const request = { url: 'http://x/' };

  test('needs a process of its own, and time for each script', () => {
    expect(api.jobClass({ request })).toBe('light');
    expect(api.timeoutMs({ request })).toBe(30_000);
    expect(api.jobClass({ request, ...CODE })).toBe('script');
    expect(api.timeoutMs({ request, ...CODE })).toBe(55_000);
    const group = { setup: 'a', tearDown: null };
    expect(api.jobClass({ request, groupScripts: group })).toBe('script');
    expect(api.jobClass({ request, snippetScripts: group })).toBe('script');
    expect(
      api.jobClass({ request, localSetupScript: ' \n', groupScripts: { setup: null, tearDown: '' } }),
    ).toBe('light');
  });

  test.each<[string, object, [string, RegExp][]]>([
    ['a path without its file', { setupScriptPath: 'a.js' }, [['localSetupScript', /setupScriptPath names/]]],
    [
      'a file that is there twice',
      { ...CODE, setupScriptDependencies: [file('a.js'), file('a.js')] },
      [['setupScriptDependencies', /a\.js is there twice/]],
    ],
    [
      'a file that setup and teardown have differently',
      {
        ...CODE,
        setupScriptDependencies: [file('a.js', '1')],
        tearDownScriptDependencies: [file('a.js', '2')],
      },
      [['tearDownScriptDependencies', /a\.js has other content/]],
    ],
    [
      'too much code',
      { localSetupScript: 'x'.repeat(250_000), localTearDownScript: 'x'.repeat(250_000) },
      [['localSetupScript', /at most 400000/]],
    ],
    ['nothing wrong', { ...CODE, setupScriptDependencies: [file('lib/a.ts')] }, []],
  ])('with %s', (_, fields, wanted) => {
    const found = api.problems({ request, ...fields });
    expect(found.map(([field]) => field)).toEqual(wanted.map(([field]) => field));
    wanted.forEach(([, message], index) => expect(found[index]?.[1]).toMatch(message));
  });

  test.each(['../a.js', '/etc/a.js', 'a//b.js', 'a\\b.js'])('cannot have a file %s', (path) => {
    const fields = { request, setupScriptDependencies: [file(path)] };
    expect(api.fields.safeParse(fields).success).toBe(false);
  });
});

function file(path: string, content = 'module.exports = 1'): { path: string; content: string } {
  return { path, content };
}
