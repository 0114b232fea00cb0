import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PROBE_ENTRY } from '../../src/agent/probes/program.ts';
import type { Job, RunResult } from '../../src/contract/index.ts';
import { startTestAgent, standInJob, type TestAgent } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';
import { listenOn } from '../support/targets/ports.ts';
import { RUNTIMES, translates } from './api/child.ts';

/** API checks with scripts through a whole agent: the request in a probe, the code in a process of its own. */

interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}
const seen: Seen[] = [];
const target = createServer((request, response) => {
  void text(request).then((body) => {
    const { method = '', url = '', headers } = request;
    seen.push({ method, url, headers, body });
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ ok: true, token: headers['x-token'] }));
  });
});

/** Longer than any limit of a script, and without a processor. */
const BLOCKED = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);';
const LIMITS_MS = 30_000;

let port: number;
let service: FakeService;
let agent: TestAgent;
/** Runs that wait for their limits while the other tests are busy. */
let overdue: Record<'awaiting' | 'blocked', Job>;

beforeAll(async () => {
  port = await listenOn(target);
  service = await startFakeService();
  agent = await startTestAgent(service, {}, { probeEntry: PROBE_ENTRY, findRuntimes: () => RUNTIMES });
  await agent.ready;
  overdue = {
    awaiting: apiJob({ localSetupScript: `console.log('begun'); await new Promise(() => {});` }),
    blocked: apiJob({ localTearDownScript: BLOCKED }, [{ source: 'STATUS_CODE', target: '200' }]),
  };
  service.offer(overdue.awaiting, overdue.blocked);
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  target.close();
});

function run(job: Job): Promise<RunResult> {
  service.offer(job);
  return service.resultOf(job);
}

/** Paths with a name of their own, so that a test knows its requests. */
const urlOf = (path = '/orders'): string => `http://127.0.0.1:${port}${path}`;
const requestsTo = (path: string): Seen[] => seen.filter(({ url }) => url.startsWith(path));

function apiJob(spec: Record<string, unknown>, assertions: object[] = [], request: object = {}): Job {
  const compared = assertions.map((assertion) => ({ comparison: 'EQUALS', ...assertion }));
  return standInJob(
    { request: { url: urlOf(), assertions: compared, ...request }, ...spec },
    { checkType: 'API', name: 'an API', timeoutMs: 60_000 },
  );
}

interface Detail {
  assertions: { passed: boolean; actual: unknown }[];
  response: { body: string } | null;
  jobLog: Record<'setup' | 'request' | 'teardown', { msg: string; level: string }[]>;
}
const detailOf = (result: RunResult): Detail => result.detail['apiCheckResult'] as Detail;
const linesOf = (result: RunResult, phase: keyof Detail['jobLog']): string[] =>
  detailOf(result).jobLog[phase].map(({ level, msg }) => `${level} ${msg}`);

test('a setup script changes the request, a teardown script sees the answer, no secret is left', async () => {
  const result = await run(
    apiJob({
      localSetupScript: `
        request.headers['x-token'] = process.env.TOKEN;
        request.url += '?by=' + process.env.CHECK_TYPE;
        process.env.SERVICE_SECRET_SESSION = 'made-at-run-time';
        console.log('token is', process.env.TOKEN);`,
      localTearDownScript: `console.log('answer', response.statusCode, process.env.SERVICE_SECRET_SESSION);`,
      environmentVariables: [{ key: 'TOKEN', value: 'hunter-seven', secret: true }],
    }),
  );
  expect(result.errors).toEqual([]);
  expect(result.flags).toMatchObject({ hasFailures: false, hasErrors: false });
  const [request] = requestsTo('/orders?by=API');
  expect(request).toMatchObject({ headers: { 'x-token': 'hunter-seven' } });
  expect(linesOf(result, 'setup')[0]).toMatch(/^INFO token is \S+$/);
  expect(linesOf(result, 'teardown')[0]).toMatch(/^INFO answer 200 \S+$/);
  expect(JSON.stringify(result)).not.toMatch(/hunter-seven|made-at-run-time/);
});

