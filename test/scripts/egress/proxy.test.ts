import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TryReport } from '../../../src/checks/execute.ts';
import { connectProxy } from '../../support/connect-proxy.ts';
import { describeUnless } from '../../support/programs.ts';
import { freePort, listenOn } from '../../support/targets/ports.ts';
import { lacksRuntime, startScripts } from './bench.ts';

/** Scripts and browsers of a location that has a proxy: TCP through tunnels, names looked up by the proxy. */

const site = createServer((request, response) => {
  response.setHeader('content-type', 'text/html');
  response.end(`<title>${request.headers.host} ${request.url}</title>`);
});
let port: number;
beforeAll(async () => {
  port = await listenOn(site);
});
afterAll(() => {
  site.close();
  site.closeAllConnections();
});

/** Nobody else knows names below `inside.test`. */
const startProxy = (): ReturnType<typeof connectProxy> =>
  connectProxy((asked) => (asked.includes('inside.test') ? `127.0.0.1:${port}` : asked));

const withPassword = (url: string): string => url.replace('//', '//me:s3cr3t-word@');
/** The machine's name servers are not asked. */
const NO_SERVERS = { servers: ['127.0.0.1:1'] };

describe('scripts behind the proxy of their location', () => {
  test('reach names that only the proxy knows, addresses, and whatever speaks TCP', async () => {
    await using proxy = await startProxy();
    const { run } = startScripts({ proxyUrl: proxy.url, ...NO_SERVERS });
    const { printed, answer } = await run(`
      const answer = await fetch('http://shop.inside.test/a');
      console.log(answer.status, await answer.text());
      console.log((await fetch('http://127.0.0.1:${port}/b')).status);
      const socket = require('node:net').connect(7777, 'queue.inside.test');
      socket.on('error', (error) => console.log(String(error)));
      await new Promise((resolve) => socket.once('connect', resolve));
      socket.end('GET /c HTTP/1.0\\r\\n\\r\\n');
      for await (const chunk of socket) console.log(String(chunk).split('\\r\\n')[0]);`);
    expect(answer.error).toBeNull();
    expect(printed.split('\n')).toEqual(['200 <title>shop.inside.test /a</title>', '200', 'HTTP/1.1 200 OK']);
    expect(proxy.asked).toEqual(['shop.inside.test:80', `127.0.0.1:${port}`, 'queue.inside.test:7777']);
  });

  test('go directly where NO_PROXY says so', async () => {
    await using proxy = await startProxy();
    const { run } = startScripts({ proxyUrl: proxy.url, noProxy: `127.0.0.0/8, localhost` });
    const { printed } = await run(`
      console.log((await fetch('http://127.0.0.1:${port}/')).status);
      console.log((await fetch('http://localhost:${port}/')).status);
      console.log((await fetch('http://shop.inside.test/')).status);`);
    expect(printed).toBe('200\n200\n200');
    expect(proxy.asked).toEqual(['shop.inside.test:80']);
  });

  test('the policy counts for names that only the proxy knows, too', async () => {
    await using proxy = await startProxy();
    const { run } = startScripts({ proxyUrl: proxy.url, blocked: '*.inside.test 10.0.0.0/8', ...NO_SERVERS });
    const { printed } = await run(`
      for (const host of ['shop.inside.test', '10.1.2.3', '127.0.0.1:${port}'])
        await fetch('http://' + host).then(
          ({ status }) => console.log(status),
          ({ cause }) => console.log(cause.code),
        );`);
    expect(printed.split('\n').filter((line) => !line.startsWith('WARN'))).toEqual([
      'ERR_TARGET_BLOCKED',
      'ERR_TARGET_BLOCKED',
      '200',
    ]);
    expect(proxy.asked).toEqual([`127.0.0.1:${port}`]);
  });
});

const outcomeOf = ({ flags, errors }: TryReport): { isOurs: boolean; code: string; message: string } => ({
  isOurs: flags.hasErrors,
  code: errors[0]?.code ?? '',
  message: errors[0]?.message ?? '',
});

describeUnless(lacksRuntime, 'checks behind the proxy of their location', () => {
  const asks = `const { test } = require('@playwright/test');
    test('asks', async ({ request }) => { await request.get('http://shop.inside.test/'); });`;
  const opens = `const { test, expect } = require('@playwright/test');
    test('opens', async ({ page }) => {
      await page.goto('http://shop.inside.test/page');
      await expect(page).toHaveTitle('shop.inside.test /page');
    });`;

  test('a browser opens a page that only the proxy can reach', async () => {
    await using proxy = await startProxy();
    const { check } = startScripts({ proxyUrl: proxy.url, ...NO_SERVERS });
    expect((await check('BROWSER', opens)).errors).toEqual([]);
    expect(proxy.asked).toContain('shop.inside.test:80');
    expect((await check('MULTI_STEP', asks)).errors).toEqual([]);
  });

  test.each(['BROWSER', 'MULTI_STEP'] as const)(
    '%s: a proxy that is not there is our fault',
    async (type) => {
      const proxyUrl = withPassword(`http://127.0.0.1:${await freePort()}`);
      const { check } = startScripts({ proxyUrl, ...NO_SERVERS });
      const report = await check(type, type === 'BROWSER' ? opens : asks);
      expect(outcomeOf(report)).toEqual({
        isOurs: true,
        code: 'PROXY_UNREACHABLE',
        message: expect.stringMatching(
          /^the proxy http:\/\/127\.0\.0\.1:\d+ cannot be used: connect ECONNREFUSED/,
        ),
      });
      expect(JSON.stringify(report)).not.toContain('s3cr3t-word');
    },
  );

  test.each([
    [407, 'PROXY_AUTHENTICATION'],
    [403, 'PROXY_REFUSED'],
  ])('a proxy that answers %i is our fault', async (status, code) => {
    await using proxy = await connectProxy(() => status);
    const { check } = startScripts({ proxyUrl: withPassword(proxy.url), ...NO_SERVERS });
    const report = await check('MULTI_STEP', asks);
    expect(outcomeOf(report)).toMatchObject({ isOurs: true, code });
    expect(JSON.stringify(report)).not.toContain('s3cr3t-word');
  });

  test('a proxy that does not reach the target says something about the target', async () => {
    await using proxy = await connectProxy(() => 502);
    const { check } = startScripts({ proxyUrl: proxy.url, ...NO_SERVERS });
    expect(outcomeOf(await check('MULTI_STEP', asks))).toMatchObject({
      isOurs: false,
      message: expect.stringContaining('EHOSTUNREACH'),
    });
    expect(outcomeOf(await check('BROWSER', opens))).toMatchObject({
      isOurs: false,
      message: expect.stringContaining('net::ERR_ADDRESS_UNREACHABLE at http://shop.inside.test/page'),
    });
  });
});
