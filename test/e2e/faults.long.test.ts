import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, onTestFailed, test } from 'vitest';
import { engines } from '../support/databases.ts';
import {
  serviceEnvironment,
  startAgentProcess,
  startServiceProcess,
  startVedette,
  statusOf,
  type AgentProcess,
  type ServiceProcess,
} from '../support/processes.ts';
import { waitUntil } from '../support/programs.ts';
import {
  finished,
  makeCheck,
  makeLocation,
  resultsOf,
  trigger,
  type PrivateLocation,
  type Rest,
} from '../support/rest.ts';
import { startGate, type Gate } from '../support/targets/gate.ts';
import { freePort } from '../support/targets/ports.ts';
import { startRelay } from '../support/targets/relay.ts';

/**
 * Every moment of a lease is a share of its length (renewal 1/15, suspicion 1/5, self-fencing 19/20),
 * so a fault of n seconds under a lease of m is the fault of 60 s under 60·m/n: only waiting is saved.
 */
const LEASE_SECONDS = '4';

describe.each(engines())('faults, store: $name', (engine) => {
  beforeAll(() => engine.start());
  afterAll(() => engine.stop());

  /** A service with one location in a database of its own, and a gate for its checks. */
  async function setUp(env: Record<string, string> = {}): Promise<Scene> {
    const keeping = await engine.fresh();
    const settings = { LEASE_SECONDS, ...env };
    const service = await startServiceProcess(keeping, settings);
    const location = await makeLocation(service.rest, 'here');
    const restart = (): Promise<ServiceProcess> => startServiceProcess(keeping, settings, service.port);
    return new Scene(service, location, await startGate(), restart);
  }

  test('kill -9 of an agent in mid-run: another one finishes the run, and it counts once', async () => {
    await using scene = await setUp();
    const { gate, service } = scene;
    const first = await scene.startAgent();
    const checkId = await scene.gateCheck();
    const [session] = await trigger(service.rest, checkId);
    await gate.until(1);
    const second = await scene.startAgent();
    await first.kill();
    // Nothing of the dead agent goes on in secret.
    await waitUntil(() => gate.waiting() === 0, 2000, 'the end of its probe');
    await gate.until(2);
    gate.open();
    expect(await finished(service.rest, session!)).toMatchObject({ status: 'PASSED' });
    expect(await typesOf(service.rest, checkId)).toEqual(['FINAL']);
    expect(second.child.exitCode).toBeNull();
  });

  test('kill -9 of the service while 200 results arrive: nothing lost, nothing double', async () => {
    await using scene = await setUp();
    const { gate, service } = scene;
    gate.open();
    await using relay = await startRelay(service.port);
    await scene.startAgent({ JOB_CONCURRENCY: '20' }, relay.url);
    const checkIds = await Promise.all(Array.from({ length: 200 }, () => scene.gateCheck()));
    let posts = 0;
    const killed = Promise.withResolvers<number>();
    relay.onSent = (text) => {
      posts += text.split('POST /agent/v1/results').length - 1;
      // The third batch has reached the service and is being stored.
      if (posts !== 3) return;
      killed.resolve(gate.arrived());
      void service.kill();
    };
    const sessions = await trigger(service.rest, checkIds);
    expect(await killed.promise, 'checks begun when the service was killed').toBeLessThan(200);
    await service.exited;
    const again = await scene.restartService();
    for (const session of sessions) {
      expect(await finished(again.rest, session, 40_000)).toMatchObject({ status: 'PASSED' });
    }
    for (const checkId of checkIds) expect(await typesOf(again.rest, checkId)).toEqual(['FINAL']);
  });

  /** Twenty checks under way, the service killed, the checks done meanwhile, the service back. */
  async function outage(
    scene: Scene,
    ms: number,
  ): Promise<{ statuses: Set<string>; results: Set<string>; requests: number }> {
    const { gate, service } = scene;
    await scene.startAgent({ JOB_CONCURRENCY: '20' });
    const checkIds = await Promise.all(Array.from({ length: 20 }, () => scene.gateCheck()));
    const sessions = await trigger(service.rest, checkIds);
    await gate.until(20);
    await service.kill();
    gate.open();
    await delay(ms);
    const { rest } = await scene.restartService();
    const ended = await Promise.all(sessions.map((session) => finished(rest, session, 60_000)));
    const stored = await Promise.all(checkIds.map((checkId) => typesOf(rest, checkId)));
    return {
      statuses: new Set(ended.map(({ status }) => status)),
      results: new Set(stored.map((types) => types.join())),
      requests: gate.arrived(),
    };
  }

  test('service gone for a fifth of a lease: all results arrive afterwards, no check runs twice', async () => {
    await using scene = await setUp({ LEASE_SECONDS: '30' });
    expect(await outage(scene, 6000)).toEqual({
      statuses: new Set(['PASSED']),
      results: new Set(['FINAL']),
      requests: 20,
    });
  });

  test('service gone for longer than a lease: checks may run again, each counts once', async () => {
    await using scene = await setUp({ LEASE_SECONDS: '3' });
    const { statuses, results } = await outage(scene, 4000);
    expect(statuses).toEqual(new Set(['PASSED']));
    expect(results).toEqual(new Set(['FINAL']));
  });

  test('SIGTERM with a slow check under way: readiness 503 at once, the check finishes, exit 0', async () => {
    await using scene = await setUp();
    const { gate, service } = scene;
    const agent = await scene.startAgent();
    const checkId = await scene.gateCheck();
    const [session] = await trigger(service.rest, checkId);
    await gate.until(1);
    agent.child.kill('SIGTERM');
    await waitUntil(async () => (await statusOf(`${agent.healthUrl}/-/readiness`)) === 503, 1000, '503');
    expect(gate.waiting()).toBe(1);
    gate.open();
    expect(await agent.exited).toBe(0);
    expect(await finished(service.rest, session!)).toMatchObject({ status: 'PASSED' });
    expect(await typesOf(service.rest, checkId)).toEqual(['FINAL']);
    expect(gate.arrived()).toBe(1);
  });

  test('a check that outlasts AGENT_DRAIN_TIMEOUT is given back and runs elsewhere at once', async () => {
    await using scene = await setUp({ LEASE_SECONDS: '300' });
    const { gate, service } = scene;
    const agent = await scene.startAgent({ AGENT_DRAIN_TIMEOUT: '2' });
    const checkId = await scene.gateCheck();
    const [session] = await trigger(service.rest, checkId);
    await gate.until(1);
    await scene.startAgent();
    const asked = performance.now();
    expect(await agent.stop()).toBe(0);
    expect(performance.now() - asked).toBeGreaterThanOrEqual(2000);
    await gate.until(2);
    gate.open();
    expect(await finished(service.rest, session!)).toMatchObject({ status: 'PASSED' });
    expect(await typesOf(service.rest, checkId)).toEqual(['FINAL']);
  });

  test('a second SIGTERM gives the check back without waiting for it', async () => {
    await using scene = await setUp({ LEASE_SECONDS: '300' });
    const { gate, service } = scene;
    const agent = await scene.startAgent();
    const checkId = await scene.gateCheck();
    const [session] = await trigger(service.rest, checkId);
    await gate.until(1);
    await scene.startAgent();
    agent.child.kill('SIGTERM');
    await waitUntil(async () => (await statusOf(`${agent.healthUrl}/-/readiness`)) === 503, 1000, '503');
    expect(await agent.stop()).toBe(0);
    await gate.until(2);
    gate.open();
    expect(await finished(service.rest, session!)).toMatchObject({ status: 'PASSED' });
    expect(await typesOf(service.rest, checkId)).toEqual(['FINAL']);
  });

  test('a run that nobody takes ends as TIMED_OUT and says why', async () => {
    await using scene = await setUp({ QUEUE_EXPIRY_SECONDS: '1' });
    const { gate, service } = scene;
    const checkIds = [await scene.gateCheck(), await scene.gateCheck()];
    const [lonely] = await trigger(service.rest, checkIds[0]!);
    expect(await finished(service.rest, lonely!)).toMatchObject({
      status: 'TIMED_OUT',
      results: [],
      runs: [{ state: 'TIMED_OUT', reason: 'NO_AGENT_CONNECTED' }],
    });
    await scene.startAgent({ JOB_CONCURRENCY: '1' });
    const [busy] = await trigger(service.rest, checkIds[0]!);
    await gate.until(1);
    const [waiting] = await trigger(service.rest, checkIds[1]!);
    expect(await finished(service.rest, waiting!)).toMatchObject({
      status: 'TIMED_OUT',
      runs: [{ state: 'TIMED_OUT', reason: 'ALL_AGENTS_BUSY' }],
    });
    gate.open();
    expect(await finished(service.rest, busy!)).toMatchObject({ status: 'PASSED' });
  });

  test('a revoked key cuts its agents off within a second, and leaves the others', async () => {
    await using scene = await setUp();
    const { service, location } = scene;
    const { rawKey } = await service.rest.call<{ rawKey: string }>(
      'POST',
      `/v1/private-locations/${location.id}/keys`,
    );
    const doomed = await scene.startAgent();
    const other = await scene.startAgent({ API_KEY: rawKey });
    await service.rest.call('DELETE', `/v1/private-locations/${location.id}/keys/${location.keyId}`);
    const ready = (agent: AgentProcess): Promise<number> => statusOf(`${agent.healthUrl}/-/readiness`);
    await waitUntil(async () => (await ready(doomed)) !== 200, 1000, 'the end of the connection');
    expect(await ready(other)).toBe(200);
  });
});