test('a setup script changes every part of the request and fills its templates', async () => {
  const request = {
    url: urlOf('/before'),
    headers: [
      { key: 'x-gone', value: '1' },
      { key: 'x-made', value: '{{MADE}}' },
    ],
    queryParameters: [{ key: 'gone', value: '1' }],
  };
  const localSetupScript = `
    request.method = 'PUT';
    request.url = request.url.replace('before', 'after');
    request.body = JSON.stringify({ by: 'setup' });
    delete request.headers['x-gone'];
    request.headers['X-Added'] = 'yes';
    request.queryParameters = { page: '{{PAGE}}' };
    process.env.MADE = 'here';
    process.env.PAGE = 7;`;
  const result = await run(apiJob({ localSetupScript }, [], request));
  expect(result.errors).toEqual([]);
  expect(requestsTo('/before')).toEqual([]);
  const [sent] = requestsTo('/after');
  expect(sent).toMatchObject({ method: 'PUT', url: '/after?page=7', body: '{"by":"setup"}' });
  expect(sent?.headers).toMatchObject({ 'x-added': 'yes', 'x-made': 'here' });
  expect(sent?.headers).not.toHaveProperty('x-gone');
});

test('scripts run from the group inwards and back out, in one process, with snippets', async () => {
  const say = (who: string): string => `require('./snippets/order').push('${who}');`;
  const result = await run(
    apiJob(
      {
        groupScripts: { setup: say('group setup'), tearDown: `${say('group teardown')} order.show();` },
        setupSnippetId: 1,
        snippetScripts: { setup: say('setup snippet'), tearDown: null },
        localSetupScript: say('setup'),
        localTearDownScript: `globalThis.order = require('./snippets/order.js'); ${say('teardown')}`,
        snippets: {
          order: `const said = [];
            exports.push = (who) => void said.push(typeof response === 'undefined' ? who : who + ' ' + response.statusCode);
            exports.show = () => console.log(said.join(', '));`,
        },
      },
      [],
    ),
  );
  expect(result.errors).toEqual([]);
  expect(linesOf(result, 'teardown')).toEqual([
    'INFO group setup, setup snippet, setup, teardown 200, group teardown 200',
  ]);
});

test('what is printed is in the log of its phase, with levels', async () => {
  const printing = (phase: string): string => `
    console.debug('${phase} d'); console.log('${phase}', { a: [1] }); console.warn('${phase} w');
    console.error('${phase} e'); process.stdout.write('${phase} direct\\n');`;
  const result = await run(
    apiJob({ localSetupScript: printing('setup'), localTearDownScript: printing('teardown') }),
  );
  for (const phase of ['setup', 'teardown'] as const) {
    expect(linesOf(result, phase).toSorted()).toEqual([
      `DEBUG ${phase} d`,
      `ERROR ${phase} e`,
      `INFO ${phase} direct`,
      `INFO ${phase} { a: [ 1 ] }`,
      `WARN ${phase} w`,
    ]);
  }
});

