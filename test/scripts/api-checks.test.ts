import { createServer, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Job, RunResult } from '../../src/contract/index.ts';
import { startTestAgent, standInJob } from '../support/agent.ts';
import { startFakeService } from '../support/fake-service.ts';
import { STAND_IN_RUNTIME } from '../support/scripts.ts';
import { listenOn } from '../support/targets/ports.ts';
import { PROBE_ENTRY } from '../../src/agent/probes/program.ts';

/** API checks with scripts through a whole agent: the request in a probe, the code in a process of its own. */

const seen: { url: string; headers: IncomingMessage['headers'] }[] = [];
const target = createServer((request, response) => {
  seen.push({ url: request.url ?? '', headers: request.headers });
  response.end(JSON.stringify({ ok: true, token: request.headers['x-token'] }));
});
let port: number;
beforeAll(async () => {
  port = await listenOn(target);
});
afterAll(() => void target.close());

async function runner(): Promise<(job: Job) => Promise<RunResult>> {
  const service = await startFakeService();
  const agent = await startTestAgent(
    service,
    {},
    { probeEntry: PROBE_ENTRY, findRuntimes: () => [STAND_IN_RUNTIME] },
  );
  onTestFinished(async () => {
    await agent[Symbol.asyncDispose]();
    await service[Symbol.asyncDispose]();
  });
  await agent.ready;
  return (job) => {
    service.offer(job);
    return service.resultOf(job);
  };
}

const apiJob = (spec: Record<string, unknown>): Job =>
  standInJob(
    { request: { url: `http://127.0.0.1:${port}/orders`, assertions: [] }, ...spec },
    { checkType: 'API', name: 'an API', timeoutMs: 60_000 },
  );

interface Detail {
  jobLog: Record<'setup' | 'request' | 'teardown', { msg: string; level: string }[]>;
}
const detailOf = (result: RunResult): Detail => result.detail['apiCheckResult'] as Detail;

test('a setup script changes the request, a teardown script sees the answer, no secret is left', async () => {
  const run = await runner();
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
  expect(seen.at(-1)).toMatchObject({ url: '/orders?by=API', headers: { 'x-token': 'hunter-seven' } });
  const { jobLog } = detailOf(result);
  expect(jobLog.setup[0]!.msg).toMatch(/^token is \S+$/);
  expect(jobLog.teardown[0]!.msg).toMatch(/^answer 200 \S+$/);
  expect(JSON.stringify(result)).not.toMatch(/hunter-seven|made-at-run-time/);
});

test.each([
  ['throws', `throw new Error('no session')`, /no session/],
  ['ends its process', `process.exit(3)`, /process\.exit/],
  [
    'takes too much memory',
    `const hoard = []; for (;;) hoard.push(new Array(1e6).fill(hoard.length))`,
    /memory/,
  ],
])('a setup script that %s: no request is made, and the check fails', async (_what, script, message) => {
  const run = await runner();
  const before = seen.length;
  const result = await run(apiJob({ localSetupScript: script }));
  expect(result.flags).toMatchObject({ hasFailures: true, hasErrors: false });
  expect(result.errors[0]!.message).toMatch(message);
  expect(seen).toHaveLength(before);
  expect((await run(apiJob({ localSetupScript: 'request.method = "POST"' }))).flags.hasFailures).toBe(false);
});
