import { describe, expect, test } from 'vitest';
import { CloseCode } from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';
import { standInJob, startTestAgent, type TestAgent } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';

const TIMING = { renewEveryMs: 60, leaseMs: 20_000 };
/** Longer than any test: ends by cancelling, losing or giving back. */
const LONG = { sleepMs: 60_000 };
const LINK = { openTimeoutMs: 2_000, pingEveryMs: 100, silentMs: 300, pollAnswerMs: 400 };

interface Scene extends AsyncDisposable {
  service: FakeService;
  agent: TestAgent;
}

/** Both transports carry the same messages, so each scenario must come out the same on both. */
describe.each(['socket', 'poll'] as const)('over %s', (kind) => {
  async function scene(
    timing: Parameters<typeof startFakeService>[0] = { timing: TIMING },
    env: Record<string, string> = {},
    options: Parameters<typeof startTestAgent>[2] = {},
  ): Promise<Scene> {
    const service = await startFakeService(timing);
    if (kind === 'poll') service.refuseUpgrade = 400;
    const agent = await startTestAgent(service, env, options);
    await agent.ready;
    return {
      service,
      agent,
      [Symbol.asyncDispose]: async () => {
        await agent[Symbol.asyncDispose]();
        await service[Symbol.asyncDispose]();
      },
    };
  }

  test('hello says who, what and how much; the welcome makes the agent ready', async () => {
    await using s = await scene();
    const { hello, kind: used } = await s.service.session();
    expect(used).toBe(kind);
    expect(hello).toMatchObject({
      agentId: s.agent.agentId,
      agentVersion: '0.1.0',
      protocol: { min: 1, max: 1 },
      slots: { total: 8 },
      running: [],
    });
    expect(hello.capabilities.checkTypes).toEqual(
      expect.arrayContaining(['API', 'URL', 'TCP', 'DNS', 'ICMP']),
    );
    await s.service.heard('ready', ({ free }) => free === 8);
    expect((await s.agent.health('/-/readiness')).status).toBe(200);
  });

  test('an offered run is accepted, executed and its result posted, then its place is free again', async () => {
    await using s = await scene();
    const job = standInJob({ fails: true });
    s.service.offer(job);
    await s.service.heard('accept', ({ runs }) => runs[0]?.runId === job.runId);
    const result = await s.service.resultOf(job);
    expect(result).toMatchObject({
      runId: job.runId,
      token: 1,
      flags: { hasFailures: true, hasErrors: false },
    });
    s.service.forget();
    await s.service.heard('renew', ({ running, free }) => running.length === 0 && free === 8);
  });

  test('a run under way is in every renewal until its result is taken', async () => {
    await using s = await scene();
    const job = standInJob(LONG);
    s.service.offer(job);
    const renewal = await s.service.heard('renew', ({ running }) => running.length === 1);
    expect(renewal.running[0]).toMatchObject({ runId: job.runId, token: 1, phase: 'running' });
    expect(renewal.free).toBe(7);
  });

  test('a finished run stays in the inventory as spooled while the service does not take results', async () => {
    await using s = await scene();
    s.service.record = () => ({ status: 503 });
    const job = standInJob();
    s.service.offer(job);
    await s.service.heard('renew', ({ running }) =>
      running.some((run) => run.runId === job.runId && run.phase === 'spooled'),
    );
    s.service.record = undefined;
    await s.service.resultOf(job);
  });

  test('a run that the service says is lost is ended and leaves no result', async () => {
    await using s = await scene();
    const job = standInJob(LONG);
    s.service.lease = (running) => ({
      lost: running.map(({ runId, token }) => ({ runId, token, why: 'gone' })),
    });
    s.service.offer(job);
    await s.service.heard('renew', ({ running }) => running.length === 1);
    s.service.forget();
    await s.service.heard('renew', ({ running, free }) => running.length === 0 && free === 8);
    expect(s.service.results).toEqual([]);
  });

  test.each(['push', 'lease'] as const)('a cancel by %s ends the run with a cancelled result', async (by) => {
    await using s = await scene();
    const job = standInJob(LONG);
    s.service.offer(job);
    await s.service.heard('accept');
    const runs = [{ runId: job.runId, token: 1 }];
    if (by === 'lease') s.service.lease = () => ({ cancel: runs });
    else (await s.service.session()).send('cancel', { runs, graceMs: 100 });
    expect(await s.service.resultOf(job)).toMatchObject({ flags: { isCancelled: true, hasErrors: false } });
  });

  test('goaway: the agent leaves, comes back after the wait with its runs, and finishes them', async () => {
    await using s = await scene();
    const job = standInJob(LONG);
    s.service.offer(job);
    await s.service.heard('accept');
    const first = await s.service.session();
    first.send('goaway', { retryAfterMs: 50, why: 'deploy' });
    const second = await s.service.session(({ epoch }) => epoch > first.epoch);
    expect(second.hello.running).toMatchObject([{ runId: job.runId, token: 1, phase: 'running' }]);
    expect(second.hello.agentId).toBe(first.hello.agentId);
    expect(await s.service.cancel(job)).toMatchObject({ runId: job.runId, token: 1 });
  });

  test('runs that the welcome drops are ended', async () => {
    await using s = await scene();
    const job = standInJob(LONG);
    s.service.offer(job);
    await s.service.heard('accept');
    s.service.drop = [{ runId: job.runId, token: 1, why: 'taken by another agent' }];
    const first = await s.service.session();
    first.close(CloseCode.goingAway, 'restart');
    await s.service.session(({ epoch }) => epoch > first.epoch);
    s.service.forget();
    await s.service.heard('renew', ({ running, free }) => running.length === 0 && free === 8);
    expect(s.service.results).toEqual([]);
  });

  test('an offer that arrives twice is executed once', async () => {
    await using s = await scene();
    const job = standInJob({ sleepMs: 100 });
    s.service.offer(job);
    s.service.offer(job);
    await s.service.resultOf(job);
    s.service.offer(job);
    s.service.forget();
    await until('two more renewals', () => s.service.said.filter(({ t }) => t === 'renew').length > 1);
    expect(s.service.results).toHaveLength(1);
  });

  test('an offer under a newer token replaces the run; one under an older token is ignored', async () => {
    await using s = await scene();
    const old = standInJob(LONG, { token: 2 });
    s.service.offer(old);
    await s.service.heard('accept', ({ runs }) => runs[0]?.token === 2);
    s.service.offer({ ...old, token: 3, spec: {} });
    s.service.offer({ ...old, token: 1, spec: {} });
    await s.service.resultOf({ ...old, token: 3 });
    s.service.forget();
    await s.service.heard('renew', ({ running, free }) => running.length === 0 && free === 8);
    expect(s.service.results.map(({ token }) => token)).toEqual([3]);
  });

  test('what cannot be taken is declined with its reason, and the rest is taken', async () => {
    await using s = await scene({ timing: TIMING }, { JOB_CONCURRENCY: '1' });
    const good = standInJob({ sleepMs: 200 });
    const strange = standInJob({}, { checkType: 'TELEPATHY' });
    const unreadable = { ...standInJob(), timeoutMs: 'soon' };
    const tooMany = standInJob();
    const session = await s.service.session();
    const jobs = [strange, unreadable, { no: 'ids' }, good, tooMany];
    session.sendRaw({ v: 1, t: 'offer', id: newId(), ep: session.epoch, d: { jobs } });
    const { runs } = await s.service.heard('decline');
    expect(runs.map(({ runId, reason }) => [runId, reason])).toEqual([
      [strange.runId, 'unsupported'],
      [unreadable.runId, 'unreadable'],
      [tooMany.runId, 'no_capacity'],
    ]);
    await s.service.resultOf(good);
  });

  test('messages that are unknown, malformed or of another epoch change nothing', async () => {
    await using s = await scene();
    const session = await s.service.session();
    const job = standInJob();
    for (const raw of [
      null,
      17,
      'text',
      {},
      { t: 'dance' },
      { v: 1, t: 'lease', id: 'x', d: {} },
      { v: 1, t: 'offer', id: 'x', d: 1 },
      { v: 1, t: 'offer', id: 'x', ep: session.epoch + 1, d: { jobs: [job] } },
    ]) {
      session.sendRaw(raw);
    }
    const after = standInJob();
    s.service.offer(after);
    await s.service.resultOf(after);
    expect(s.service.results.map(({ runId }) => runId)).toEqual([after.runId]);
    expect(s.service.sessions).toHaveLength(1);
    expect((await s.agent.health('/metrics')).text).toMatch(/messages_ignored_total\{why="stale_epoch"\} 1/);
  });

  test('a key that is revoked while running: not ready, the spool is kept, the agent stays up', async () => {
    await using s = await scene();
    s.service.record = () => ({ status: 401 });
    const job = standInJob();
    s.service.offer(job);
    await s.service.heard('accept');
    await until('the refused upload', () => s.service.batches.length > 0);
    (await s.service.session()).close(CloseCode.badKey, 'key revoked');
    s.service.refuseHttp = 401;
    s.service.refuseUpgrade = 401;
    const health = await untilHealth(s.agent, 503);
    expect(health).toContain('refuses this agent');
    const { spool } = JSON.parse((await s.agent.health('/health')).text) as { spool: { results: number } };
    expect(spool.results).toBe(1);
  });

  test('another process with the same agent id: this one takes a new id and goes on', async () => {
    await using s = await scene();
    const first = await s.service.session();
    first.close(CloseCode.replaced, 'a newer instance');
    const second = await s.service.session(({ epoch }) => epoch > first.epoch);
    expect(second.hello.agentId).not.toBe(first.hello.agentId);
    expect(second.hello.instanceId).toBe(first.hello.instanceId);
  });

  test('a link that passes nothing any more is found, and the runs go on over the next', async () => {
    await using s = await scene({ timing: { renewEveryMs: 100, leaseMs: 20_000 } }, {}, { linkTiming: LINK });
    const job = standInJob(LONG);
    s.service.offer(job);
    await s.service.heard('accept');
    const first = await s.service.session();
    first.freeze();
    const second = await s.service.session(({ epoch }) => epoch > first.epoch);
    expect(second.hello.running).toMatchObject([{ runId: job.runId }]);
    await s.service.cancel(job);
  });

  test('without confirmation the agent ends a run before its lease is over', async () => {
    await using s = await scene({ timing: { renewEveryMs: 50, leaseMs: 800 } });
    const job = standInJob(LONG);
    s.service.lease = () => undefined;
    s.service.offer(job);
    await s.service.heard('accept');
    const { runs } = await s.service.heard('release', () => true);
    expect(runs).toEqual([{ runId: job.runId, token: 1 }]);
    expect(s.service.results).toEqual([]);
  });

  test('confirmed leases keep a run alive far beyond one lease', async () => {
    await using s = await scene({ timing: { renewEveryMs: 50, leaseMs: 1_000 } });
    const job = standInJob({ sleepMs: 1_800 });
    s.service.offer(job);
    expect(await s.service.resultOf(job)).toMatchObject({ flags: { hasErrors: false, isCancelled: false } });
  });

  test('drain: the run under way finishes, new ones are declined, then bye', async () => {
    await using s = await scene();
    const job = standInJob({ sleepMs: 1_500 });
    const late = standInJob();
    s.service.offer(job);
    await s.service.heard('accept');
    const drained = s.agent.drain();
    expect((await s.agent.health('/-/readiness')).status).toBe(503);
    await s.service.heard('drain');
    await s.service.heard('ready', ({ free }) => free === 0);
    s.service.offer(late);
    expect((await s.service.heard('decline')).runs).toEqual([
      { runId: late.runId, token: 1, reason: 'draining' },
    ]);
    await drained;
    expect(s.service.results.map(({ runId }) => runId)).toEqual([job.runId]);
    expect(s.service.said.at(-1)?.t).toBe('bye');
    expect(s.service.said.findLast(({ t }) => t === 'renew')).toBeDefined();
  });

  test('refused for its version it says so, delivers what it has, and comes again', async () => {
    await using s = await scene();
    const job = standInJob({ sleepMs: 300 });
    s.service.offer(job);
    await s.service.heard('accept');
    const reason = 'agent 0.1.0 is too old for this service: upgrade it to 1.4.0 or newer';
    (await s.service.session()).close(CloseCode.upgradeRequired, reason);
    expect(JSON.parse(await untilHealth(s.agent, 503))).toMatchObject({
      reason: `the service refuses this agent: ${reason}`,
    });
    expect(JSON.parse((await s.agent.health('/health')).text)).toMatchObject({
      connection: { status: 'refused', lastError: reason },
    });
    expect((await s.agent.health('/-/liveness')).status).toBe(200);
    expect((await s.service.resultOf(job)).runId).toBe(job.runId);
    // The first of the slow tries is within 5 s.
    await s.service.session(({ closed }) => !closed);
    await untilHealth(s.agent, 200);
  });

  test('drain past its time: the run is given back', async () => {
    await using s = await scene({ timing: TIMING }, { AGENT_DRAIN_TIMEOUT: '0' });
    const job = standInJob(LONG);
    s.service.offer(job);
    await s.service.heard('accept');
    await s.agent.drain();
    expect(await s.service.heard('release')).toEqual({
      runs: [{ runId: job.runId, token: 1 }],
      reason: 'interrupted',
    });
    expect(s.service.results).toEqual([]);
    expect(s.service.said.at(-1)?.t).toBe('bye');
  });
});

async function untilHealth(agent: TestAgent, status: number): Promise<string> {
  for (let tries = 0; tries < 500; tries++) {
    const found = await agent.health('/-/readiness');
    if (found.status === status) return found.text;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`readiness did not become ${status}`);
}
