import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, truncateSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findRuntimes } from '../../src/agent/runtimes/index.ts';
import { INSTALLED_TOOLS } from '../../src/agent/suites/index.ts';
import type { SuiteResult } from '../../src/checks/index.ts';
import { startTestAgent, type TestAgent } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';
import { lacksChromium, lacksRuntime } from '../support/runtime-root.ts';
import { projectFolder, suiteJob, suiteResult, type SuiteSpec } from '../support/suites.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const missing = lacksRuntime('2026.04') ?? lacksRuntime('2025.04') ?? lacksChromium();
if (missing !== undefined) console.warn(`suites are not tested: ${missing}`);

let service: FakeService;
let agent: TestAgent;
const data = temporaryFolder();

beforeAll(async () => {
  service = await startFakeService();
  agent = await startTestAgent(service, { AGENT_DATA_DIR: data.path });
  await service.heard('ready', (d) => (d.freeByClass?.suite ?? 0) > 0);
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  data[Symbol.dispose]();
});

const MINUTES = 60_000;
/** Of the servers of projects that have one, where they run without the agent. */
const PORT = '4312';

async function run(project: string, spec: SuiteSpec = {}): Promise<SuiteResult> {
  const job = await suiteJob(service, projectFolder(project), spec);
  await until('a free place', () => service.sessions.some((session) => !session.closed));
  service.offer(job);
  const result = await until(
    `the result of ${project}`,
    () => service.results.find(({ runId }) => runId === job.runId),
    4 * MINUTES,
  );
  return suiteResult(result);
}

interface Reported {
  suites?: Reported[];
  specs?: { title: string; tests: { projectName: string; status: string }[] }[];
}

const STATUS: Readonly<Record<string, string>> = {
  expected: 'passed',
  unexpected: 'failed',
  flaky: 'flaky',
  skipped: 'skipped',
};

function verdictsIn(report: Reported): string[] {
  const own = (report.specs ?? []).flatMap(({ title, tests }) =>
    tests.map(({ projectName, status }) => `${projectName}: ${title}: ${STATUS[status]}`),
  );
  return [...own, ...(report.suites ?? []).flatMap((suite) => verdictsIn(suite))].sort();
}

const verdictsOf = ({ tests }: SuiteResult): string[] =>
  tests.map(({ project, titlePath, status }) => `${project}: ${titlePath.at(-1)}: ${status}`).sort();

/** `playwright test` in a copy of the project, by the Node that the agent took for it, without the agent. */
function runDirectly(project: string, { playwrightVersion, engine }: SuiteResult, below: string): string[] {
  using folder = temporaryFolder();
  cpSync(projectFolder(project), folder.path, { recursive: true });
  execFileSync('npm', ['install', '--no-package-lock', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder.path,
    stdio: 'ignore',
  });
  const cwd = join(folder.path, below);
  const report = join(folder.path, 'report.json');
  const places = [
    ...['2025.04', '2026.04'].map((id) => join(import.meta.dirname, '../../runtimes', id)),
    join(data.path, 'suites'),
  ];
  const browsers = places
    .flatMap((place) => [join(place, 'browsers', `${playwrightVersion}-machine`), join(place, 'browsers')])
    .find((place) => hasBrowser(place, folder.path));
  spawnSync('npx', ['playwright', 'test', '--reporter=json'], {
    cwd,
    env: {
      ...process.env,
      PATH: [dirname(nodeOf(engine)), process.env['PATH']].join(':'),
      PORT,
      PLAYWRIGHT_BROWSERS_PATH: browsers,
      PLAYWRIGHT_JSON_OUTPUT_NAME: report,
      PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS: '1',
    },
    stdio: 'ignore',
    timeout: 2 * MINUTES,
  });
  return verdictsIn(JSON.parse(readFileSync(report, 'utf8')) as Reported);
}

