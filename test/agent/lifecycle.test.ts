import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { ExitCode } from '../../src/kit/errors.ts';
import { connectProxy } from '../support/connect-proxy.ts';
import { standInJob, startTestAgent, temporaryFolder } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';

const timing = { renewEveryMs: 100, leaseMs: 20_000 };

test('a key that is refused at the first start ends the agent with exit code 4 and one line', async () => {
  await using service = await startFakeService();
  await using agent = await startTestAgent({ url: service.url, key: 'pl_not_the_right_key' });
  const error: unknown = await agent.done.catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ exitCode: ExitCode.keyRefused });
  expect(String(error)).toMatch(/refuses API_KEY \.\.\.\w{4}: .*401/);
});

test('a service that is not there yet: not ready with the reason, then ready', async () => {
  await using service = await startFakeService();
  service.refuseUpgrade = 502;
  service.refuseHttp = 502;
  await using agent = await startTestAgent(service);
  const { text } = await until(
    'a reason',
    async_(
      () => agent.health('/-/readiness'),
      ({ text }) => text.includes('502'),
    ),
  );
  expect(JSON.parse(text)).toMatchObject({ ready: false });
  expect((await agent.health('/-/liveness')).status).toBe(200);
  service.refuseUpgrade = undefined;
  service.refuseHttp = undefined;
  await agent.ready;
});

test('a second agent in the same data folder is refused', async () => {
  await using service = await startFakeService();
  using folder = temporaryFolder();
  await using first = await startTestAgent(service, { AGENT_DATA_DIR: folder.path });
  await first.ready;
  await expect(startTestAgent(service, { AGENT_DATA_DIR: folder.path })).rejects.toMatchObject({
    exitCode: ExitCode.storeRefused,
  });
});

test('a service that is gone while checks run: all results arrive afterwards, once', async () => {
  await using service = await startFakeService({ timing });
  await using agent = await startTestAgent(service);
  await agent.ready;
  const jobs = Array.from({ length: 6 }, () => standInJob({ sleepMs: 200 }));
  service.offer(...jobs);
  await service.heard('accept');
  service.refuseHttp = 502;
  service.refuseUpgrade = 502;
  (await service.session()).close(1012);
  await new Promise((resolve) => setTimeout(resolve, 600));
  service.refuseHttp = undefined;
  service.refuseUpgrade = undefined;
  await Promise.all(jobs.map((job) => service.resultOf(job)));
  expect(service.results).toHaveLength(6);
});

test('results that could not be sent are sent by the next start, which lists them in its hello', async () => {
  await using service = await startFakeService({ timing });
  using folder = temporaryFolder();
  const job = standInJob();
  service.record = () => ({ status: 503 });
  {
    await using agent = await startTestAgent(service, { AGENT_DATA_DIR: folder.path });
    await agent.ready;
    service.offer(job);
    await service.heard('renew', ({ running }) => running.some(({ phase }) => phase === 'spooled'));
  }
  await using agent = await startTestAgent(service, { AGENT_DATA_DIR: folder.path });
  await agent.ready;
  const { hello } = service.sessions.at(-1)!;
  expect(hello.agentId).toBe(agent.agentId);
  expect(hello.running).toMatchObject([{ runId: job.runId, token: 1, phase: 'spooled' }]);
  service.record = undefined;
  await service.resultOf(job);
});

test('a second signal gives running checks back now', async () => {
  await using service = await startFakeService({ timing });
  await using agent = await startTestAgent(service);
  await agent.ready;
  const job = standInJob({ sleepMs: 20_000 });
  service.offer(job);
  await service.heard('accept');
  const drained = agent.drain();
  await service.heard('drain');
  await service.heard('renew', ({ running, free }) => running.length === 1 && free === 0);
  agent.kill();
  await drained;
  expect(await service.heard('release')).toEqual({
    runs: [{ runId: job.runId, token: 1 }],
    reason: 'interrupted',
  });
});

