import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startAgentProcess, startServiceProcess } from '../test/support/processes.ts';
import { finished, makeLocation, trigger, type ResultEntry, type Rest } from '../test/support/rest.ts';
import { rssMbOf, until } from './measure.ts';

const JOBS = 500;
const CONCURRENCY = 4;
/** Waiting runs expire after six minutes, so the queue is kept short. */
const OUTSTANDING = 12;
const LONGEST_MS = 300_000;

interface Kind {
  name: string;
  /** Of every hundred jobs. */
  share: number;
  route: string;
  fields(target: string): object;
  expected: 'passed' | 'failed';
  /** What the first error must say. */
  says?: RegExp;
}

const page = (body: string): string => `import { test, expect } from '@playwright/test';
test('soak', async ({ page }) => { ${body} });`;
const steps = (body: string): string => `import { test, expect } from '@playwright/test';
test('soak', async ({ request }) => { ${body} });`;
const spec = (script: string, config: object = {}) => ({
  script,
  playwrightConfig: { timeout: 20_000, ...config },
});
const api = (scripts: object) => (target: string) => ({
  request: { method: 'GET', url: target },
  ...scripts,
});

const KINDS: readonly Kind[] = [
  {
    name: 'url passes',
    share: 14,
    route: 'url',
    fields: (url) => ({ request: { url } }),
    expected: 'passed',
  },
  {
    name: 'url refused',
    share: 6,
    route: 'url',
    fields: () => ({ request: { url: 'http://127.0.0.1:9/' } }),
    expected: 'failed',
    says: /refused/i,
  },
  {
    name: 'api script passes',
    share: 14,
    route: 'api',
    fields: api({ localSetupScript: "request.headers['x-soak'] = 'yes'" }),
    expected: 'passed',
  },
  {
    name: 'api script throws',
    share: 5,
    route: 'api',
    fields: api({ localSetupScript: "throw new Error('soak broke')" }),
    expected: 'failed',
    says: /soak broke/,
  },
  {
    name: 'api script hangs',
    share: 3,
    route: 'api',
    fields: api({ localSetupScript: 'for (;;);' }),
    expected: 'failed',
    says: /10 s|10000 ms|10,000 ms/,
  },
  {
    name: 'multistep passes',
    share: 12,
    route: 'multistep',
    fields: (url) => spec(steps(`expect((await request.get('${url}')).ok()).toBe(true)`)),
    expected: 'passed',
  },
  {
    name: 'multistep fails',
    share: 6,
    route: 'multistep',
    fields: (url) => spec(steps(`expect((await request.get('${url}missing')).status()).toBe(200)`)),
    expected: 'failed',
    says: /404|toBe/,
  },
  {
    name: 'browser passes',
    share: 18,
    route: 'browser',
    fields: (url) =>
      spec(page(`await page.goto('${url}'); await expect(page.locator('h1')).toHaveText('soak')`)),
    expected: 'passed',
  },
  {
    name: 'browser fails',
    share: 6,
    route: 'browser',
    fields: (url) =>
      spec(
        page(
          `await page.goto('${url}'); await expect(page.locator('h1')).toHaveText('other', { timeout: 500 })`,
        ),
      ),
    expected: 'failed',
    says: /toHaveText/,
  },
  {
    name: 'browser hangs',
    share: 3,
    route: 'browser',
    fields: (url) => spec(page(`await page.goto('${url}'); await new Promise(() => {})`), { timeout: 3000 }),
    expected: 'failed',
    says: /timeout|timed out|exceeded/i,
  },
  {
    name: 'syntax error',
    share: 3,
    route: 'browser',
    fields: () => ({ script: 'const = 1' }),
    expected: 'failed',
    says: /SyntaxError|unexpected/i,
  },
  {
    name: 'process.exit',
    share: 2,
    route: 'multistep',
    fields: () => ({ script: 'process.exit(7)' }),
    expected: 'failed',
    says: /process\.exit/,
  },
  {
    name: 'memory bomb',
    share: 2,
    route: 'multistep',
    fields: () => ({
      script:
        'const held = []; for (;;) { held.push(Buffer.alloc(1 << 26, 1)); await new Promise(setImmediate); }',
    }),
    expected: 'failed',
    says: /memory/i,
  },
  {
    name: 'fork bomb',
    share: 2,
    route: 'browser',
    fields: () => ({
      script:
        "const { spawn } = require('node:child_process'); for (;;) { spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' }).on('error', () => {}).unref(); await new Promise((r) => setTimeout(r, 5)); }",
    }),
    expected: 'failed',
    says: /process|EPERM|EACCES/i,
  },
  {
    name: 'disk bomb',
    share: 2,
    route: 'multistep',
    fields: () => ({
      script:
        "const fs = require('node:fs'); for (let n = 0; ; n++) { fs.writeFileSync(`f${n}`, Buffer.alloc(1 << 24, 1)); await new Promise(setImmediate); }",
    }),
    expected: 'failed',
    says: /disk|MB|written/i,
  },
  {
    name: 'prints 1 GB',
    share: 2,
    route: 'multistep',
    fields: () => ({
      script:
        "const line = 'x'.repeat(1 << 16); for (let n = 0; n < 1 << 14; n++) { if (!process.stdout.write(line)) await new Promise((r) => process.stdout.once('drain', r)); }",
    }),
    expected: 'passed',
  },
];