/** Bun leads the installation only: the tests are Node's, and any will do. */
function nodeOf(engine: SuiteResult['engine']): string {
  const places = [
    ...findRuntimes().map(({ node, nodeVersion }) => ({ node, version: nodeVersion })),
    ...[INSTALLED_TOOLS, join(data.path, 'suites/tools')].map((tools) => ({
      node: join(tools, `node-${process.platform}-${process.arch}-${engine?.version}`, 'bin/node'),
      version: engine?.version,
    })),
  ];
  const found = places.find(({ node, version }) => version === engine?.version && existsSync(node));
  return found?.node ?? process.execPath;
}

function hasBrowser(place: string, project: string): boolean {
  const file = join(project, 'node_modules/playwright-core/browsers.json');
  const { browsers } = JSON.parse(readFileSync(file, 'utf8')) as {
    browsers: { name: string; revision: string }[];
  };
  const shell = browsers.find(({ name }) => name === 'chromium-headless-shell');
  return existsSync(join(place, `chromium_headless_shell-${shell?.revision}`));
}

interface Case {
  project: string;
  manager: string;
  playwright: string;
  spec?: SuiteSpec;
  below?: string;
}

const cases: Case[] = [
  { project: 'npm', manager: 'npm', playwright: '1.58.2' },
  { project: 'pnpm', manager: 'pnpm', playwright: '1.58.2' },
  { project: 'yarn', manager: 'yarn', playwright: '1.51.1' },
  { project: 'berry', manager: 'yarn', playwright: '1.58.2' },
  { project: 'bun', manager: 'bun', playwright: '1.65.1' },
  {
    project: 'workspace',
    manager: 'npm',
    playwright: '1.58.2',
    spec: { workingDir: 'packages/e2e' },
    below: 'packages/e2e',
  },
  { project: 'setup', manager: 'npm', playwright: '1.51.1' },
  { project: 'web', manager: 'npm', playwright: '1.65.1', spec: { testCommand: 'npm run e2e' } },
];

describe.skipIf(missing !== undefined)('projects', () => {
  test.each(cases)(
    '$project runs as it does by itself, and a second time without an installation',
    async ({ project, manager, playwright, spec = {}, below = '' }) => {
      const first = await run(project, spec);
      expect(first.error).toBeNull();
      expect(first).toMatchObject({ playwrightVersion: playwright, packageManager: { name: manager } });
      expect(first.install?.fromCache).toBe(false);
      const ran = first.tests.filter(({ status }) => status !== 'skipped');
      for (const { attachments, titlePath } of ran) {
        const traces = attachments.filter(({ name }) => name === 'trace');
        expect(traces.length, titlePath.join(' › ')).toBeGreaterThan(0);
        expect(traces.every(({ artifact }) => artifact?.startsWith('artifact:traces/'))).toBe(true);
      }
      expect(verdictsOf(first)).toEqual(runDirectly(project, first, below));
      const second = await run(project, spec);
      expect(second.install?.fromCache).toBe(true);
      expect(verdictsOf(second)).toEqual(verdictsOf(first));
    },
    5 * MINUTES,
  );

  test('projects and tags choose tests', async () => {
    const one = await run('npm', { pwProjects: ['chromium'], pwTags: ['@smoke'] });
    expect(verdictsOf(one)).toEqual(['chromium: shows its heading @smoke: passed']);
  });

  test('dependencies that were kept and are damaged are installed again', async () => {
    const kept = join(data.path, 'suites/dependencies');
    for (const file of readdirSync(kept)) truncateSync(join(kept, file), 100_000);
    const again = await run('npm', { pwTags: ['@smoke'] });
    expect(again.error).toBeNull();
    expect(again.install?.fromCache).toBe(false);
    expect(again.jobLog.some(({ msg }) => msg.includes('installing again'))).toBe(true);
  });

  test('a part of a suite runs its tests and leaves a report that can be merged', async () => {
    const part = await run('yarn', { shard: { index: 1, total: 2 }, shards: 2 });
    expect(part.shard).toEqual({ index: 1, total: 2 });
    expect(part.blobReportFile).toBe('artifact:blob-1.zip');
    expect(part.metrics.total).toBeGreaterThan(0);
    expect(part.metrics.total).toBeLessThan(6);
  });
});
