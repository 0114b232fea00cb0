import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunResult } from '../../src/contract/index.ts';
import { startTestAgent, type TestAgent } from '../support/agent.ts';
import { connectProxy } from '../support/connect-proxy.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';
import { lacks } from '../support/programs.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { projectWith, suiteJob, suiteResult } from '../support/suites.ts';
import { makeCertificates } from '../support/targets/certificates.ts';
import { freePort, listenOn } from '../support/targets/ports.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** What is around a suite: the proxy of its location, whom its programs trust, and who it is. */

const missing = lacksRuntime('2026.04') ?? lacks('openssl');
if (missing !== undefined) console.warn(`suites are not tested: ${missing}`);

const folder = temporaryFolder();
const authorities = join(folder.path, 'authorities.pem');
const lines: string[] = [];
const site = createServer((request, response) => {
  response.setHeader('content-type', 'text/html');
  response.end(`<title>${request.headers.host} ${request.url}</title>`);
});
let secureSite: ReturnType<typeof createTlsServer>;
let port: number;
let securePort: number;
let service: FakeService;
let agent: TestAgent;

beforeAll(async () => {
  if (missing !== undefined) return;
  mkdirSync(join(folder.path, 'certificates'));
  const { good, trusted, unknown } = {
    ...(await makeCertificates(join(folder.path, 'certificates'))),
    unknown: join(folder.path, 'certificates/unknown.pem'),
  };
  secureSite = createTlsServer(
    { cert: readFileSync(good.chain), key: readFileSync(good.key) },
    (_request, response) => {
      response.setHeader('content-type', 'text/html').end('<title>trusted</title>');
    },
  );
  [port, securePort] = [await listenOn(site), await listenOn(secureSite)];
  writeFileSync(authorities, readFileSync(unknown));
  service = await startFakeService();
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  agent = await startTestAgent(
    service,
    { NODE_EXTRA_CA_CERTS: authorities },
    { log, authoritiesEveryMs: 50 },
  );
  await service.heard('ready', (d) => (d.freeByClass?.suite ?? 0) > 0);
  writeFileSync(authorities, readFileSync(trusted));
  await until('the authorities', () => lines.some((line) => line.includes('loaded again')));
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await service?.[Symbol.asyncDispose]();
  for (const server of [site, secureSite]) {
    server?.close();
    server?.closeAllConnections();
  }
  folder[Symbol.dispose]();
});

async function run(spec: string, proxyUrl: string | null): Promise<RunResult> {
  using project = projectWith('npm', {
    'tests/pages.spec.ts': spec,
    'playwright.config.ts': `export default { testDir: './tests', retries: 0, workers: 1, timeout: 20_000 };`,
  });
  const job = await suiteJob(service, project.path, {}, { proxyUrl });
  await service.session();
  service.offer(job);
  return until('the result', () => service.results.find(({ runId }) => runId === job.runId), 120_000);
}

const failures = (result: RunResult): string[] =>
  suiteResult(result).tests.flatMap(({ titlePath, errors }) =>
    errors.map(({ message }) => `${titlePath.join()}: ${message}`),
  );

describe.skipIf(missing !== undefined)('a suite', () => {
  test('goes through the proxy of its location, trusts what its agent trusts, and is nobody', async () => {
    await using proxy = await connectProxy((asked) =>
      asked.includes('inside.test') ? `127.0.0.1:${port}` : asked,
    );
    const result = await run(
      `import { test, expect } from '@playwright/test';
import { createServer } from 'node:http';
import { execFileSync } from 'node:child_process';
import { getPriority } from 'node:os';
test('a page', async ({ page }) => {
  await page.goto('http://shop.inside.test/page');
  await expect(page).toHaveTitle('shop.inside.test /page');
});
test('requests', async ({ request }) => {
  expect((await request.get('http://api.inside.test/')).status()).toBe(200);
  expect((await fetch('http://fetch.inside.test/')).status).toBe(200);
});
test('a program that is none of Node', () => {
  // Node without what the agent puts before a program: it knows the way by the variables only.
  const env = { PATH: process.env.PATH, NODE_USE_ENV_PROXY: '1' };
  const asks = "fetch('http://native.inside.test/').then((answer) => console.log(answer.status))";
  expect(execFileSync(process.execPath, ['-e', asks], { env, encoding: 'utf8' }).trim()).toBe('200');
  expect(process.env.HTTP_PROXY).toBeUndefined();
});
test('its own server', async () => {
  const server = createServer((_request, response) => response.end('mine'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  expect(await (await fetch('http://127.0.0.1:' + port)).text()).toBe('mine');
  server.close();
});
test('trusts', async ({ page }) => {
  await page.goto('https://localhost:${securePort}/');
  await expect(page).toHaveTitle('trusted');
  expect((await fetch('https://localhost:${securePort}/')).status).toBe(200);
});
test('is nobody, and stands back', () => {
  expect(process.getuid!()).not.toBe(0);
  expect(getPriority()).toBeGreaterThanOrEqual(5);
});`,
      proxy.url,
    );
    expect(failures(result)).toEqual([]);
    expect(result.errors).toEqual([]);
    const hosts = new Set(proxy.asked);
    expect([...hosts].sort()).toEqual(
      ['api', 'fetch', 'native', 'shop'].map((name) => `${name}.inside.test:80`),
    );
  });

  test('behind a proxy that is not there says nothing about its target', async () => {
    const spec = `import { test } from '@playwright/test';
test('a page', async ({ page }) => { await page.goto('http://shop.inside.test/page'); });`;
    const result = await run(spec, `http://127.0.0.1:${await freePort()}`);
    expect(result.flags).toMatchObject({ hasErrors: true, hasFailures: false });
    expect(result.errors[0]).toMatchObject({
      code: 'PROXY_UNREACHABLE',
      message: expect.stringMatching(
        /^the proxy http:\/\/127\.0\.0\.1:\d+ cannot be used: connect ECONNREFUSED/,
      ),
    });
  });

  test('does not reach where clouds keep keys, and is told so', async () => {
    const spec = `import { test, expect } from '@playwright/test';
test('by a browser', async ({ page }) => { await page.goto('http://169.254.169.254/latest'); });
test('by Node', async () => { await fetch('http://169.254.169.254/'); });`;
    const result = await run(spec, null);
    expect(result.flags).toMatchObject({ hasErrors: true, hasFailures: false });
    expect(result.errors[0]).toMatchObject({
      code: 'TARGET_BLOCKED',
      message: expect.stringContaining('where a cloud keeps the keys'),
    });
    expect(suiteResult(result).metrics.failed).toBe(2);
  });
});