/**
 * `npm run bench soak`: 500 jobs, good and hostile, through one service and one agent. Prints what was
 * wrong, what was left behind and the agent's memory; exits non-zero when anything was.
 */
export async function soak(jobs = JOBS): Promise<boolean> {
  const target = await startTarget();
  const url = `http://127.0.0.1:${(target.address() as AddressInfo).port}/`;
  const [serviceDir, agentDir] = [
    await mkdtemp(join(tmpdir(), 'soak-')),
    await mkdtemp(join(tmpdir(), 'soak-')),
  ];
  const service = await startServiceProcess({ dataDir: serviceDir, databaseUrl: undefined }, {});
  try {
    const { key } = await makeLocation(service.rest, 'soak');
    const agent = await startAgentProcess(service.url, key, {
      JOB_CONCURRENCY: String(CONCURRENCY),
      AGENT_DATA_DIR: agentDir,
      PATH: process.env['PATH'] ?? '',
    });
    const before = await processes();
    const startMb = rssMbOf(agent.child.pid!);
    const samples: number[] = [startMb];
    const sampler = setInterval(() => samples.push(rssMbOf(agent.child.pid!)), 1000);
    const begun = performance.now();
    const wrong = await runAll(service.rest, plan(jobs), url);
    const seconds = (performance.now() - begun) / 1000;
    clearInterval(sampler);
    const third = samples.slice(-Math.ceil(samples.length / 3));
    console.log(
      `soak: ${jobs} jobs in ${seconds.toFixed(0)} s at concurrency ${CONCURRENCY}: ${wrong.length} wrong`,
    );
    console.log(
      `agent RSS MB: start ${startMb.toFixed(0)}, highest ${Math.max(...samples).toFixed(0)}, mean of the last third ${(third.reduce((a, b) => a + b, 0) / third.length).toFixed(0)}, end ${samples.at(-1)!.toFixed(0)}`,
    );
    for (const line of wrong) console.log(`WRONG ${line}`);
    // Warm children are meant to be there while the agent runs, zombies never.
    const dead = (await strangers(before)).filter((text) => text.startsWith('zombie'));
    const code = await agent.stop();
    const left = [...dead, ...(await leftovers(agentDir, before))];
    console.log(`left behind: ${left.length === 0 ? 'nothing' : left.join('; ')}`);
    console.log(`agent drained with exit code ${code}`);
    return wrong.length === 0 && left.length === 0 && code === 0;
  } finally {
    await service.stop();
    target.close();
    await Promise.all([serviceDir, agentDir].map((folder) => rm(folder, { recursive: true, force: true })));
  }
}

