import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Header } from 'tar';
import type { RunResult } from '../../src/contract/index.ts';
import { standInJob, startTestAgent, type TestAgent } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { offerBundle, projectWith, suiteJob, suiteResult, type SuiteSpec } from '../support/suites.ts';

const missing = lacksRuntime('2026.04');
if (missing !== undefined) console.warn(`suites are not tested: ${missing}`);

let service: FakeService;
let agent: TestAgent;

beforeAll(async () => {
  service = await startFakeService();
  agent = await startTestAgent(service);
  await service.heard('ready', (d) => (d.freeByClass?.suite ?? 0) > 0);
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

type Entry = {
  path: string;
  type?: 'File' | 'Directory' | 'SymbolicLink' | 'Link' | 'CharacterDevice' | 'FIFO';
} & {
  linkpath?: string;
  content?: string;
  size?: number;
};

/** An archive with whatever is asked for: our own packer would refuse. */
function archive(entries: readonly Entry[]): Buffer {
  const blocks = entries.flatMap(({ path, type = 'File', linkpath = '', content = '', size }) => {
    const header = new Header({ path, type, linkpath, size: size ?? content.length, mode: 0o644 });
    const block = Buffer.alloc(512);
    header.encode(block);
    const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
    body.write(content);
    return [block, body];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

async function resultOf(bundle: Buffer, spec: SuiteSpec = {}): Promise<RunResult> {
  const job = standInJob(
    { ...offerBundle(service, bundle), frequency: 10, ...spec },
    { checkType: 'PLAYWRIGHT', name: 'hostile', timeoutMs: 300_000 },
  );
  return run(job);
}

async function run(job: ReturnType<typeof standInJob>): Promise<RunResult> {
  await service.session();
  service.offer(job);
  return until('the result', () => service.results.find(({ runId }) => runId === job.runId), 120_000);
}

const PACKAGE: Entry = { path: 'package.json', content: '{}' };
const unsafe: [what: string, entry: Entry, word: RegExp][] = [
  ['a path above it', { path: '../evil', content: 'x' }, /"\.\.\/evil" is no path below its root/],
  ['a path above it, inside', { path: 'a/../../evil', content: 'x' }, /is no path below its root/],
  ['an absolute path', { path: '/etc/evil', content: 'x' }, /"\/etc\/evil" is no path below its root/],
  ['a link out of it', { path: 'a', type: 'SymbolicLink', linkpath: '../../etc' }, /leads out of it/],
  ['an absolute link', { path: 'a', type: 'SymbolicLink', linkpath: '/etc/passwd' }, /leads out of it/],
  ['a hard link out of it', { path: 'a', type: 'Link', linkpath: '../../../etc/passwd' }, /leads out of it/],
  ['a device', { path: 'a', type: 'CharacterDevice' }, /is a CharacterDevice; only files/],
  ['a pipe', { path: 'a', type: 'FIFO' }, /is a FIFO; only files/],
];

describe.skipIf(missing !== undefined)('an archive', () => {
  test.each(unsafe)('with %s is refused in one sentence', async (_what, entry, word) => {
    const result = await resultOf(gzipSync(archive([PACKAGE, entry])));
    expect(result.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    expect(result.errors).toHaveLength(1);
    expect(result.errors[0]).toMatchObject({ code: 'BUNDLE_UNSAFE', message: expect.stringMatching(word) });
  });

  test('that unpacks to a gigabyte and more is refused', async () => {
    const size = 1_100_000_000;
    const head = archive([{ path: 'large', size }]).subarray(0, 512);
    const bomb = zstdCompressSync(Buffer.concat([head, Buffer.alloc(300_000_000)]));
    const result = await resultOf(bomb);
    expect(result.errors[0]).toMatchObject({
      code: 'BUNDLE_TOO_LARGE',
      message: expect.stringContaining('1000 MB'),
    });
  });

  test('with too many entries is refused', async () => {
    const many = Array.from({ length: 50_001 }, (_, i): Entry => ({ path: `f${i}` }));
    const result = await resultOf(gzipSync(archive(many)));
    expect(result.errors[0]).toMatchObject({
      code: 'BUNDLE_TOO_LARGE',
      message: expect.stringContaining('50000'),
    });
  });

  test.each([
    ['is no archive', Buffer.from('hello')],
    ['is damaged', gzipSync(archive([PACKAGE])).subarray(0, 60)],
  ])('that %s says so', async (_what, bytes) => {
    const result = await resultOf(bytes);
    expect(result.flags.hasFailures).toBe(true);
    expect(result.errors[0]?.code).toMatch(/^BUNDLE_(DAMAGED|EMPTY)$/);
  });

  test('that the service has not, or changes, is no fault of the project', async () => {
    const job = standInJob(
      { ...offerBundle(service, gzipSync(archive([PACKAGE]))), frequency: 10 },
      { checkType: 'PLAYWRIGHT', timeoutMs: 300_000 },
    );
    service.bundles.clear();
    const result = await run(job);
    expect(result.flags).toMatchObject({ hasErrors: true, hasFailures: false });
    expect(result.errors[0]?.message).toContain('upload it again');
  });
});

const TEST = `import { test } from '@playwright/test';\ntest('passes', () => {});\n`;
const bad: [what: string, files: Record<string, string>, code: string, word: RegExp, spec?: SuiteSpec][] = [
  [
    'a config that throws',
    { 'playwright.config.ts': 'throw new Error("no such stage");' },
    'BAD_CONFIG',
    /no such stage/,
  ],
  [
    'no tests',
    { 'playwright.config.ts': 'export default { testDir: "nothing" };' },
    'NO_TESTS',
    /no tests were found/,
  ],
  ['code that is none', { 'tests/bad.spec.ts': 'const = 1;' }, 'BAD_CODE', /bad\.spec\.ts/],
  [
    'a module that is missing',
    { 'tests/bad.spec.ts': `import 'not-there';\n${TEST}` },
    'BAD_CODE',
    /not-there/,
  ],
  ['no config', {}, 'NO_CONFIG', /no file other\.config\.ts/, { configPath: 'other.config.ts' }],
  ['no such folder', {}, 'NO_WORKING_DIR', /no folder app/, { workingDir: 'app' }],
  [
    'a failing installation',
    {},
    'INSTALL_FAILED',
    /ended with exit code 3: the disk is haunted/,
    {
      installCommand: 'echo the disk is haunted; exit 3',
    },
  ],
  ['a test command without Playwright', {}, 'NO_PLAYWRIGHT', /ran no Playwright/, { testCommand: 'true' }],
  [
    'a browser that was not asked for',
    {
      'tests/pages.spec.ts': `import { test } from '@playwright/test';\ntest.use({ browserName: 'firefox' });\ntest('opens', async ({ page }) => {});\n`,
      'playwright.config.ts': 'export default { retries: 0 };',
    },
    'BROWSER_NOT_ASKED',
    /firefox/,
  ],
];

describe.skipIf(missing !== undefined)('a project', () => {
  test.each(bad)('with %s is told what to change', async (_what, files, code, word, spec = {}) => {
    using project = projectWith('npm', files);
    const result = await run(await suiteJob(service, project.path, spec));
    expect(result.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    expect(result.errors[0]).toMatchObject({ code, message: expect.stringMatching(word) });
    expect(suiteResult(result).jobLog.some(({ msg }) => word.test(msg))).toBe(true);
  });

  test('sees its variables and none of the agent, and no secret of it is shown', async () => {
    const spec = `import { test } from '@playwright/test';
test('looks', () => { console.log('KEYS ' + Object.keys(process.env).sort()); console.log('TOKEN ' + process.env.TOKEN); });`;
    using project = projectWith('npm', { 'tests/pages.spec.ts': spec });
    const secret = { key: 'TOKEN', value: 'a-very-secret-value', secret: true };
    const job = await suiteJob(service, project.path, {
      isTestSession: true,
      environmentVariables: [secret],
    });
    const result = await run(job);
    expect(JSON.stringify(result)).not.toContain(secret.value);
    const log = suiteResult(result).jobLog.map(({ msg }) => msg);
    const keys =
      log
        .find((line) => line.includes('KEYS '))
        ?.split('KEYS ')[1]
        ?.split(',') ?? [];
    expect(keys).toEqual(expect.arrayContaining(['CHECK_NAME', 'CI', 'SERVICE', 'SERVICE_REGION', 'TOKEN']));
    expect(keys.filter((key) => /^(API_KEY|AGENT_)/.test(key))).toEqual([]);
    expect(log.some((line) => line.includes('TOKEN ') && !line.includes('KEYS'))).toBe(true);
  });

  test('that changes its dependencies changes them for nobody else', async () => {
    const spec = `import { test, expect } from '@playwright/test';
import { existsSync, writeFileSync } from 'node:fs';
test('poisons', () => { expect(existsSync('node_modules/poison')).toBe(false); writeFileSync('node_modules/poison', 'x'); });`;
    using project = projectWith('npm', { 'tests/pages.spec.ts': spec });
    for (let i = 0; i < 2; i++) {
      const result = await run(await suiteJob(service, project.path));
      expect(result.errors).toEqual([]);
    }
  });

  test('that starts daemons and fills the log leaves neither', async () => {
    const spec = `import { test } from '@playwright/test';
import { spawn } from 'node:child_process';
test('forks', () => {
  spawn('/bin/sh', ['-c', 'sleep 3217'], { detached: true, stdio: 'ignore' }).unref();
  for (let i = 0; i < 500; i++) process.stdout.write('x'.repeat(10_000) + '\\n');
});`;
    using project = projectWith('npm', { 'tests/pages.spec.ts': spec });
    const result = await run(await suiteJob(service, project.path));
    expect(result.errors).toEqual([]);
    expect(JSON.stringify(result).length).toBeLessThan(1_000_000);
    const { execFileSync } = await import('node:child_process');
    expect(execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' })).not.toContain('sleep 3217');
  });
});
