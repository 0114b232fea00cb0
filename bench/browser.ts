import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { findRuntimes, type Runtime } from '../src/agent/runtimes/index.ts';
import type { RunFigures } from './browser-worker.ts';
import { CpuAccount } from './cpu-account.ts';
import { median } from './measure.ts';
import type { Row } from './report.ts';

const root = new URL('..', import.meta.url).pathname;
const RUNS = 9;
/** The first ones read files that nobody has read yet. */
const WARM_UPS = 2;

const SCRIPT = `const { chromium } = require('playwright');
(async () => {
  const browser = await chromium.launch(LAUNCH);
  const page = await browser.newPage();
  const response = await page.goto(process.env.SITE_URL);
  if (response.status() !== 200) throw new Error('status ' + response.status());
  const text = await page.textContent('h1');
  if (text !== 'Hello') throw new Error('heading ' + text);
  await browser.close();
})();
`;
const SPEC = `import { expect, test } from '@playwright/test';
test('page', async ({ page }) => {
  const response = await page.goto(process.env.SITE_URL);
  expect(response.status()).toBe(200);
  await expect(page.locator('h1')).toHaveText('Hello');
});
`;
const MULTISTEP = `import { expect, test } from '@playwright/test';
test('request', async ({ request }) => {
  expect((await request.get(process.env.SITE_URL)).status()).toBe(200);
});
`;
/** The same browser without its own sandbox, which root cannot have. */
const ARGS = "{ args: ['--no-sandbox'] }";
const FULL = "{ args: ['--no-sandbox'], executablePath: '/usr/bin/chromium' }";

interface Figures {
  wallMs: number;
  cpuMs: number;
  memoryMb: number;
}

