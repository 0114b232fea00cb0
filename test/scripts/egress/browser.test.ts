import { createServer } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeUnless } from '../../support/programs.ts';
import { listenOn } from '../../support/targets/ports.ts';
import { lacksRuntime, logOf, startScripts } from './bench.ts';

/** Chromium behind all its walls, and where it can get to. */

const site = createServer((request, response) => {
  response.setHeader('content-type', 'text/html');
  response.end(
    request.url === '/with-pixel'
      ? `<title>shop</title><img src="http://10.1.2.3/pixel.gif">`
      : `<title>shop ${request.url}</title>`,
  );
});
let port: number;
/** Nobody listens there. */
let closed: number;
beforeAll(async () => {
  const soon = createServer();
  closed = await listenOn(soon);
  soon.close();
  port = await listenOn(site);
});
afterAll(() => {
  site.close();
  site.closeAllConnections();
});

const spec = (body: string): string => `
  import { test, expect } from '@playwright/test';
  test('visits', async ({ page, request }) => { ${body} });`;

describeUnless(lacksRuntime, 'a browser', () => {
  test('opens what it may: by address, by name, by the request fixture', async () => {
    const { check } = startScripts();
    const report = await check(
      'BROWSER',
      spec(`
        await page.goto('http://127.0.0.1:${port}/a');
        await expect(page).toHaveTitle('shop /a');
        await page.goto('http://localhost:${port}/b');
        await expect(page).toHaveTitle('shop /b');
        expect(await (await page.request.get('http://localhost:${port}/c')).text()).toContain('shop /c');`),
    );
    expect(report.errors).toEqual([]);
    expect(report.flags).toMatchObject({ hasFailures: false, hasErrors: false });
  });

  test('a target that is down is a failed navigation, in the words of a direct one', async () => {
    const { check } = startScripts();
    const report = await check('BROWSER', spec(`await page.goto('http://127.0.0.1:${closed}/');`));
    expect(report.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    expect(report.errors[0]!.message).toContain(`net::ERR_CONNECTION_REFUSED at http://127.0.0.1:${closed}/`);
    const unknown = await check('BROWSER', spec(`await page.goto('https://nobody.invalid/');`));
    expect(unknown.errors[0]).toMatchObject({
      message: expect.stringContaining('net::ERR_NAME_NOT_RESOLVED at https://nobody.invalid/'),
      network: true,
    });
  });

  test('what the policy keeps from it is no failure of the target', async () => {
    const { check } = startScripts({ blocked: '10.0.0.0/8' });
    const report = await check('BROWSER', spec(`await page.goto('https://10.1.2.3/');`));
    const sentence = '10.1.2.3 port 443 is blocked by 10.0.0.0/8 in BLOCKED_TARGETS of this agent';
    expect(report.flags).toMatchObject({ hasFailures: false, hasErrors: true });
    expect(report.errors).toEqual([{ code: 'TARGET_BLOCKED', message: sentence, network: false }]);
    expect(logOf(report)).toContain(sentence);
  });

  test('a picture that is kept from a page is noted, and hides nothing', async () => {
    const { check } = startScripts({ blocked: '10.0.0.0/8' });
    const sentence = '10.1.2.3 port 80 is blocked by 10.0.0.0/8 in BLOCKED_TARGETS of this agent';
    const passed = await check('BROWSER', spec(`await page.goto('http://127.0.0.1:${port}/with-pixel');`));
    expect(passed.flags).toMatchObject({ hasFailures: false, hasErrors: false });
    expect(logOf(passed)).toContain(sentence);
    const failed = await check(
      'BROWSER',
      spec(`await page.goto('http://127.0.0.1:${port}/with-pixel'); throw new Error('no basket');`),
    );
    expect(failed.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    expect(failed.errors[0]!.message).toMatch(/no basket.*\(meanwhile 10\.1\.2\.3 port 80 is blocked/s);
  });

  test('the metadata of a cloud stays closed to pages, by any spelling', async () => {
    const { check } = startScripts();
    for (const host of ['169.254.169.254', '0xa9fea9fe', '[::ffff:a9fe:a9fe]']) {
      const report = await check('BROWSER', spec(`await page.goto('http://${host}/latest/');`));
      expect(report.errors[0]).toMatchObject({ code: 'TARGET_BLOCKED' });
    }
  });
});
