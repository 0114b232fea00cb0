import { mkdtemp, rm } from 'node:fs/promises';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startAgentProcess, startServiceProcess } from '../test/support/processes.ts';
import { finished, makeLocation, trigger, type Rest } from '../test/support/rest.ts';
import { CpuAccount } from './cpu-account.ts';
import { until } from './measure.ts';

const WARM_UP_MS = 5_000;
const MEASURE_MS = 25_000;

const spec = (script: string): object => ({ script, playwrightConfig: { timeout: 20_000 } });
const KINDS: readonly { name: string; route: string; outstanding: number; fields(url: URL): object }[] = [
  { name: 'URL', route: 'url', outstanding: 64, fields: (url) => ({ request: { url: url.href } }) },
  {
    name: 'TCP',
    route: 'tcp',
    outstanding: 64,
    fields: ({ hostname, port }) => ({ request: { hostname, port: Number(port) } }),
  },
  {
    name: 'ICMP, 10 packets',
    route: 'icmp',
    outstanding: 64,
    fields: ({ hostname }) => ({ request: { hostname } }),
  },
  {
    name: 'API',
    route: 'api',
    outstanding: 64,
    fields: (url) => ({ request: { method: 'GET', url: url.href } }),
  },
  {
    name: 'API with a script',
    route: 'api',
    outstanding: 8,
    fields: (url) => ({
      request: { method: 'GET', url: url.href },
      localSetupScript: "request.headers['x-a'] = 'b'",
    }),
  },
  {
    name: 'multistep',
    route: 'multistep',
    outstanding: 8,
    fields: (url) =>
      spec(`import { test, expect } from '@playwright/test';
test('t', async ({ request }) => { expect((await request.get('${url.href}')).ok()).toBe(true); });`),
  },
  {
    name: 'browser',
    route: 'browser',
    outstanding: 4,
    fields: (url) =>
      spec(`import { test, expect } from '@playwright/test';
test('t', async ({ page }) => { await page.goto('${url.href}'); await expect(page.locator('h1')).toHaveText('Hello'); });`),
  },
];

interface Sized {
  perMinute: number;
  cpuMs: number;
  /** Of the agent with all that it runs, MB. */
  memoryMb: number;
}

/** `npm run bench sizing`: how much work of each kind one agent does on this machine, service and target beside it. */
export async function sizing(): Promise<void> {
  const account = CpuAccount.open(`vedette-sizing-${process.pid}`);
  if (account === undefined) return console.log('sizing skipped: it needs root and a writable cgroup');
  const target = await startTarget();
  const url = new URL(`http://127.0.0.1:${(target.address() as AddressInfo).port}/`);
  const dataDir = await mkdtemp(join(tmpdir(), 'sizing-'));
  const service = await startServiceProcess({ dataDir, databaseUrl: undefined }, {});
  try {
    const { key } = await makeLocation(service.rest, 'sizing');
    const [program, before] = account.command;
    await using agent = await startAgentProcess(service.url, key, {}, { within: [program, ...before] });
    const isReady = async () =>
      (await fetch(`${agent.healthUrl}/-/readiness`).catch(() => null))?.ok ?? false;
    await until(isReady);
    await delay(WARM_UP_MS);
    const idleMb = account.memoryMb;
    console.log(`agent at rest with its warm processes: ${idleMb.toFixed(0)} MB`);
    console.log('| kind | runs a minute | CPU of the agent per run | memory, highest |');
    console.log('|---|---|---|---|');
    for (const kind of KINDS) {
      const checkId = await makeRun(service.rest, kind.route, kind.name, kind.fields(url));
      const { perMinute, cpuMs, memoryMb } = await size(service.rest, account, checkId, kind.outstanding);
      console.log(
        `| ${kind.name} | ${perMinute.toFixed(0)} | ${cpuMs.toFixed(cpuMs < 10 ? 1 : 0)} ms | ${memoryMb.toFixed(0)} MB |`,
      );
    }
  } finally {
    await service.stop();
    target.close();
    await rm(dataDir, { recursive: true, force: true });
    await account.close();
  }
}

async function startTarget(): Promise<Server> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html');
    response.end('<!doctype html><title>t</title><h1>Hello</h1>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function makeRun(rest: Rest, route: string, name: string, fields: object): Promise<string> {
  const { id } = await rest.call<{ id: string }>('POST', `/v1/checks/${route}`, {
    name,
    activated: false,
    privateLocations: ['sizing'],
    retryStrategy: null,
    doubleCheck: false,
    ...fields,
  });
  return id;
}

/** Keeps the agent busy: each of so many clients triggers a run when its last one has ended. */
async function size(rest: Rest, account: CpuAccount, checkId: string, outstanding: number): Promise<Sized> {
  let done = 0;
  let isOver = false;
  const client = async (): Promise<void> => {
    while (!isOver) {
      const [session] = await trigger(rest, checkId);
      const { status } = await finished(rest, session!, 120_000);
      if (!['PASSED', 'DEGRADED'].includes(status)) throw new Error(`a run of ${checkId} is ${status}`);
      done++;
    }
  };
  const clients = Promise.all(Array.from({ length: outstanding }, client));
  await Promise.race([clients, delay(WARM_UP_MS)]);
  const before = { done, cpuMs: account.ms, at: performance.now() };
  let memoryMb = 0;
  const sampler = setInterval(() => (memoryMb = Math.max(memoryMb, account.memoryMb)), 250);
  await Promise.race([clients, delay(MEASURE_MS)]);
  clearInterval(sampler);
  const runs = done - before.done;
  const minutes = (performance.now() - before.at) / 60_000;
  const sized = { perMinute: runs / minutes, cpuMs: (account.ms - before.cpuMs) / runs, memoryMb };
  isOver = true;
  await clients;
  return sized;
}