describe('a teardown script', () => {
  const body = { source: 'JSON_BODY', property: '$.by', target: 'teardown' };

  test('changes the body before it is judged', async () => {
    const localTearDownScript = `response.body = JSON.stringify({ by: 'teardown', was: JSON.parse(response.body).ok });`;
    const result = await run(apiJob({ localTearDownScript }, [body]));
    expect(result.errors).toEqual([]);
    expect(detailOf(result)).toMatchObject({
      assertions: [{ passed: true, actual: 'teardown' }],
      response: { body: '{"by":"teardown","was":true}' },
    });
  });

  test.each([
    [
      'throws',
      `throw new Error('not removed')`,
      /^the teardown script failed: not removed \(\/teardown\.js:1:\d+\)$/,
    ],
    ['ends its process', 'process.exit(1)', /process\.exit\(1\)/],
  ])('that %s fails the run, and the assertions are evaluated', async (_what, script, message) => {
    const status = { source: 'STATUS_CODE', target: '200' };
    const result = await run(apiJob({ localTearDownScript: script }, [status]));
    expect(result.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    expect(result.errors).toEqual([
      { code: 'TEARDOWN_SCRIPT', message: expect.stringMatching(message), network: false },
    ]);
    expect(detailOf(result)).toMatchObject({ assertions: [{ passed: true }], response: { status: 200 } });
  });
});

test.each([
  ['throws', `throw new Error('no session')`, /no session/],
  ['ends its process', `process.exit(3)`, /process\.exit/],
  [
    'takes too much memory',
    `const hoard = []; for (;;) hoard.push(new Array(1e6).fill(hoard.length))`,
    /memory/,
  ],
])('a setup script that %s: no request is made, and the check fails', async (what, script, message) => {
  const path = `/${what.replaceAll(' ', '-')}`;
  const teardown = `console.log('torn down')`;
  const result = await run(
    apiJob({ localSetupScript: script, localTearDownScript: teardown }, [], { url: urlOf(path) }),
  );
  expect(result.flags).toMatchObject({ hasFailures: true, hasErrors: false });
  expect(result.errors[0]!.message).toMatch(message);
  expect(requestsTo(path)).toEqual([]);
  expect(detailOf(result)).toMatchObject({ assertions: [], response: null, jobLog: { teardown: [] } });
  // The next one is served as if nothing had been.
  expect((await run(apiJob({ localSetupScript: 'request.method = "POST"' }))).flags.hasFailures).toBe(false);
});

describe.each(RUNTIMES.map((runtime) => ({ id: runtime.id, runtime })))(
  'in runtime $id',
  ({ id, runtime }) => {
    test('packages, TypeScript, await at the top level and files of the check work together', async (context) => {
      if (!translates(runtime)) {
        context.skip('no runtime with its packages is installed: vedette runtime install');
      }
      const localSetupScript = `
      import axios from 'axios';
      import _ from 'lodash';
      import jwt from 'jsonwebtoken';
      import CryptoJS from 'crypto-js';
      import moment from 'moment';
      import { v4, validate } from 'uuid';
      import { z } from 'zod';
      import { sign, type Signed } from './lib/sign';

      const Answer = z.object({ ok: z.boolean() });
      const { data } = await axios.get(request.url.replace(/orders.*/, 'by-axios/${id}'));
      const answer: z.infer<typeof Answer> = Answer.parse(data);
      const signed: Signed = sign(CryptoJS.HmacSHA256('m', 'k').toString());
      const claims = jwt.verify(jwt.sign({ sub: 'me' }, 'key'), 'key') as { sub: string };
      request.headers['x-found'] = [
        answer.ok, signed.text.length, claims.sub, moment.utc(0).format('YYYY-MM-DD'), validate(v4()),
        _.camelCase('snake_case'),
      ].join(' ');`;
      const result = await run(
        apiJob(
          {
            runtimeId: id,
            localSetupScript,
            setupScriptPath: 'checks/setup.ts',
            setupScriptDependencies: [
              {
                path: 'checks/lib/sign.ts',
                content: `export interface Signed { text: string }
                export const sign = (text: string): Signed => ({ text });`,
              },
            ],
            localTearDownScript: `console.log(process.env.RUNTIME_VERSION, process.version);`,
          },
          [],
          { url: urlOf(`/orders/${id}`) },
        ),
      );
      expect(result.errors).toEqual([]);
      expect(requestsTo(`/by-axios/${id}`)[0]?.headers['user-agent']).toMatch(/^axios/);
      const found = requestsTo(`/orders/${id}`)[0]?.headers['x-found'];
      expect(found).toBe('true 64 me 1970-01-01 true snakeCase');
      const node = id === '2025.04' ? 'v22' : 'v24';
      expect(linesOf(result, 'teardown')[0]).toMatch(new RegExp(`^INFO ${id} ${node}\\.`));
    });
  },
);

describe('a script that takes longer than 10 s', () => {
  const late = ({ runId }: Job): Promise<RunResult> =>
    until(
      'the end of a run without end',
      () => service.results.find((result) => result.runId === runId),
      LIMITS_MS,
    );

  test('fails the run before its request when it is the setup', async () => {
    const result = await late(overdue.awaiting);
    expect(result.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    expect(result.errors).toMatchObject([
      { code: 'SETUP_SCRIPT', message: 'the setup script was not finished within 10 s' },
    ]);
    expect(linesOf(result, 'setup')[0]).toBe('INFO begun');
    expect(detailOf(result).response).toBeNull();
  });

  test('fails the run after its assertions when it is the teardown, also where nothing else can run', async () => {
    const result = await late(overdue.blocked);
    expect(result.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    expect(result.errors).toMatchObject([
      { code: 'TEARDOWN_SCRIPT', message: expect.stringContaining('not finished within 10 s') },
    ]);
    expect(detailOf(result)).toMatchObject({ assertions: [{ passed: true }], response: { status: 200 } });
  });
});
