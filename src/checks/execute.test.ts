import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { RunResult } from '../contract/index.ts';
import { createEnvironment, type Environment, execute, type ExecuteJob, type TryReport } from './execute.ts';
import { closedPort, httpServer, rawServer } from './http-probe/servers.ts';
import { AgentFault } from './check-type.ts';
import type { ScriptHooks } from './script-hooks.ts';
import { UrlFields } from './url/spec.ts';

const environment = createEnvironment({ useOsResolver: false });
const noCancel = new AbortController().signal;

function job(url: string, more: object = {}, timeoutMs = 5000): ExecuteJob {
  const spec = {
    ...UrlFields.parse({ request: { url }, ...more }),
    shouldFail: false,
    environmentVariables: [],
  };
  return { checkType: 'URL', spec, timeoutMs, proxyUrl: null };
}

/** The process does nothing else for this long. */
function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

const NO_FLAGS = {
  hasFailures: false,
  hasErrors: false,
  isDegraded: false,
  isCancelled: false,
  overMaxResponseTime: false,
};

function faultyResolver(fault: Error): Environment {
  return { ...environment, resolver: { servers: () => [], resolve: () => Promise.reject(fault) } };
}

describe('a report', () => {
  test('is what the wire wants', async () => {
    await using server = await httpServer((_, response) => response.end('hi'));
    const report = await execute(job(server.url()), environment, noCancel);
    const ids = {
      resultId: crypto.randomUUID(),
      sequenceId: crypto.randomUUID(),
      runId: 1,
      token: 1,
      attempt: 0,
    };
    expect(RunResult.parse({ ...ids, ...report })).toEqual({ ...ids, ...report });
    expect(report).toMatchObject({ flags: NO_FLAGS, errors: [], statusCode: 200 });
    expect(report.responseTimeMs).toBe(report.phases['total']);
    expect(report.detail).toHaveProperty('apiCheckResult.response.body', 'hi');
    expect(report.measured.resolvedAddress).toBe('127.0.0.1');
  });

  test('of a failing target has failures and no errors of ours', async () => {
    const report = await execute(job(`http://127.0.0.1:${await closedPort()}/`), environment, noCancel);
    expect(report.flags).toEqual({ ...NO_FLAGS, hasFailures: true });
    expect(report.errors).toEqual([{ code: 'ECONNREFUSED', message: expect.any(String), network: true }]);
  });

  test('of a fault of the agent has errors and no failures', async () => {
    const fault = new AgentFault('RESOLVER_UNREACHABLE', '10.0.0.1 does not answer');
    const report = await execute(job('http://x.test/'), faultyResolver(fault), noCancel);
    expect(report.flags).toEqual({ ...NO_FLAGS, hasErrors: true });
    expect(report.errors).toEqual([{ code: fault.code, message: fault.message, network: false }]);
    expect(report.detail).toHaveProperty('apiCheckResult.request.url', 'http://x.test/');
  });

  test('of a cancelled run blames nobody', async () => {
    await using server = await rawServer(() => undefined);
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error('cancelled')), 20);
    const report = await execute(job(server.url()), environment, stop.signal);
    expect(report).toMatchObject({ flags: { ...NO_FLAGS, isCancelled: true }, errors: [] });
    const before = await execute(job(server.url()), environment, stop.signal);
    expect(before.flags.isCancelled).toBe(true);
  });

  test('of a try that took too long has a failure', async () => {
    await using server = await rawServer(() => undefined);
    const report = await execute(job(server.url(), {}, 100), environment, noCancel);
    expect(report.flags).toEqual({ ...NO_FLAGS, hasFailures: true });
    expect(report.errors[0]).toMatchObject({ code: 'TIMEOUT', network: true });
    expect(report.errors[0]?.message).toContain('no first byte within 100 ms');
  });

  test('of a runner that does not stop when told is made without it', async () => {
    const stuck = {
      ...environment,
      resolver: { servers: () => [], resolve: () => new Promise<never>(() => undefined) },
    };
    const report = await execute(job('http://x.test/', {}, 50), stuck, noCancel);
    expect(report.errors).toEqual([
      { code: 'TIMEOUT', message: 'the check was not finished within 50 ms', network: true },
    ]);
  });

  test.each<[string, ExecuteJob, string]>([
    ['a type that is not known', { ...job('http://x.test/'), checkType: 'BROWSER9' }, 'UNKNOWN_CHECK_TYPE'],
    ['a definition that is not valid', { ...job('http://x.test/'), spec: { request: {} } }, 'INVALID_CHECK'],
  ])('of %s is a fault', async (_, given, code) => {
    const report = await execute(given, environment, noCancel);
    expect(report).toMatchObject({ flags: { hasErrors: true, hasFailures: false }, errors: [{ code }] });
  });
});

