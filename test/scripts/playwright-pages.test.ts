import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DEFAULT_RUNTIME } from '../../src/agent/runtimes/index.ts';
import { describeUnless, lacks } from '../support/programs.ts';
import { usePlaywright, type RunOptions } from '../support/playwright-bench.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { makeCertificates } from '../support/targets/certificates.ts';
import { listenOn } from '../support/targets/ports.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Browser checks: pages, what is seen of them, and browsers that are started by hand. */

const spec = (body: string): string =>
  `import { test, expect } from '@playwright/test';\ntest('a', async ({ page, context, browser }) => {\nconst site = process.env.SITE_URL;\n${body}\n});`;
const plain = (body: string): string =>
  `const { chromium, firefox, devices } = require('playwright');\nconst site = process.env.SITE_URL;\n${body}`;
/** Says who asks for it. */
const ECHO = createServer((request, response) => {
  if (request.url === '/moved') response.writeHead(302, { location: '/' }).end();
  else response.setHeader('content-type', 'text/html').end(`<h1>${request.headers['user-agent']}</h1>`);
});

describeUnless(lacksRuntime(DEFAULT_RUNTIME), 'a browser check', () => {
  const bench = usePlaywright();
  let echo = '';
  beforeAll(async () => {
    echo = `http://127.0.0.1:${await listenOn(ECHO)}`;
  });
  afterAll(() => {
    ECHO.close();
    ECHO.closeAllConnections();
  });
  const run = (script: string, options: RunOptions = {}): ReturnType<typeof bench.run> =>
    bench.run(script, { type: 'BROWSER', ...options, env: { ECHO: echo, ...options.env } });

  test('has its pages with their vitals: tabs, redirects, documents alone', async () => {
    const { verdict, shown } = await run(
      spec(`await page.goto(site); await page.evaluate(() => history.pushState({}, '', '/pushed'));
      const second = await context.newPage(); await second.goto(process.env.ECHO + '/moved'); await second.close();
      const third = await context.newPage(); void third.goto(site + '/cart').catch(() => {}); await third.close();
      await page.setContent('<iframe src="' + site + '/login"></iframe>'); await page.frameLocator('iframe').locator('body').waitFor();`),
    );
    expect(verdict).toBe('passed');
    const pages = shown.pages!.map(({ url }) => url).filter((url) => !url.endsWith('/cart'));
    expect(pages).toEqual([`${bench.site()}/`, `${echo}/`]);
    const { TTFB, FCP, CLS, TBT } = shown.pages![0]!.webVitals;
    expect([TTFB, FCP, CLS, TBT].map((each) => each?.score)).toEqual(['GOOD', 'GOOD', 'GOOD', 'GOOD']);
    expect(FCP!.value).toBeGreaterThan(TTFB!.value);
  });

  test('counts the errors of its pages', async () => {
    const { shown } = await run(
      spec(`await page.goto(site + '/broken'); await page.waitForLoadState('networkidle');`),
    );
    expect(shown.traceSummary).toEqual({
      consoleErrors: 2,
      networkErrors: 1,
      documentErrors: 1,
      userScriptErrors: 0,
    });
  });

  test('believes no page that makes up others', async () => {
    const { verdict, shown } = await run(
      spec(`await page.goto(site);
      await page.evaluate(async () => {
        const say = window.__vedetteReport;
        for (const value of [null, 1, 'x', [], {}, { url: 1, timeOrigin: {} }, { url: 'x'.repeat(1e6), timeOrigin: 1 }]) await say(value);
        for (let i = 0; i < 200; i++) await say({ url: 'http://other.test/' + i, timeOrigin: i, vitals: { LCP: 'a', CLS: -1 }, sizes: { a: NaN } });
      });`),
    );
    expect(verdict).toBe('passed');
    expect(shown.pages!.map(({ url }) => url)).toEqual([`${bench.site()}/`]);
  });

  test('is known by its user agent, unless it brings one', async () => {
    const { log } = await run(
      plain(`const browser = await chromium.launch();
      for (const options of [{}, { userAgent: 'mine' }, devices['iPhone 13']]) {
        const page = await (await browser.newContext(options)).newPage();
        await page.goto(process.env.ECHO); console.log(await page.locator('h1').textContent());
      }
      const context = await chromium.launchPersistentContext('profile');
      const page = await context.newPage(); await page.goto(process.env.ECHO); console.log(await page.locator('h1').textContent());
      await context.close(); await browser.close();`),
    );
    expect(log).toEqual([
      expect.stringMatching(/^INFO Mozilla.*Chrome.* Vedette$/),
      'INFO mine',
      expect.stringMatching(/iPhone.*Safari\/[\d.]+$/),
      expect.stringMatching(/^INFO Mozilla.*Chrome.* Vedette$/),
    ]);
  });

  test.each([
    [
      'its own traces and videos',
      plain(`const browser = await chromium.launch({ headless: false, slowMo: 5, args: ['--lang=de'] });
      const context = await browser.newContext({ recordVideo: { dir: 'own' } }); await context.tracing.start({ screenshots: true });
      const page = await context.newPage(); await page.goto(site); await context.tracing.stop({ path: 'own.zip' }); await context.close(); await browser.close();`),
    ],
    [
      'its own traces in a test',
      spec(`const own = await browser.newContext({ recordVideo: { dir: 'own' } }); await own.tracing.start({ snapshots: true });
      const other = await own.newPage(); await other.goto(site); await own.tracing.stop({ path: 'own.zip' }); await own.close();`),
    ],
  ])('may record %s', async (_what, script) => {
    const { failures, files } = await run(script);
    expect(failures).toEqual([]);
    const names = [...files.keys()].filter((name) => name.startsWith('files/')).toSorted();
    expect(names).toEqual(['files/own.zip', expect.stringMatching(/^files\/own\/.*\.webm$/)]);
  });

  test.each([
    [
      'another browser',
      plain('await firefox.launch();'),
      /^SCRIPT_ERROR .*firefox is not there: browser checks run in Chromium.*\(\/script\.js:3:15\)$/,
    ],
    [
      'a browser that is not there',
      plain(`await chromium.connectOverCDP('http://127.0.0.1:9');`),
      /ECONNREFUSED 127\.0\.0\.1:9[^]*\(\/script\.js:3:16\)$/,
    ],
    ['a browser server', plain('await chromium.launchServer();'), /scripts may not listen for connections/],
  ])('fails with %s in one sentence', async (_what, script, failure) => {
    expect((await run(script)).failures).toEqual([expect.stringMatching(failure)]);
  });

  test.each([
    [
      'a test',
      spec(
        `await page.goto(site); console.log('there');\nawait page.locator('#never').click({ timeout: 0 });`,
      ),
      5,
    ],
    [
      'a plain script',
      plain(
        `const page = await (await chromium.launch()).newPage(); await page.goto(site); console.log('there');\nawait page.locator('#never').click({ timeout: 0 });`,
      ),
      4,
    ],
  ])(
    'that %s waits in for ever leaves its place, its last picture and its trace',
    async (_what, script, line) => {
      const { failures, log, files, shown } = await run(script, { timeoutMs: 6_000 });
      expect(failures[0]).toBe('TIMEOUT the script was not finished within 6 s');
      expect(failures[1]).toMatch(
        new RegExp(String.raw`^SCRIPT_ERROR the time was up during .*click.* \(/script\.js:${line}:`, 'i'),
      );
      expect(log).toEqual(['INFO there']);
      expect([...files.keys()].some((name) => name.endsWith('.png'))).toBe(true);
      expect(shown.playwrightTestTraces).toHaveLength(1);
      expect(shown.pages).toHaveLength(1);
    },
  );

  test.each([
    ['loops', spec(`await page.goto(site); await page.evaluate(() => { for (;;); });`), 'TIMEOUT'],
    ['alerts for ever', spec(`await page.setContent('<script>for (;;) alert(1)</script>');`), 'TIMEOUT'],
    [
      'takes all memory',
      spec(
        `await page.evaluate(() => { const all = []; for (;;) all.push(new Uint8Array(1 << 24).fill(1)); });`,
      ),
      'MEMORY_LIMIT',
    ],
  ])('with a page that %s ends', async (_what, script, code) => {
    const { verdict, failures } = await run(script, { timeoutMs: code === 'TIMEOUT' ? 4_000 : 40_000 });
    expect(verdict).toBe('failed');
    expect(failures[0]).toMatch(new RegExp(`^${code} `));
  });

  test('writes screenshots where it may', async () => {
    const { verdict, log, files } = await run(
      spec(`await page.goto(site);
      for (const path of ['a/../b c/ü 💥.png', '/etc/x.png', '../../up.png']) await page.screenshot({ path }).catch(({ code }) => console.log(code));`),
    );
    expect({ verdict, log }).toEqual({ verdict: 'passed', log: ['INFO EACCES', 'INFO EACCES'] });
    expect([...files.keys()]).toContain('screenshots/b c/ü 💥.png');
  });

  describeUnless(lacks('openssl'), 'with sslCheckDomain', () => {
    const folder = temporaryFolder();
    let server: Server;
    let port = 0;
    beforeAll(async () => {
      const { selfSigned } = await makeCertificates(folder.path);
      server = createTlsServer({ cert: readFileSync(selfSigned.chain), key: readFileSync(selfSigned.key) });
      port = await listenOn(server);
    });
    afterAll(() => {
      server.close();
      folder[Symbol.dispose]();
    });

    test('has the certificate, and why it is not trusted', async () => {
      const options = { type: 'MULTI_STEP', sslCheckDomain: `localhost:${port}` } as const;
      const { verdict, shown, log } = await run(`await new Promise((r) => setTimeout(r, 500));`, options);
      expect(verdict).toBe('passed');
      expect(shown.certificate).toMatchObject({
        domain: `localhost:${port}`,
        error: expect.stringMatching(/SELF_SIGNED/),
      });
      expect(shown.certificate!.daysRemaining).toBeGreaterThan(0);
      expect(log).toEqual([
        expect.stringMatching(/^WARN the certificate of localhost:\d+: DEPTH_ZERO_SELF_SIGNED_CERT$/),
      ]);
    });

    test('has the reason where none is shown', async () => {
      const { shown } = await run(`await new Promise((r) => setTimeout(r, 500));`, {
        type: 'MULTI_STEP',
        sslCheckDomain: '127.0.0.1:9',
      });
      expect(shown.certificate).toMatchObject({
        validTo: null,
        error: expect.stringMatching(/ECONNREFUSED/),
      });
    });
  });
});