test('two services on one embedded store: the second refuses to start', async () => {
  const [embedded] = engines();
  await embedded!.start();
  try {
    const keeping = await embedded!.fresh();
    await using first = await startServiceProcess(keeping, {});
    await using second = startVedette(['service'], serviceEnvironment(keeping, await freePort(), {}));
    expect(await second.exited).toBe(78);
    expect(second.output()).toMatch(/in use|another|lock/i);
    expect(await statusOf(`${first.url}/-/readiness`)).toBe(200);
  } finally {
    await embedded!.stop();
  }
});

const typesOf = async (rest: Rest, checkId: string): Promise<string[]> =>
  (await resultsOf(rest, checkId)).map(({ resultType }) => resultType);

/** What one test starts, and stops in the end. */
class Scene {
  readonly gate: Gate;
  readonly location: PrivateLocation;
  readonly #restart: () => Promise<ServiceProcess>;
  readonly #agents: AgentProcess[] = [];
  service: ServiceProcess;

  constructor(
    service: ServiceProcess,
    location: PrivateLocation,
    gate: Gate,
    restart: () => Promise<ServiceProcess>,
  ) {
    this.#restart = restart;
    this.service = service;
    this.location = location;
    this.gate = gate;
    onTestFailed(() => {
      for (const each of [this.service, ...this.#agents]) console.log(each.output().slice(-3000));
    });
  }

  async startAgent(env: Record<string, string> = {}, url = this.service.url): Promise<AgentProcess> {
    const agent = await startAgentProcess(url, this.location.key, env);
    this.#agents.push(agent);
    return agent;
  }

  /** A URL check of the gate that waits as long as a check may. */
  gateCheck(): Promise<string> {
    return makeCheck(this.service.rest, 'url', this.location.slugName, {
      request: { url: `${this.gate.url}/` },
      degradedResponseTime: null,
      maxResponseTime: null,
    });
  }

  /** On the same data and port, with the same settings. */
  async restartService(): Promise<ServiceProcess> {
    this.service = await this.#restart();
    return this.service;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of [...this.#agents, this.service]) await each.kill();
    await this.gate.stop();
  }
}
