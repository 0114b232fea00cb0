import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SuiteResult } from '../../src/checks/index.ts';
import { runtimePaths } from '../../src/agent/runtimes/index.ts';
import { engines } from '../support/databases.ts';
import {
  startAgentProcess,
  startServiceProcess,
  startVedette,
  statusOf,
  type AgentProcess,
  type ServiceProcess,
} from '../support/processes.ts';
import { waitUntil } from '../support/programs.ts';
import {
  API_KEY,
  finished,
  makeCheck,
  makeLocation,
  resultsOf,
  trigger,
  type PrivateLocation,
} from '../support/rest.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { archiveOf, projectWith } from '../support/suites.ts';
import { startGate } from '../support/targets/gate.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const RUNTIME = '2026.04';
const missing = lacksRuntime(RUNTIME);
if (missing !== undefined) console.warn(`suites with a real service are not tested: ${missing}`);

/** A suite begins within seconds on a machine that does nothing else. */
const PATIENCE_MS = 90_000;

/** Tests that end at once, and one in each file that waits at the gate. */
const spec = (file: string): string => `const { test } = require('@playwright/test');
for (const n of [1, 2]) test('${file} ' + n, async () => { await test.step('a step', () => {}); });
test('${file} waits', async () => { await fetch(process.env.GATE + '/${file}'); });
`;
const PROJECT = {
  'playwright.config.ts': '',
  'playwright.config.js': `module.exports = {
  testDir: '.', testMatch: '*.spec.js', timeout: 0, workers: 1, retries: 0 };`,
  'a.spec.js': spec('a'),
};
const TWO_FILES = { ...PROJECT, 'b.spec.js': spec('b') };

interface Tested {
  status: string;
  results: { sequenceId: string; isCancelled: boolean; status: string; resultType: string }[];
}

/** Of a test on a machine that has ten times as much to do. */
const timeout = 300_000;

