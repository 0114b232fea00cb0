import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import * as tls from 'node:tls';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { PROBE_ENTRY } from '../../src/agent/probes/program.ts';
import type { AgentOptions } from '../../src/agent/index.ts';
import type { Job, RunResult } from '../../src/contract/index.ts';
import { standInJob, startTestAgent, temporaryFolder, type TestAgent } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';
import { lacks } from '../support/programs.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { scriptJob } from '../support/scripts.ts';
import { makeCertificates, type Certificates } from '../support/targets/certificates.ts';
import { listenOn } from '../support/targets/ports.ts';

/** One file of authorities for everything, and that it may change under a running agent. */

const before = tls.getCACertificates('default');
const folder = temporaryFolder();
let certificates: Certificates;
let service: FakeService;
let front: tls.Server;
/** The service and the target have certificates of the same authority. */
let frontUrl: string;
let target: ReturnType<typeof createServer>;
let targetUrl: string;

beforeAll(async () => {
  certificates = await makeCertificates(folder.path);
  const { chain, key } = certificates.good;
  const own = { cert: readFileSync(chain), key: readFileSync(key) };
  service = await startFakeService();
  front = tls.createServer(own, (socket) => {
    const upstream = connect(Number(new URL(service.url).port), '127.0.0.1');
    socket.on('error', () => upstream.destroy());
    upstream.on('error', () => socket.destroy());
    upstream.on('close', () => socket.destroy());
    socket.pipe(upstream).pipe(socket);
  });
  frontUrl = `https://localhost:${await listenOn(front)}`;
  target = createServer(own, (_request, response) => {
    response.setHeader('content-type', 'text/html');
    response.end('<title>trusted</title>');
  });
  targetUrl = `https://localhost:${await listenOn(target)}/`;
});
beforeEach(() => tls.setDefaultCACertificates(before));
afterAll(async () => {
  tls.setDefaultCACertificates(before);
  front.close();
  target.close();
  target.closeAllConnections();
  await service[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const rootOf = (name: 'trusted' | 'unknown'): string =>
  readFileSync(join(folder.path, `${name}.pem`), 'utf8');

/** A mounted secret of Kubernetes: the file is a link through `..data`, which is swapped as a whole. */
function mountedSecret(name: string, text: string): { file: string; swap: (text: string) => void } {
  const mount = join(folder.path, name);
  let version = 0;
  const swap = (content: string): void => {
    const data = `..version${++version}`;
    mkdirSync(join(mount, data), { recursive: true });
    writeFileSync(join(mount, data, 'ca.pem'), content);
    symlinkSync(data, join(mount, '..new'));
    renameSync(join(mount, '..new'), join(mount, '..data'));
  };
  swap(text);
  symlinkSync('..data/ca.pem', join(mount, 'ca.pem'));
  return { file: join(mount, 'ca.pem'), swap };
}

function startAgentWith(file: string, options: Partial<AgentOptions> = {}): Promise<TestAgent> {
  const to = { url: frontUrl, key: service.key };
  return startTestAgent(to, { NODE_EXTRA_CA_CERTS: file }, { authoritiesEveryMs: 50, ...options });
}

function run(job: Job): Promise<RunResult> {
  service.offer(job);
  return service.resultOf(job);
}

test('a file that changes is read again: the service is reached without a restart', async () => {
  const { file, swap } = mountedSecret('swapped', rootOf('unknown'));
  await using agent = await startAgentWith(file);
  await until('the reason', async () => (await agent.health('/-/readiness')).text.includes('NODE_EXTRA_CA'));
  expect(service.sessions).toEqual([]);
  swap(rootOf('trusted'));
  await agent.ready;
});

test.each([
  ['gone', '', /it holds no certificate/],
  ['half', rootHalf, /certificate 1 in it is cut off/],
  ['garbage', rootGarbage, /certificate 1 in it cannot be read/],
] as const)('a file that is %s changes nothing, and the log says so', async (name, broken, why) => {
  const { file, swap } = mountedSecret(name, rootOf('trusted'));
  const lines: string[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  await using agent = await startAgentWith(file, { log, probeEntry: PROBE_ENTRY });
  await agent.ready;
  swap(typeof broken === 'string' ? broken : broken());
  const complaint = await until('a line of the log', () =>
    lines.find((line) => line.includes('cannot be used')),
  );
  expect(complaint).toMatch(why);
  service.forget();
  service.cutSockets();
  await service.heard('hello');
  const old = (await probesOf(agent)).map(({ pid }) => pid);
  for (const pid of old) process.kill(pid, 'SIGKILL');
  await until('new processes', async () => {
    const now = await probesOf(agent);
    return now.some(({ state }) => state === 'ready') && now.every(({ pid }) => !old.includes(pid));
  });
  await until('readiness', async () => (await agent.health('/-/readiness')).status === 200);
  const result = await run(standInJob({ request: { url: targetUrl } }));
  expect(result.errors).toEqual([]);
});

async function probesOf(agent: TestAgent): Promise<{ pid: number; state: string }[]> {
  const { probes } = JSON.parse((await agent.health('/health')).text) as {
    probes: { pid: number; state: string }[];
  };
  return probes;
}

function rootHalf(): string {
  return rootOf('trusted').slice(0, 300);
}

function rootGarbage(): string {
  return rootOf('trusted').replace(/\n.{20}/, `\n${'A'.repeat(20)}`);
}

test('the file counts for requests, scripts and pages', { timeout: 90_000 }, async ({ skip }) => {
  const missing = lacksRuntime('2026.04') ?? lacks('openssl');
  if (missing !== undefined) skip(missing);
  await using agent = await startAgentWith(certificates.trusted, { probeEntry: PROBE_ENTRY });
  await agent.ready;
  const url = await run(standInJob({ request: { url: targetUrl } }));
  expect(url.errors).toEqual([]);
  const fetches = `const { test, expect } = require('@playwright/test');
    test('asks', async ({ request }) => {
      expect((await fetch('${targetUrl}')).status).toBe(200);
      expect((await request.get('${targetUrl}')).status()).toBe(200);
    });`;
  expect((await run(scriptJob('MULTI_STEP', fetches))).errors).toEqual([]);
  const opens = `const { test, expect } = require('@playwright/test');
    test('opens', async ({ page }) => {
      await page.goto('${targetUrl}');
      await expect(page).toHaveTitle('trusted');
    });`;
  expect((await run(scriptJob('BROWSER', opens))).errors).toEqual([]);
});

test('an authority that left the file is none of a page', { timeout: 90_000 }, async ({ skip }) => {
  const missing = lacksRuntime('2026.04');
  if (missing !== undefined) skip(missing);
  const { chain, key } = certificates.unknownRoot;
  const other = createServer({ cert: readFileSync(chain), key: readFileSync(key) }, (_request, response) =>
    response.end('<title>other</title>'),
  );
  const url = `https://localhost:${await listenOn(other)}/`;
  onTestFinished(() => void other.close());
  const { file, swap } = mountedSecret('pages', rootOf('trusted') + rootOf('unknown'));
  await using agent = await startAgentWith(file, { probeEntry: PROBE_ENTRY });
  await agent.ready;
  const opens = `const { test } = require('@playwright/test');
    test('opens', async ({ page }) => { await page.goto('${url}'); });`;
  expect((await run(scriptJob('BROWSER', opens))).errors).toEqual([]);
  swap(rootOf('trusted'));
  await until('the new authorities', () => tls.getCACertificates('default').every((pem) => !isUnknown(pem)));
  const { errors } = await run(scriptJob('BROWSER', opens));
  expect(errors[0]?.message).toContain('net::ERR_CERT_AUTHORITY_INVALID');
});

const isUnknown = (pem: string): boolean => pem.replace(/\s/g, '') === rootOf('unknown').replace(/\s/g, '');
