import { execFileSync, spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunResult } from '../../src/contract/index.ts';
import { startTestAgent, temporaryFolder, type TestAgent } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { projectWith, suiteJob, suiteResult } from '../support/suites.ts';

/** The agent's data folder on a disk of its own, which is full at times. */

const data = temporaryFolder();
const mount = (options: string): boolean =>
  spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', data.path]).status === 0;
const missing =
  lacksRuntime('2026.04') ??
  (process.getuid?.() === 0 && mount('size=24m,mode=700') ? undefined : 'no file system may be mounted here');
if (missing !== undefined) console.warn(`full disks are not tested: ${missing}`);

let service: FakeService;
let agent: TestAgent;

beforeAll(async () => {
  if (missing !== undefined) return;
  service = await startFakeService();
  agent = await startTestAgent(service, { AGENT_DATA_DIR: data.path });
  await service.heard('ready', (d) => (d.freeByClass?.suite ?? 0) > 0);
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await service?.[Symbol.asyncDispose]();
  spawnSync('umount', ['-l', data.path]);
  data[Symbol.dispose]();
});

const resize = (megabytes: number): string =>
  execFileSync('mount', ['-o', `remount,size=${megabytes}m`, data.path], { encoding: 'utf8' });

async function run(body = ''): Promise<RunResult> {
  using project = projectWith('npm', {
    'playwright.config.ts': `export default { testDir: './tests', retries: 0, workers: 1, timeout: 3_000 };`,
    'tests/pages.spec.ts': `import { test } from '@playwright/test';
import { writeFileSync } from 'node:fs';
test('writes', () => { ${body} });`,
  });
  const job = await suiteJob(service, project.path);
  await service.heard('ready', (d) => (d.freeByClass?.suite ?? 0) > 0);
  service.offer(job);
  return until('the result', () => service.results.find(({ runId }) => runId === job.runId), 120_000);
}

function expectFull(result: RunResult): void {
  expect(result.flags).toMatchObject({ hasErrors: true, hasFailures: false });
  expect(result.errors[0]).toMatchObject({
    code: 'DISK_FULL',
    message: expect.stringMatching(/^the disk of this agent is full: make room in its data folder/),
  });
  expect(suiteResult(result).jobLog.some(({ msg }) => msg.includes('is full'))).toBe(true);
}

describe.skipIf(missing !== undefined)('a full disk', () => {
  test('is no fault of the suite, and the next run works when there is room', async () => {
    expectFull(await run());
    resize(600);
    const second = await run();
    expect(second.errors).toEqual([]);
    expect(second.flags).toMatchObject({ hasErrors: false, hasFailures: false });
  });

  test('that a test comes upon is none either', async () => {
    resize(160);
    const writes = 'for (let i = 0; ; i++) writeFileSync("part" + i, Buffer.alloc(4 * 1024 * 1024, 1));';
    expectFull(await run(writes));
    resize(600);
    expect((await run()).errors).toEqual([]);
  });
});
