import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { findRuntimes, type Runtime } from '../src/agent/runtimes/index.ts';
import type { SuiteResult } from '../src/checks/index.ts';
import { startServiceProcess, type ServiceProcess } from '../test/support/processes.ts';
import { finished, lastSuiteResult, makeLocation, trigger, uploadBundle } from '../test/support/rest.ts';
import { archiveOf } from '../test/support/suites.ts';
import { freePort } from './blackbox.ts';
import { CpuAccount } from './cpu-account.ts';
import { median, until } from './measure.ts';
import type { Row } from './report.ts';

const root = new URL('..', import.meta.url).pathname;
const RUNS = 5;
const WARM_UPS = 1;
const LONGEST_MS = 300_000;
const GOAL = 1.1;

const MANIFEST = {
  name: 'bench',
  version: '1.0.0',
  private: true,
  devDependencies: {
    '@faker-js/faker': '9.9.0',
    '@playwright/test': '1.58.2',
    '@types/node': '24.10.1',
    dotenv: '17.2.3',
    typescript: '5.9.3',
    zod: '4.1.12',
  },
};
/** A suite of half a minute, the shortest that anyone would call one: what is paid once weighs most in it. */
const SPEC = `import { expect, test } from '@playwright/test';
for (let i = 0; i < 40; i++) {
  test('the page ' + i, async ({ page }) => {
    await page.goto(process.env.SITE_URL!);
    await expect(page.getByRole('heading')).toHaveText('Hello');
    for (let n = 0; n < 5; n++) await page.getByRole('button').click();
    await expect(page.getByRole('status')).toHaveText('5');
    await page.getByLabel('Name').fill('somebody');
    await page.reload();
    await expect(page.getByRole('status')).toHaveText('0');
  });
}
`;
const PAGE = `<!doctype html><title>t</title><h1>Hello</h1><label>Name <input></label>
<button onclick="document.querySelector('output').value++">more</button><output>0</output>`;
/** `full`: with the reports and traces that a check adds, so that both sides do the same. */
const config = (full: boolean): string => `import { defineConfig } from '@playwright/test';
export default defineConfig({ workers: 1, retries: 0${full ? FULL : ", reporter: 'list'"} });
`;
const FULL = `, reporter: [['list'], ['json', { outputFile: 'out/report.json' }],
  ['html', { outputFolder: 'out/html', open: 'never' }]], use: { trace: 'on', screenshot: 'only-on-failure' }`;

interface Figures {
  wallMs: number;
  cpuMs: number;
  memoryMb: number;
}

/** A suite on an agent against `npx playwright test` and `npm ci` by hand: goal 13. */
export async function benchSuites(): Promise<Row[]> {
  const runtime = findRuntimes().find(({ playwrightVersion }) => playwrightVersion === '1.58.2');
  if (runtime === undefined) return skipped('runtime 2026.04 is not installed: vedette runtime install');
  const probe = CpuAccount.open('vedette-bench-probe');
  if (probe === undefined) return skipped('processor time of a suite needs root and a writable cgroup');
  await probe.close();
  execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', join(root, 'src')]);
  const bench = await Bench.start(runtime);
  try {
    return await bench.rows();
  } finally {
    await bench.stop();
  }
}

function skipped(why: string): Row[] {
  console.log(`suites skipped: ${why}`);
  return [];
}

class Bench {
  readonly #runtime: Runtime;
  readonly #site: Server;
  readonly #service: ServiceProcess;
  readonly #folder: string;
  readonly #dataDir: string;
  readonly #account = CpuAccount.open(`vedette-bench-suites-${process.pid}`)!;
  #agent: ChildProcess | undefined;

  private constructor(runtime: Runtime, site: Server, service: ServiceProcess, folder: string) {
    this.#runtime = runtime;
    this.#site = site;
    this.#service = service;
    this.#folder = folder;
    this.#dataDir = join(folder, 'agent');
  }