/** Checks with a browser against the same script run by hand: goals 11 and 12. */
export async function benchBrowser(): Promise<Row[]> {
  const [runtime] = findRuntimes();
  if (runtime === undefined)
    return skipped('no runtime is installed; `vedette runtime install` installs one');
  const account = CpuAccount.open('vedette-bench-probe');
  if (account === undefined) return skipped('processor time of a browser needs root and a writable cgroup');
  await account.close();
  execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', join(root, 'src')]);
  const site = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html');
    response.end('<!doctype html><title>t</title><h1>Hello</h1>');
  }).listen(0, '127.0.0.1');
  await once(site, 'listening');
  const bench = new Bench(runtime, `http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  try {
    return await bench.rows();
  } finally {
    site.close();
    site.closeAllConnections();
    bench.close();
  }
}

function skipped(why: string): Row[] {
  console.log(`browser skipped: ${why}`);
  return [];
}

class Bench {
  readonly #runtime: Runtime;
  readonly #url: string;
  readonly #folder = mkdtempSync(join(tmpdir(), 'vedette-bench-'));

  constructor(runtime: Runtime, url: string) {
    this.#runtime = runtime;
    this.#url = url;
    symlinkSync(runtime.modules, join(this.#folder, 'node_modules'));
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async rows(): Promise<Row[]> {
    const plain = await this.#byHand(this.#write('plain.js', SCRIPT.replace('LAUNCH', ARGS)));
    const full = await this.#byHand(this.#write('full.js', SCRIPT.replace('LAUNCH', FULL)));
    const script = this.#write('check.js', SCRIPT.replace('LAUNCH', ''));
    const cold = await this.#inRoom('cold', 'browser', script);
    const warm = await this.#inRoom('warm', 'browser', script);
    const spec = this.#write('check.spec.js', SPEC);
    const coldSpec = await this.#inRoom('cold', 'browser', spec);
    const warmSpec = await this.#inRoom('warm', 'browser', spec);
    const tests = await this.#byHand(this.#runner(spec));
    const steps = await this.#inRoom('warm', 'multistep', this.#write('steps.js', MULTISTEP));
    const nothing = this.#write('nothing.js', 'void 0;');
    const started = await this.#byHand(nothing);
    const dispatched = await this.#inRoom('warm', 'multistep', nothing);
    const byHand = 'node script.js';
    return [
      row('browser check, cold: CPU', cold.cpuMs, plain.cpuMs, 'ms', byHand, 1.15),
      row('browser check, cold: CPU', cold.cpuMs, full.cpuMs, 'ms', `${byHand}, whole Chromium`, 0.65),
      row('browser check, cold: wall', cold.wallMs, plain.wallMs, 'ms', byHand),
      row('browser check, warm: wall', warm.wallMs, plain.wallMs, 'ms', byHand, 0.4),
      row('browser check, warm: CPU with its warm-up', warm.cpuMs, plain.cpuMs, 'ms', byHand),
      row('browser check: memory', cold.memoryMb, plain.memoryMb, 'MB', byHand),
      row('spec, cold: CPU', coldSpec.cpuMs, tests.cpuMs, 'ms', 'playwright test'),
      row('spec, warm: wall', warmSpec.wallMs, tests.wallMs, 'ms', 'playwright test'),
      row('multistep check, warm: wall', steps.wallMs, tests.wallMs, 'ms', 'playwright test'),
      row('multistep check: memory', steps.memoryMb, tests.memoryMb, 'MB', 'playwright test'),
      row('empty script, warm: dispatch to result', dispatched.wallMs, started.wallMs, 'ms', byHand),
    ];
  }

  #write(name: string, text: string): string {
    const file = join(this.#folder, name);
    writeFileSync(file, text);
    return file;
  }

  /** Playwright's own command with one worker and the same browser. */
  #runner(spec: string): string[] {
    const config = this.#write(
      'playwright.config.js',
      `module.exports = { testDir: '.', workers: 1, reporter: 'dot', testMatch: '*.spec.js',
  use: { launchOptions: { args: ['--no-sandbox'] } } };`,
    );
    return [join(this.#runtime.modules, 'playwright/cli.js'), 'test', '--config', config, spec];
  }

  /** @param args a script, or more */
  async #byHand(args: string | string[]): Promise<Figures> {
    const env = {
      SITE_URL: this.#url,
      PLAYWRIGHT_BROWSERS_PATH: this.#runtime.browsers,
      PATH: '/usr/bin:/bin',
      HOME: this.#folder,
    };
    return this.#measure(async (account) => {
      const [program, before] = account.command;
      const begun = performance.now();
      const child = spawn(program, [...before, this.#runtime.node, ...[args].flat()], {
        env,
        cwd: this.#folder,
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      const [code] = (await once(child, 'exit')) as [number];
      if (code !== 0) throw new Error(`${String(args)} ended with ${code}`);
      return performance.now() - begun;
    });
  }

  async #inRoom(warmth: 'warm' | 'cold', kind: string, script: string): Promise<Figures> {
    let worker: ChildProcess | undefined;
    let lines: AsyncIterator<string> | undefined;
    const next = async (): Promise<string> => (await lines!.next()).value as string;
    try {
      return await this.#measure(async (account) => {
        if (worker === undefined) {
          const [program, before] = account.command;
          const entry = new URL('./browser-worker.ts', import.meta.url).pathname;
          const args = [...before, process.execPath, entry, warmth, kind, script, this.#url];
          worker = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
          lines = createInterface({ input: worker.stdout! })[Symbol.asyncIterator]();
          await next();
        }
        worker.stdin!.write('run\n');
        const { ms, passed, message } = JSON.parse(await next()) as RunFigures;
        if (!passed) throw new Error(`the ${kind} check failed: ${message}`);
        await next();
        return ms;
      });
    } finally {
      worker?.stdin?.end('end\n');
      if (worker !== undefined) await once(worker, 'exit');
    }
  }

  /** @param run gives the wall time of one run, ms */
  async #measure(run: (account: CpuAccount) => Promise<number>): Promise<Figures> {
    const account = CpuAccount.open(`vedette-bench-${process.pid}-${Math.floor(performance.now())}`)!;
    try {
      for (let i = 0; i < WARM_UPS; i++) await run(account);
      let memoryMb = 0;
      const watch = setInterval(() => (memoryMb = Math.max(memoryMb, account.memoryMb)), 50);
      const cpuBefore = account.ms;
      const walls: number[] = [];
      for (let i = 0; i < RUNS; i++) walls.push(await run(account));
      clearInterval(watch);
      return { wallMs: median(walls), cpuMs: (account.ms - cpuBefore) / RUNS, memoryMb };
    } finally {
      void account.close();
    }
  }
}

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