async function startTarget(): Promise<Server> {
  const server = createServer((request, response) => {
    response.statusCode = request.url === '/' ? 200 : 404;
    response.setHeader('content-type', 'text/html');
    response.end('<!doctype html><title>soak</title><h1>soak</h1>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

/** The kinds by their shares, spread evenly. */
function plan(jobs: number): Kind[] {
  const hundred = KINDS.flatMap((kind) => Array.from({ length: kind.share }, () => kind));
  const stride = 37;
  return Array.from({ length: jobs }, (_, n) => hundred[(n * stride) % hundred.length]!);
}

async function runAll(rest: Rest, kinds: readonly Kind[], url: string): Promise<string[]> {
  const checks = new Map<Kind, string>();
  for (const kind of new Set(kinds)) checks.set(kind, await makeScripted(rest, kind, url));
  const wrong: string[] = [];
  const waiting = [...kinds];
  const worker = async (): Promise<void> => {
    for (let kind = waiting.shift(); kind !== undefined; kind = waiting.shift()) {
      const verdict = await runOne(rest, kind, checks.get(kind)!);
      if (verdict !== undefined) wrong.push(`${kind.name}: ${verdict}`);
    }
  };
  await Promise.all(Array.from({ length: OUTSTANDING }, worker));
  return wrong;
}

async function makeScripted(rest: Rest, kind: Kind, url: string): Promise<string> {
  const { id } = await rest.call<{ id: string }>('POST', `/v1/checks/${kind.route}`, {
    name: kind.name,
    activated: false,
    privateLocations: ['soak'],
    retryStrategy: null,
    doubleCheck: false,
    ...kind.fields(url),
  });
  return id;
}

/** @returns what was wrong with it */
async function runOne(rest: Rest, kind: Kind, checkId: string): Promise<string | undefined> {
  const [session] = await trigger(rest, checkId);
  const { results, runs, status } = await finished(rest, session!, LONGEST_MS);
  const [result] = results;
  if (result === undefined) return `no result: ${status} ${JSON.stringify(runs)}`;
  const { hasFailures, hasErrors } = result;
  const verdict = hasErrors ? 'error' : hasFailures ? 'failed' : 'passed';
  if (verdict === kind.expected && kind.says === undefined) return undefined;
  const entry = await rest.call<ResultEntry & { errors: { message: string }[] }>(
    'GET',
    `/v1/check-results/${checkId}/${result.checkResultId}`,
  );
  const message = entry.errors.map((error) => error.message).join(' | ');
  if (verdict !== kind.expected) return `${verdict} instead of ${kind.expected}: ${message}`;
  return kind.says!.test(message) ? undefined : `the message says: ${message}`;
}

async function processes(): Promise<Set<string>> {
  return new Set((await readdir('/proc')).filter((name) => /^\d+$/.test(name)));
}

/** Browsers, children that carry a job's marker, zombies, and files of jobs. */
async function leftovers(agentDir: string, before: ReadonlySet<string>): Promise<string[]> {
  const found: string[] = [];
  await until(async () => (await strangers(before)).length === 0).catch(() => {});
  found.push(...(await strangers(before)));
  const folders = await readdir(join(agentDir, 'work')).catch((): string[] => []);
  for (const folder of folders) {
    const inside = await readdir(join(agentDir, 'work', folder)).catch((): string[] => []);
    if (inside.includes('src')) found.push(`job folder ${folder}: ${inside.join(' ')}`);
  }
  return found;
}

async function strangers(before: ReadonlySet<string>): Promise<string[]> {
  const found: string[] = [];
  for (const pid of await processes()) {
    if (before.has(pid)) continue;
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
    const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ');
    if (/^State:\s+Z/m.test(status)) found.push(`zombie ${pid}`);
    else if (/chrom|setInterval|f\$\{n\}/.test(command)) found.push(`${pid} ${command.slice(0, 80)}`);
  }
  return found;
}

if (import.meta.main) process.exit((await soak(Number(process.argv[2] ?? JOBS))) ? 0 : 1);