  static async start(runtime: Runtime): Promise<Bench> {
    const folder = mkdtempSync(join(tmpdir(), 'vedette-bench-'));
    // Where a job's own user gets through.
    execFileSync('chmod', ['755', folder]);
    const site = createServer((_request, response) => {
      response.setHeader('content-type', 'text/html');
      response.end(PAGE);
    }).listen(0, '127.0.0.1');
    await once(site, 'listening');
    const service = await startServiceProcess(
      { dataDir: join(folder, 'service'), databaseUrl: undefined },
      {},
    );
    const bench = new Bench(runtime, site, service, folder);
    await bench.#startAgent();
    return bench;
  }

  async stop(): Promise<void> {
    this.#agent?.kill();
    if (this.#agent !== undefined) await once(this.#agent, 'exit');
    await this.#service.stop();
    this.#site.close();
    this.#site.closeAllConnections();
    await this.#account.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async rows(): Promise<Row[]> {
    const project = this.#project(true);
    const coldCi = this.#npmCi(project, join(this.#folder, 'npm-cache'));
    const warmCi = this.#npmCi(project, join(this.#folder, 'npm-cache'));
    const check = await this.#check(project);
    const cold = await this.#runCheck(check);
    const installs: number[] = [];
    let diskMb = 0;
    const ours = await this.#measure(this.#account, async () => {
      const watch = setInterval(
        () => (diskMb = Math.max(diskMb, megabytesOf(join(this.#dataDir, 'suites/work')))),
        500,
      );
      const { result, wallMs } = await this.#runCheck(check);
      clearInterval(watch);
      installs.push(result.install!.ms);
      return wallMs;
    });
    const theirs = await this.#byHand(project);
    const plain = this.#project(false);
    cpSync(join(project, 'node_modules'), join(plain, 'node_modules'), {
      recursive: true,
      verbatimSymlinks: true,
    });
    const asWritten = await this.#byHand(plain);
    const same = 'npx playwright test';
    console.log(
      `agent: a run has at most ${diskMb} MB on disk, its dependencies stay with ${megabytesOf(join(this.#dataDir, 'suites/dependencies'))} MB`,
    );
    return [
      row('suite, warm cache: wall', ours.wallMs, theirs.wallMs, 'ms', same, GOAL),
      row('suite, warm cache: CPU, agent included', ours.cpuMs, theirs.cpuMs, 'ms', same, GOAL),
      row('suite: wall', ours.wallMs, asWritten.wallMs, 'ms', `${same} without traces and reports`),
      row('suite: CPU', ours.cpuMs, asWritten.cpuMs, 'ms', `${same} without traces and reports`),
      row('suite: memory, agent included', ours.memoryMb, theirs.memoryMb, 'MB', same),
      row('install, cold', cold.result.install!.ms, coldCi, 'ms', 'npm ci, empty cache'),
      row('install, cached', median(installs), warmCi, 'ms', 'npm ci, full cache'),
    ];
  }

  /** A folder with the project. */
  #project(full: boolean): string {
    const folder = join(this.#folder, full ? 'full' : 'plain');
    const write = (file: string, text: string): void => {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), text);
    };
    write('package.json', JSON.stringify(MANIFEST));
    write('playwright.config.ts', config(full));
    write('tests/page.spec.ts', SPEC);
    execFileSync('npm', ['install', '--package-lock-only', '--ignore-scripts', '--loglevel=error'], {
      cwd: folder,
    });
    return folder;
  }

  /** @returns ms */
  #npmCi(folder: string, cache: string): number {
    const begun = performance.now();
    const args = ['ci', '--include=dev', '--no-audit', '--no-fund', '--no-progress', '--loglevel=error'];
    const env = { ...process.env, npm_config_cache: cache, PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1' };
    execFileSync('npm', args, { cwd: folder, env });
    return performance.now() - begun;
  }

  async #byHand(project: string): Promise<Figures> {
    const account = CpuAccount.open(`vedette-bench-hand-${process.pid}`)!;
    const env = {
      SITE_URL: this.#siteUrl,
      PLAYWRIGHT_BROWSERS_PATH: this.#runtime.browsers,
      PATH: `${dirname(this.#runtime.node)}:${process.env['PATH']}`,
      HOME: this.#folder,
    };
    const [program, before] = account.command;
    const once_ = async (): Promise<number> => {
      const begun = performance.now();
      const child = spawn(program, [...before, 'npx', 'playwright', 'test'], {
        cwd: project,
        env,
        stdio: 'ignore',
      });
      const [code] = (await once(child, 'exit')) as [number];
      if (code !== 0) throw new Error(`npx playwright test ended with ${code}`);
      return performance.now() - begun;
    };
    try {
      return await this.#measure(account, once_);
    } finally {
      await account.close();
    }
  }