describe.skipIf(missing !== undefined)('suites, with a real service and real agents', { timeout }, () => {
  const [engine] = engines();
  const folders = [temporaryFolder(), temporaryFolder()] as const;
  let service: ServiceProcess;
  let location: PrivateLocation;

  /** The lease is short for the agent that is killed, and long enough for machines that are busy. */
  beforeAll(async () => {
    await engine!.start();
    service = await startServiceProcess(await engine!.fresh(), { LEASE_SECONDS: '10' });
    location = await makeLocation(service.rest, 'here');
  });
  afterAll(async () => {
    await service.kill();
    await engine!.stop();
    for (const folder of folders) folder[Symbol.dispose]();
  });

  /** What one test has installed the next finds in the cache of the same agent. */
  const startAgent = async (at: 0 | 1): Promise<AgentProcess> =>
    startAgentProcess(service.url, location.key, { AGENT_DATA_DIR: folders[at].path });

  async function upload(files: Record<string, string>): Promise<string> {
    using project = projectWith('npm', files);
    const answer = await fetch(`${service.url}/next/storage/upload-code-bundle`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/octet-stream' },
      body: Uint8Array.from(await archiveOf(project.path)),
    });
    return ((await answer.json()) as { key: string }).key;
  }

  async function makeSuite(files: Record<string, string>, fields: object = {}): Promise<string> {
    const body = {
      name: 'a suite',
      codeBundlePath: await upload(files),
      configPath: 'playwright.config.js',
      activated: false,
      privateLocations: [location.slugName],
      ...fields,
    };
    return (await service.rest.call<{ id: string }>('POST', '/v1/checks/playwright', body)).id;
  }

  const gateOf = (url: string): object => ({ environmentVariables: [{ key: 'GATE', value: url }] });

  const suiteOf = async (checkId: string): Promise<SuiteResult> => {
    const [result] = await resultsOf(service.rest, checkId);
    return result!['playwrightCheckResult'] as SuiteResult;
  };
  const verdicts = ({ tests }: SuiteResult): string[] =>
    tests.map(({ titlePath, status }) => `${titlePath.join()} ${status}`).toSorted();
  const WHOLE = ['a 1 passed', 'a 2 passed', 'a waits passed'];

  test('a scheduled suite keeps no short check waiting', async () => {
    await using gate = await startGate();
    await using _agent = await startAgent(0);
    const suite = await makeSuite(PROJECT, { ...gateOf(gate.url), activated: true, frequency: 60 });
    await gate.until(1, PATIENCE_MS);
    await using other = await startGate();
    other.open();
    const url = await makeCheck(service.rest, 'url', location.slugName, {
      request: { url: `${other.url}/` },
    });
    for (let run = 0; run < 3; run++) {
      const [session] = await trigger(service.rest, url);
      expect(await finished(service.rest, session!, 10_000)).toMatchObject({ status: 'PASSED' });
    }
    expect(gate.waiting()).toBe(1);
    gate.open();
    await waitUntil(async () => (await resultsOf(service.rest, suite)).length === 1, 30_000, 'its result');
    expect(verdicts(await suiteOf(suite))).toEqual(WHOLE);
    await service.rest.call('PUT', `/v1/checks/playwright/${suite}`, { activated: false });
  });

  test('a cancelled test session ends within ten seconds, with what was found and its traces', async () => {
    await using gate = await startGate();
    await using _agent = await startAgent(0);
    const started = await service.rest.call<{ testSessionId: string; sequenceIds: { s: string } }>(
      'POST',
      '/v1/test-sessions/run',
      {
        name: 'to be cancelled',
        runLocation: location.slugName,
        checkRunJobs: [
          {
            checkType: 'PLAYWRIGHT',
            logicalId: 's',
            name: 'a suite',
            codeBundlePath: await upload(PROJECT),
            configPath: 'playwright.config.js',
            ...gateOf(gate.url),
          },
        ],
      },
    );
    await gate.until(1, PATIENCE_MS);
    const path = `/v1/test-sessions/${started.testSessionId}`;
    const askedMs = performance.now();
    await service.rest.call('POST', `${path}/cancel`);
    const session = await service.rest.call<Tested>('GET', `${path}/completion?maxWaitSeconds=30`);
    expect(performance.now() - askedMs).toBeLessThan(10_000);
    expect(session).toMatchObject({
      status: 'CANCELLED',
      results: [{ isCancelled: true, status: 'CANCELLED', resultType: 'FINAL' }],
    });
    const of = `${path}/results/${started.sequenceIds.s}`;
    const result = await service.rest.call<{ playwrightCheckResult: SuiteResult }>('GET', of);
    expect(verdicts(result.playwrightCheckResult)).toEqual([
      'a 1 passed',
      'a 2 passed',
      'a waits interrupted',
    ]);
    const traces = async (): Promise<string[]> => {
      const { assets } = await service.rest.call<{ assets: { name: string; state: string }[] }>(
        'GET',
        `${of}/assets?type=trace`,
      );
      return assets.map(({ name, state }) => `${name} ${state}`);
    };
    await waitUntil(async () => !(await traces()).join().includes('pending'), 10_000, 'the traces');
    expect(await traces()).toEqual(
      expect.arrayContaining(['traces/a-1.zip stored', 'traces/a-2.zip stored']),
    );
  });

  test('a suite in two parts runs on two agents at once, and is one result with one report', async () => {
    await using gate = await startGate();
    await using _first = await startAgent(0);
    await using _second = await startAgent(1);
    using project = projectWith('npm', TWO_FILES);
    // What the command merges the reports with; it is left out of the archive.
    symlinkSync(runtimePaths(RUNTIME).modules, join(project.path, 'node_modules'));
    const env = ['--env', `GATE=${gate.url}`];
    const flags = ['--', '--config', 'playwright.config.js'];
    const command = ['pw-test', '--location', location.slugName, '--shards', '2', ...env, ...flags];
    await using program = startVedette(
      command,
      { VEDETTE_URL: service.url, VEDETTE_API_KEY: API_KEY },
      { cwd: project.path },
    );
    await gate.until(2, PATIENCE_MS);
    gate.open();
    expect(await program.exited, program.output()).toBe(0);
    expect(program.output()).toMatch(/PASSED {2}6 passed/);
    const { entries } = await service.rest.call<{ entries: { id: string }[] }>('GET', '/v1/test-sessions');
    const path = `/v1/test-sessions/${entries[0]!.id}`;
    const { results } = await service.rest.call<Tested>('GET', path);
    expect(results).toHaveLength(1);
    const of = `${path}/results/${results[0]!.sequenceId}`;
    const { playwrightCheckResult: suite } = await service.rest.call<{ playwrightCheckResult: SuiteResult }>(
      'GET',
      of,
    );
    expect(verdicts(suite)).toEqual([...WHOLE, 'b 1 passed', 'b 2 passed', 'b waits passed']);
    expect(suite).toMatchObject({ shard: null, error: null, metrics: { total: 6, passed: 6, failed: 0 } });
    const report = join(project.path, 'vedette-report');
    for (const blob of ['blob-1.zip', 'blob-2.zip'])
      expect(existsSync(join(report, 'blobs', blob))).toBe(true);
    expect(readFileSync(join(report, 'html/index.html'), 'utf8')).toContain('playwrightReport');
  });

  test('kill -9 of an agent in mid-suite: another one runs all of it, and it counts once', async () => {
    await using gate = await startGate();
    await using first = await startAgent(0);
    const suite = await makeSuite(PROJECT, gateOf(gate.url));
    const [session] = await trigger(service.rest, suite);
    await gate.until(1, PATIENCE_MS);
    await using second = await startAgent(1);
    await first.kill();
    await waitUntil(() => gate.waiting() === 0, 5000, 'the end of its tests');
    await gate.until(2, PATIENCE_MS);
    gate.open();
    expect(await finished(service.rest, session!, 60_000)).toMatchObject({ status: 'PASSED' });
    const results = await resultsOf(service.rest, suite);
    expect(results.map(({ resultType }) => resultType)).toEqual(['FINAL']);
    expect(verdicts(await suiteOf(suite))).toEqual(WHOLE);
    expect(second.child.exitCode).toBeNull();
  });

  test('SIGTERM with a suite under way: it finishes with all its files, exit 0', async () => {
    await using gate = await startGate();
    await using agent = await startAgent(0);
    const suite = await makeSuite(PROJECT, gateOf(gate.url));
    const [session] = await trigger(service.rest, suite);
    await gate.until(1, PATIENCE_MS);
    agent.child.kill('SIGTERM');
    await waitUntil(async () => (await statusOf(`${agent.healthUrl}/-/readiness`)) === 503, 1000, '503');
    expect(gate.waiting()).toBe(1);
    gate.open();
    expect(await agent.exited).toBe(0);
    expect(await finished(service.rest, session!)).toMatchObject({ status: 'PASSED' });
    const [result] = await resultsOf(service.rest, suite);
    expect(verdicts(await suiteOf(suite))).toEqual(WHOLE);
    const { assets } = await service.rest.call<{ assets: { state: string }[] }>(
      'GET',
      `/v1/check-results/${suite}/${result!.id}/assets`,
    );
    expect(assets.length).toBeGreaterThan(3);
    expect(new Set(assets.map(({ state }) => state))).toEqual(new Set(['stored']));
  });
});