test('where sockets do not pass the long poll is used, and the socket again once it passes', async () => {
  await using service = await startFakeService({ timing });
  service.refuseUpgrade = 400;
  await using agent = await startTestAgent(service, {}, { pollForMs: 300 });
  await agent.ready;
  expect((await service.session()).kind).toBe('poll');
  const job = standInJob({ sleepMs: 60_000 });
  service.offer(job);
  await service.heard('accept');
  service.refuseUpgrade = undefined;
  const { hello } = await service.session(({ kind }) => kind === 'socket');
  expect(hello.running).toMatchObject([{ runId: job.runId }]);
  await service.cancel(job);
});

test('sockets that something cuts young lead to the long poll', async () => {
  await using service = await startFakeService({ timing });
  await using agent = await startTestAgent(service);
  await agent.ready;
  for (let cut = 0; cut < 2; cut++) {
    service.cutSockets();
    await service.session(({ epoch }) => epoch > cut + 1);
  }
  expect((await service.session()).kind).toBe('poll');
});

test.each(['socket', 'poll'] as const)('through a proxy, %s and results alike', async (kind) => {
  await using service = await startFakeService({ timing });
  if (kind === 'poll') service.refuseUpgrade = 400;
  await using proxy = await connectProxy();
  await using agent = await startTestAgent(service, { HTTP_PROXY: proxy.url });
  await agent.ready;
  const job = standInJob();
  service.offer(job);
  await service.resultOf(job);
  expect((await service.session()).kind).toBe(kind);
  expect(proxy.asked.length).toBeGreaterThan(1);
  expect(new Set(proxy.asked)).toEqual(new Set([new URL(service.url).host]));
});

test('kill -9 of the agent: its probes end with it, and the next start reports the run as not held', async () => {
  await using service = await startFakeService({ timing });
  using folder = temporaryFolder();
  const first = await startProgram(service, folder.path);
  const job = standInJob({ sleepMs: 60_000 });
  service.offer(job);
  await service.heard('accept');
  const probes = await probePids(first.port);
  first.child.kill('SIGKILL');
  await until('the end of the probes', () => probes.every((pid) => !isAlive(pid)));
  const second = await startProgram(service, folder.path);
  const [before, after] = service.sessions;
  expect(after?.hello.agentId).toBe(before?.hello.agentId);
  expect(after?.hello.instanceId).not.toBe(before?.hello.instanceId);
  expect(after?.hello.running).toEqual([]);
  second.child.kill('SIGTERM');
  const [code] = (await once(second.child, 'exit')) as [number];
  expect(code).toBe(0);
});

test("a Ctrl-C in the terminal reaches the agent's process group, not its probes", async () => {
  await using service = await startFakeService({ timing });
  using folder = temporaryFolder();
  const { child, port } = await startProgram(service, folder.path, true);
  const job = standInJob({ sleepMs: 1_500 });
  service.offer(job);
  await service.heard('accept');
  const probes = await probePids(port);
  process.kill(-child.pid!, 'SIGTERM');
  expect(probes.every(isAlive)).toBe(true);
  expect(await service.resultOf(job)).toMatchObject({ flags: { hasErrors: false, isCancelled: false } });
  const [code] = (await once(child, 'exit')) as [number];
  expect(code).toBe(0);
  expect(probes.some(isAlive)).toBe(false);
});

/** Adapts an asynchronous look to `until`, which asks again and again. */
function async_<T>(ask: () => Promise<T>, good: (found: T) => boolean): () => T | undefined {
  let found: T | undefined;
  let asking = false;
  return () => {
    if (!asking && found === undefined) {
      asking = true;
      void ask().then((answer) => {
        asking = false;
        if (good(answer)) found = answer;
      });
    }
    return found;
  };
}

async function startProgram(
  service: FakeService,
  dataDir: string,
  detached = false,
): Promise<{ child: ChildProcess; port: number }> {
  const program = new URL('../support/agent-program.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, [program], {
    detached,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      API_KEY: service.key,
      AGENT_SERVICE_URL: service.url,
      AGENT_HEALTH_PORT: '0',
      AGENT_DATA_DIR: dataDir,
    },
  });
  const [line] = (await once(child.stdout!, 'data')) as [Buffer];
  return { child, port: Number(line.toString()) };
}

async function probePids(port: number): Promise<number[]> {
  const response = await fetch(`http://127.0.0.1:${port}/health`);
  const { probes } = (await response.json()) as { probes: { pid: number }[] };
  return probes.map(({ pid }) => pid);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