  /** @param run gives its wall time, ms */
  async #measure(account: CpuAccount, run: () => Promise<number>): Promise<Figures> {
    for (let i = 0; i < WARM_UPS; i++) await run();
    let memoryMb = 0;
    const watch = setInterval(() => (memoryMb = Math.max(memoryMb, account.memoryMb)), 500);
    const figures: { wallMs: number; cpuMs: number }[] = [];
    for (let i = 0; i < RUNS; i++) {
      const cpuBefore = account.ms;
      const wallMs = await run();
      figures.push({ wallMs, cpuMs: account.ms - cpuBefore });
    }
    clearInterval(watch);
    return {
      wallMs: median(figures.map(({ wallMs }) => wallMs)),
      cpuMs: median(figures.map(({ cpuMs }) => cpuMs)),
      memoryMb,
    };
  }

  get #siteUrl(): string {
    return `http://127.0.0.1:${(this.#site.address() as AddressInfo).port}/`;
  }

  async #startAgent(): Promise<void> {
    const { key } = await makeLocation(this.#service.rest, 'bench');
    const port = await freePort();
    const [program, before] = this.#account.command;
    this.#agent = spawn(program, [...before, process.execPath, join(root, 'dist/cli/main.js'), 'agent'], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: {
        ...this.#packageSettings(),
        PATH: process.env['PATH'],
        API_KEY: key,
        AGENT_SERVICE_URL: this.#service.url,
        AGENT_DATA_DIR: this.#dataDir,
        AGENT_HEALTH_PORT: String(port),
        AGENT_HEALTH_HOST: '127.0.0.1',
        LOG_LEVEL: 'warn',
      },
    });
    await until(async () => (await fetch(`http://127.0.0.1:${port}/-/readiness`)).ok);
  }

  /** How this machine reaches its registry. */
  #packageSettings(): NodeJS.ProcessEnv {
    const names = /^(npm_config_registry|https?_proxy|no_proxy|node_extra_ca_certs)$/i;
    return Object.fromEntries(Object.entries(process.env).filter(([name]) => names.test(name)));
  }

  /** Uploads the project and makes a check of it. @returns its id */
  async #check(project: string): Promise<string> {
    const { rest } = this.#service;
    const codeBundlePath = await uploadBundle(rest, await archiveOf(project));
    const { id } = await rest.call<{ id: string }>('POST', '/v1/checks/playwright', {
      name: 'bench',
      codeBundlePath,
      frequency: 60,
      activated: false,
      privateLocations: ['bench'],
      environmentVariables: [{ key: 'SITE_URL', value: this.#siteUrl }],
    });
    return id;
  }

  async #runCheck(checkId: string): Promise<{ result: SuiteResult; wallMs: number }> {
    const { rest } = this.#service;
    const begun = performance.now();
    const [session] = await trigger(rest, checkId);
    const { status } = await finished(rest, session!, LONGEST_MS);
    const wallMs = performance.now() - begun;
    const result = await lastSuiteResult(rest, checkId);
    if (status !== 'PASSED') throw new Error(`the suite ended as ${status}: ${result.error?.message ?? ''}`);
    return { result, wallMs };
  }
}

const megabytesOf = (folder: string): number =>
  Number(
    /^\d+/.exec(
      execFileSync('sh', ['-c', `du -sm ${folder} 2>/dev/null || true`], { encoding: 'utf8' }),
    )?.[0] ?? 0,
  );

function row(name: string, ours: number, theirs: number, unit: string, peer: string, atMost?: number): Row {
  const shown = (value: number): string => `${Math.round(value)} ${unit}`;
  return {
    name,
    ours: shown(ours),
    peer: `${shown(theirs)} (${peer})`,
    ratio: ours / theirs,
    ...(atMost === undefined ? {} : { goal: { atMost } }),
  };
}
