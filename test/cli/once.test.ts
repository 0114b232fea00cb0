import { expect, test } from 'vitest';
import { standInJob, startTestAgent, temporaryFolder } from '../support/agent.ts';
import { startFakeService } from '../support/fake-service.ts';
import { freePort } from '../support/targets/ports.ts';
import { runVedette, vedette } from './program.ts';

/** An agent that takes a number of runs and ends. */

const urlJob = (port: number): ReturnType<typeof standInJob> =>
  standInJob({ request: { url: `http://127.0.0.1:${port}/` } });

test.each([
  ['--once', 1],
  ['--once=3', 3],
])('vedette agent %s takes so many runs, sends their results and exits 0', async (option, most) => {
  await using service = await startFakeService();
  using folder = temporaryFolder();
  const program = vedette(['agent', option], {
    cwd: folder.path,
    env: {
      API_KEY: service.key,
      AGENT_SERVICE_URL: service.url,
      AGENT_DATA_DIR: folder.path,
      AGENT_HEALTH_PORT: '0',
      LOG_LEVEL: 'warn',
    },
  });
  const port = await freePort();
  const jobs = Array.from({ length: most + 2 }, () => urlJob(port));
  await service.heard('ready', ({ free }) => free === most);
  service.offer(...jobs);
  expect(await program.ended).toBe(0);
  expect(program.stderr()).toBe('');
  const had = service.results.map(({ runId }) => runId).toSorted((a, b) => a - b);
  expect(had).toEqual(jobs.slice(0, most).map(({ runId }) => runId));
  const { runs } = await service.heard('decline');
  expect(runs.map(({ runId }) => runId)).toEqual(jobs.slice(most).map(({ runId }) => runId));
  expect(await service.heard('bye')).toEqual({ reason: 'drained' });
});

test('--wait ends it when no run comes, and a run under way is not idleness', async () => {
  await using service = await startFakeService();
  await using agent = await startTestAgent(service, {}, { once: { runs: 5, waitMs: 2_000 } });
  await agent.ready;
  const job = standInJob({ sleepMs: 3_000 });
  service.offer(job);
  await agent.done;
  expect(service.results.map(({ runId }) => runId)).toEqual([job.runId]);
  expect(await service.heard('bye')).toEqual({ reason: 'drained' });
});

test('--wait without a service: 5, and where to look', async () => {
  using folder = temporaryFolder();
  const port = await freePort();
  const { code, stderr } = await runVedette(['agent', '--once', '--wait', '1'], {
    cwd: folder.path,
    env: {
      API_KEY: 'pl_0123456789abcdef',
      AGENT_SERVICE_URL: `http://127.0.0.1:${port}`,
      AGENT_DATA_DIR: folder.path,
      AGENT_HEALTH_PORT: '0',
    },
  });
  expect(code).toBe(5);
  expect(stderr).toMatch(
    /^vedette: the service was not reached within 1 s: .*ECONNREFUSED.*'vedette doctor'/,
  );
});

test.each([
  [['--once=0'], /^vedette: --once="0": a whole number from 1 to 1000000 is allowed\./],
  [['--once', '--wait', 'x'], /^vedette: --wait="x": a whole number from 1 to 86400 is allowed\./],
  [['--wait', '5'], /^vedette: agent: --wait needs --once/],
  [['--once', '5'], /^vedette: agent: unexpected argument '5'/],
])('vedette agent %j is bad usage', async (args, line) => {
  const { code, stderr } = await runVedette(['agent', ...args]);
  expect(stderr).toMatch(line);
  expect(code).toBe(2);
});
