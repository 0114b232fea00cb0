import { afterAll, beforeAll, describe, expect, inject, onTestFailed, test } from 'vitest';
import { describeUnless, waitUntil } from '../support/programs.ts';
import { finished, makeCheck, resultsOf, trigger, type Session } from '../support/rest.ts';
import { startGate, type Gate } from '../support/targets/gate.ts';
import { docker } from './base.ts';
import { newVolume, startContainer, type Container, type Start } from './container.ts';
import { Scene, startTargets, type Targets } from './scene.ts';

const READY_MS = 5000;
/** A browser check has its own minutes; on a busy machine its first start takes some of them. */
const ENDS_MS = 120_000;
/** Silence after which the runs of an agent are given again. */
const LEASE = { LEASE_SECONDS: '15' };

/** The demo's checks. */
const UPTIME = ['page', 'api', 'echo', 'name', 'ping'];
const SCRIPTS = ['browser', 'steps', 'scripted api'];
const passed = (names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, 'PASSED']));

describeUnless(inject('noImages') ?? undefined, 'the agent in a container without any right', () => {
  const { agent, uptime } = inject('images')!;
  let scene: Scene;
  let targets: Targets;

  beforeAll(async () => {
    scene = await Scene.start(LEASE);
    targets = await startTargets(scene.host);
  });
  afterAll(async () => {
    await targets?.[Symbol.asyncDispose]();
    await scene?.[Symbol.asyncDispose]();
  });

  const start = async (image: string, more: Partial<Start> = {}): Promise<Container> => {
    scene.tellOnFailure();
    const env = { API_KEY: scene.location!.key, AGENT_SERVICE_URL: scene.url };
    const container = await startContainer({ image, port: 8081, env, ...more });
    onTestFailed(() => console.log(container.logs().slice(-3000)));
    return container;
  };

  /** Makes the checks, starts them together and waits for their ends. @returns the status of each */
  async function runAll(wanted: (name: string) => boolean): Promise<Record<string, string>> {
    const definitions = targets.definitions('here').filter(({ name }) => wanted(name));
    const ends: Record<string, string> = {};
    const ids: string[] = [];
    for (const { path, definition } of definitions) {
      const { id } = await scene.rest.call<{ id: string }>('POST', path, definition);
      ids.push(id);
    }
    const sessions = await trigger(scene.rest, ids);
    for (const session of sessions) {
      const { name } = definitions[ids.indexOf(session.checkId)]!;
      const { status, runs } = await finished(scene.rest, session, ENDS_MS);
      ends[name] = status === 'PASSED' ? status : JSON.stringify({ status, runs });
    }
    return ends;
  }

  describe.each(['1000', '12345678'])('as user %s', (user) => {
    test('every type of check passes, behind every wall', async () => {
      await using container = await start(agent.image, { user });
      const info = JSON.parse((await container.get('/health')).text) as object;
      expect(info).toMatchObject({ sandbox: { state: 'full', missing: [] } });
      expect(await runAll(() => true)).toEqual(passed([...UPTIME, ...SCRIPTS]));
      expect(await container.stop(30_000)).toBe(0);
    });
  });

  test('the image for uptime checks passes what it is for', async () => {
    await using container = await start(uptime.image, { user: '12345678' });
    expect((await container.get('/metrics')).text).toContain('vedette_agent_sandbox{state="full"} 1');
    expect(await runAll((name) => UPTIME.includes(name))).toEqual(passed(UPTIME));
    expect(await container.stop(30_000)).toBe(0);
  });

  test.each([agent, uptime])('$image is ready soon, and tells by its published port', async ({ image }) => {
    await using container = await start(image);
    console.log(`vedette: ${image} was ready after ${Math.round(container.readyMs)} ms`);
    expect(container.readyMs).toBeLessThan(READY_MS);
    for (const path of ['/-/readiness', '/-/liveness', '/health', '/metrics']) {
      expect(await container.get(path), path).toMatchObject({ status: 200 });
    }
    const state = ['inspect', '--format', '{{.State.Health.Status}}', container.id];
    await waitUntil(() => docker(...state).stdout.trim() === 'healthy', 30_000, 'a healthy container');
  });

  /** A check that waits at the gate, begun. */
  async function waitingCheck(gate: Gate): Promise<{ id: string; session: Session }> {
    const id = await makeCheck(scene.rest, 'url', 'here', {
      request: { url: `${gate.url}/` },
      degradedResponseTime: null,
      maxResponseTime: null,
    });
    const [session] = await trigger(scene.rest, id);
    await gate.until(1);
    return { id, session: session! };
  }

  const typesOf = async (id: string): Promise<string[]> =>
    (await resultsOf(scene.rest, id)).map(({ resultType }) => resultType);

  test('SIGTERM lets a run end, readiness says 503 meanwhile, and the exit code is 0', async () => {
    await using gate = await startGate(scene.host);
    await using container = await start(uptime.image);
    const { id, session } = await waitingCheck(gate);
    const exit = container.stop(30_000);
    await waitUntil(async () => (await container.get('/-/readiness')).status === 503, 10_000, '503');
    expect(await container.get('/-/liveness')).toMatchObject({ status: 200 });
    gate.open();
    expect(await exit).toBe(0);
    expect(await finished(scene.rest, session)).toMatchObject({ status: 'PASSED' });
    expect(await typesOf(id)).toEqual(['FINAL']);
  });

  test('kill -9 in mid-run: the next container on its data runs it again, and it counts once', async () => {
    await using gate = await startGate(scene.host);
    using volume = newVolume();
    const first = await start(uptime.image, { volume: volume.name });
    const { id, session } = await waitingCheck(gate);
    first.kill();
    await first[Symbol.asyncDispose]();
    await waitUntil(() => gate.waiting() === 0, 5000, 'the end of its probe');
    await using _second = await start(uptime.image, { volume: volume.name });
    await waitUntil(() => gate.arrived() === 2, ENDS_MS, 'the second try');
    gate.open();
    expect(await finished(scene.rest, session)).toMatchObject({ status: 'PASSED' });
    expect(await typesOf(id)).toEqual(['FINAL']);
  });

  test('kill -9 with a result that is not delivered: it arrives once, and nothing runs again', async () => {
    await using gate = await startGate(scene.host);
    using volume = newVolume();
    const first = await start(uptime.image, { volume: volume.name });
    const { id, session } = await waitingCheck(gate);
    await scene.killService();
    gate.open();
    const isKept = async (): Promise<boolean> =>
      (await first.get('/metrics')).text.includes('vedette_agent_spool_results 1\n');
    await waitUntil(isKept, 20_000, 'a result in the spool');
    first.kill();
    await first[Symbol.asyncDispose]();
    await scene.startService();
    await using _second = await start(uptime.image, { volume: volume.name });
    expect(await finished(scene.rest, session)).toMatchObject({ status: 'PASSED' });
    expect(await typesOf(id)).toEqual(['FINAL']);
    expect(gate.arrived()).toBe(1);
  });
});
