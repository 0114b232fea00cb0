import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunResult } from '../../src/contract/index.ts';
import { startTestAgent, temporaryFolder, type TestAgent } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { projectWith, suiteJob, suiteResult, type SuiteSpec } from '../support/suites.ts';

/** Suites that take more than they may have, and an agent that has nothing left to give. */

const missing = lacksRuntime('2026.04');
if (missing !== undefined) console.warn(`suites are not tested: ${missing}`);

const MB = 1024 ** 2;
const LIMITS = { memoryBytes: 900 * MB, processes: 60, diskBytes: 400 * MB };

let service: FakeService;
let agent: TestAgent;
const data = temporaryFolder();

beforeAll(async () => {
  service = await startFakeService();
  agent = await startTestAgent(service, { AGENT_DATA_DIR: data.path }, { suiteLimits: LIMITS });
  await service.heard('ready', (d) => (d.freeByClass?.suite ?? 0) > 0);
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  data[Symbol.dispose]();
});

const CONFIG = `export default { testDir: './tests', retries: 0, workers: 1, timeout: 60_000 };`;
const testOf = (body: string): string => `import { test, expect } from '@playwright/test';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
test('is fine', () => {});
test('takes too much', async () => { ${body} });`;

async function run(body: string, spec: SuiteSpec = {}, of = service): Promise<RunResult> {
  using project = projectWith('npm', { 'tests/pages.spec.ts': testOf(body), 'playwright.config.ts': CONFIG });
  const job = await suiteJob(of, project.path, spec);
  await of.session();
  of.offer(job);
  return until('the result', () => of.results.find(({ runId }) => runId === job.runId), 120_000);
}

const processes = (): string => execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' });
const jobFolders = (): string[] => readdirSync(join(data.path, 'suites/work'));

const greedy: [what: string, body: string, code: string, word: RegExp][] = [
  [
    'memory',
    'const held = []; for (;;) { held.push(Buffer.alloc(64 * 1024 * 1024, 1)); await new Promise((r) => setTimeout(r, 20)); }',
    'MEMORY_LIMIT',
    /more memory than the 900 MB .*: run fewer workers/,
  ],
  [
    'processes',
    "for (let i = 0; i < 80; i++) spawn('sleep', ['3218'], { detached: true, stdio: 'ignore' }).unref(); await new Promise(() => {});",
    'PROCESS_LIMIT',
    /more processes than the 60 .*: run fewer workers/,
  ],
  [
    'disk',
    "for (let i = 0; ; i++) { writeFileSync('large' + i, Buffer.alloc(32 * 1024 * 1024, 1)); await new Promise((r) => setTimeout(r, 20)); }",
    'DISK_LIMIT',
    /more than the 400 MB that its files may have: keep fewer files/,
  ],
];

describe.skipIf(missing !== undefined)('a suite', () => {
  test.each(greedy)('that takes too much %s is ended in one sentence', async (_what, body, code, word) => {
    const result = await run(body);
    expect(result.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    expect(result.errors[0]).toMatchObject({ code, message: expect.stringMatching(word) });
    const suite = suiteResult(result);
    expect(suite.jobLog.some(({ msg }) => word.test(msg))).toBe(true);
    expect(suite.tests.map(({ status }) => status)).toEqual(['passed', 'interrupted']);
    expect(jobFolders()).toEqual([]);
    expect(processes()).not.toContain('sleep 3218');
  });

  test('that prints 500 MB has the beginning of it, and a sentence about the rest', async () => {
    const prints =
      "const text = 'x'.repeat(99_999) + '\\n'; for (let i = 0; i < 5_000; i++) process.stdout.write(text)";
    const command = `node -e "${prints}" && npx playwright test`;
    const result = await run('', { testCommand: command });
    expect(result.errors).toEqual([]);
    expect(JSON.stringify(result).length).toBeLessThan(1_000_000);
    const { jobLog } = suiteResult(result);
    expect(jobLog.at(-1)?.msg).toMatch(/^\d+ bytes more were left out/);
  });
});
