import { randomBytes } from 'node:crypto';
import { existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startAgentProcess, startServiceProcess } from '../test/support/processes.ts';
import {
  finished,
  lastSuiteResult,
  makeLocation,
  trigger,
  uploadBundle,
  type Rest,
} from '../test/support/rest.ts';
import { archiveOf, projectWith } from '../test/support/suites.ts';
import { rssMbOf } from './measure.ts';

const RUNS = 100;
const LOOK_EVERY = 10;
const LONGEST_MS = 300_000;
const MB = 1024 * 1024;
/** Of the archives that are kept: some ten of these runs. */
const BUNDLES_MB = 2;
const DEPENDENCIES_MB = 200;
/** Beside the project of each run, so that archives have some size and every run has one of its own. */
const PADDING_BYTES = 200_000;
/** What the agent may grow by after its first ten runs, and what its folder may hold besides its caches. */
const MOST_GROWTH_MB = 60;
const MOST_REST_MB = 30;

const SPEC = `import { expect, test } from '@playwright/test';
test('a page', async ({ page }) => {
  await page.setContent('<h1>Hello</h1>');
  await expect(page.locator('h1')).toHaveText('Hello');
});
test('prints', () => console.log('x'.repeat(10_000)));
`;

interface Look {
  rssMb: number;
  processes: number;
  bundlesMb: number;
  dependenciesMb: number;
  restMb: number;
}

/**
 * `npm run bench suites-soak`: a hundred runs of a suite through one agent, each with an archive of its own.
 * Prints what grows, and exits non-zero when something does that should not, or a run was not as the others.
 */
export async function suitesSoak(runs = RUNS): Promise<boolean> {
  const folders = [mkdtempSync(join(tmpdir(), 'soak-')), mkdtempSync(join(tmpdir(), 'soak-'))] as const;
  const [serviceDir, agentDir] = folders;
  const service = await startServiceProcess({ dataDir: serviceDir, databaseUrl: undefined }, {});
  try {
    const { key } = await makeLocation(service.rest, 'soak');
    const agent = await startAgentProcess(service.url, key, {
      AGENT_DATA_DIR: agentDir,
      BUNDLE_CACHE_SIZE: String(BUNDLES_MB),
      DEPENDENCY_CACHE_SIZE: String(DEPENDENCIES_MB),
    });
    const look = (): Look => lookAt(agent.child.pid!, agentDir);
    const wrong: string[] = [];
    const looks: Look[] = [];
    const seconds: number[] = [];
    for (let n = 1; n <= runs; n++) {
      const begunMs = performance.now();
      wrong.push(...(await runOnce(service.rest, n)));
      seconds.push((performance.now() - begunMs) / 1000);
      if (n % LOOK_EVERY !== 0) continue;
      looks.push(look());
      print(n, seconds.slice(-LOOK_EVERY), looks.at(-1)!);
    }
    wrong.push(...problemsIn(looks));
    const code = await agent.stop();
    if (code !== 0) wrong.push(`the agent ended with ${code}`);
    const left = readdirSync(join(agentDir, 'suites/work'));
    if (left.length > 0) wrong.push(`folders of jobs are left: ${left.join(' ')}`);
    for (const each of wrong) console.log(`WRONG ${each}`);
    console.log(`suites-soak: ${runs} runs, ${wrong.length} wrong`);
    return wrong.length === 0;
  } finally {
    await service.stop();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  }
}

/** @returns what was wrong */
async function runOnce(rest: Rest, n: number): Promise<string[]> {
  using project = projectWith('npm', {
    'tests/pages.spec.ts': SPEC,
    padding: randomBytes(PADDING_BYTES).toString('base64'),
  });
  const codeBundlePath = await uploadBundle(rest, await archiveOf(project.path));
  const { id } = await rest.call<{ id: string }>('POST', '/v1/checks/playwright', {
    name: `soak ${n}`,
    activated: false,
    privateLocations: ['soak'],
    codeBundlePath,
  });
  const [session] = await trigger(rest, id);
  const { status } = await finished(rest, session!, LONGEST_MS);
  const { install, metrics, error } = await lastSuiteResult(rest, id);
  const problems = [
    status === 'PASSED' ? undefined : `${status} ${error?.message ?? ''}`,
    metrics.passed === 2 ? undefined : `${metrics.passed} tests passed`,
    install?.fromCache === n > 1
      ? undefined
      : `installed ${install?.fromCache ? 'from' : 'not from'} the cache`,
  ];
  return problems.filter((each) => each !== undefined).map((each) => `run ${n}: ${each}`);
}

function lookAt(pid: number, folder: string): Look {
  const [bundlesMb, dependenciesMb] = ['bundles', 'dependencies'].map((name) =>
    sizeMb(join(folder, 'suites', name)),
  ) as [number, number];
  return {
    rssMb: rssMbOf(pid),
    processes: descendants(pid),
    bundlesMb,
    dependenciesMb,
    restMb: sizeMb(folder) - bundlesMb - dependenciesMb,
  };
}

/** Without what links lead to: jobs have the packages of a runtime by one. */
function sizeMb(folder: string): number {
  let blocks = 0;
  for (const folders = [folder]; folders.length > 0;) {
    const at = folders.pop()!;
    for (const name of existsSync(at) ? readdirSync(at) : []) {
      const found = lstatSync(join(at, name), { throwIfNoEntry: false });
      blocks += found?.blocks ?? 0;
      if (found?.isDirectory() === true) folders.push(join(at, name));
    }
  }
  return (blocks * 512) / MB;
}

function descendants(pid: number): number {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      // Gone meanwhile.
    }
  }
  const isOurs = (each: number | undefined): boolean =>
    each !== undefined && each > 1 && (each === pid || isOurs(parents.get(each)));
  return [...parents.keys()].filter((each) => each !== pid && isOurs(each)).length;
}

function print(n: number, seconds: readonly number[], look: Look): void {
  const mean = seconds.reduce((a, b) => a + b, 0) / seconds.length;
  const { rssMb, processes, bundlesMb, dependenciesMb, restMb } = look;
  console.log(
    `after ${String(n).padStart(3)} runs: ${mean.toFixed(1)} s each; agent ${rssMb.toFixed(0)} MB, ` +
      `${processes} processes below it; archives ${bundlesMb.toFixed(1)} MB, dependencies ` +
      `${dependenciesMb.toFixed(0)} MB, the rest ${restMb.toFixed(1)} MB`,
  );
}

function problemsIn(looks: readonly Look[]): string[] {
  const [first, last] = [looks[0], looks.at(-1)];
  if (first === undefined || last === undefined) return [];
  const grown = last.rssMb - first.rssMb;
  const problems = [
    grown > MOST_GROWTH_MB ? `the agent grew by ${grown.toFixed(0)} MB` : undefined,
    last.processes > first.processes ? `${last.processes} processes, ${first.processes} before` : undefined,
    last.bundlesMb > BUNDLES_MB ? `archives take ${last.bundlesMb.toFixed(1)} MB` : undefined,
    last.dependenciesMb > DEPENDENCIES_MB
      ? `dependencies take ${last.dependenciesMb.toFixed(0)} MB`
      : undefined,
    last.restMb > MOST_REST_MB ? `the folder has ${last.restMb.toFixed(0)} MB besides` : undefined,
  ];
  return problems.filter((each) => each !== undefined);
}

if (import.meta.main) process.exit((await suitesSoak(Number(process.argv[2] ?? RUNS))) ? 0 : 1);