describe('a slow process does not blame the target', () => {
  /** Blocks the process while the answer is under way, `times` times, then no more. */
  async function disturbed(
    times: number,
    maxResponseTime: number,
  ): Promise<TryReport & { requests: number }> {
    let requests = 0;
    await using server = await httpServer((_, response) => {
      requests++;
      response.end();
      if (requests <= times) setImmediate(() => block(150));
    });
    const report = await execute(job(server.url(), { maxResponseTime }), environment, noCancel);
    return { ...report, requests };
  }

  test('a verdict that its own delay may have made is not believed; the second try counts', async () => {
    const report = await disturbed(1, 100);
    expect(report).toMatchObject({ requests: 2, flags: NO_FLAGS });
  });

  test('a process that stays slow says so', async () => {
    const report = await disturbed(Number.POSITIVE_INFINITY, 100);
    expect(report.requests).toBe(3);
    expect(report).toMatchObject({
      flags: { ...NO_FLAGS, hasErrors: true },
      errors: [{ code: 'AGENT_OVERLOADED' }],
    });
    expect(report.measured.eventLoopDelayMs).toBeGreaterThan(100);
  });

  test('a target that is late by more than the delay is late', async () => {
    let requests = 0;
    await using server = await httpServer((_, response) => {
      requests++;
      block(40);
      setTimeout(() => response.end(), 300);
    });
    const report = await execute(job(server.url(), { maxResponseTime: 100 }), environment, noCancel);
    expect(requests).toBe(1);
    expect(report.flags).toEqual({ ...NO_FLAGS, hasFailures: true, overMaxResponseTime: true });
  });

  test('a verdict that time has no part in is believed at once', async () => {
    let requests = 0;
    await using server = await httpServer((_, response) => {
      requests++;
      block(60);
      response.writeHead(500).end();
    });
    const report = await execute(job(server.url(), { maxResponseTime: 10 }), environment, noCancel);
    expect(requests).toBe(1);
    expect(report.errors.map(({ code }) => code)).toEqual(['HTTP_STATUS', 'MAX_RESPONSE_TIME']);
  });

  test('with scripts around it a request is never made again', async () => {
    let requests = 0;
    const asked: string[] = [];
    const scripts: ScriptHooks = {
      run: async ({ phase, request, response, env }) => {
        asked.push(phase);
        if (phase === 'setup') await sleep(20).then(() => block(150));
        return { request, response, env: env ?? {}, log: [], error: null };
      },
    };
    await using server = await httpServer((_, response) => {
      requests++;
      response.end();
      if (requests === 2) setImmediate(() => block(150));
    });
    const spec = { request: { url: server.url() }, localSetupScript: 'x', maxResponseTime: 100 };
    const scripted = { ...job(server.url()), checkType: 'API', spec };
    // What held this process up while the scripts ran has spoilt nothing.
    const calm = await execute(scripted, environment, noCancel, scripts);
    expect(calm.flags).toEqual(NO_FLAGS);
    expect(calm.measured.eventLoopDelayMs).toBeLessThan(100);
    const disturbedRun = await execute(scripted, environment, noCancel, scripts);
    expect(disturbedRun.errors).toMatchObject([{ code: 'AGENT_OVERLOADED' }]);
    expect(requests).toBe(2);
    expect(asked).toEqual(['setup', 'teardown', 'setup', 'teardown']);
  });
});
