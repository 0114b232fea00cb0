import { findCheckType } from '../checks/index.ts';
import { DEMO_HOST, DEMO_NAME, type DemoPorts } from './demo-target.ts';

/** One example check as the REST interface takes it. */
export interface DemoCheck {
  /** Remembers which check this became; never shown. */
  key: string;
  /** Path of its type's checks: `/v1/checks/url`. */
  path: string;
  definition: Record<string, unknown>;
}

/** What a shop's customer does: look, fill the cart, see what it comes to. */
const BROWSER_SCRIPT = `import { expect, test } from '@playwright/test';

test('a customer fills the cart', async ({ page }) => {
  await page.goto(process.env.SITE_URL);
  await page.getByRole('link', { name: 'Storm lantern' }).click();
  await page.getByLabel('Quantity').fill('2');
  await page.getByRole('button', { name: 'Add to cart' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Cart');
  await expect(page.getByTestId('total')).toHaveText('39.00 €');
  await page.screenshot({ path: 'cart.png' });
});
`;

/** The same by the shop's API. */
const STEPS_SCRIPT = `import { expect, test } from '@playwright/test';

test('an order is made and read', async ({ request }) => {
  const site = process.env.SITE_URL;
  const id = await test.step('order', async () => {
    const made = await request.post(site + '/api/orders', { data: { product: 'lantern', count: 2 } });
    expect(made.status()).toBe(201);
    return (await made.json()).id;
  });
  await test.step('read it', async () => {
    const read = await request.get(site + '/api/orders/' + id);
    await expect(read).toBeOK();
    expect(await read.json()).toEqual({ product: 'lantern', count: 2 });
  });
});
`;

/** One check per type, every ten seconds or, with user code, every ten minutes, and one that shows what a failure looks like. */
export function demoChecks(ports: DemoPorts, location: string): DemoCheck[] {
  const site = `http://${DEMO_HOST}:${ports.http}`;
  const check = (
    key: string,
    checkType: string,
    name: string,
    request: Record<string, unknown>,
    more: Record<string, unknown> = {},
  ): DemoCheck => ({
    key,
    path: `/v1/checks/${findCheckType(checkType)!.route}`,
    definition: {
      name,
      tags: ['example'],
      frequency: 0,
      frequencyOffset: 10,
      privateLocations: [location],
      retryStrategy: null,
      request,
      ...more,
    },
  });
  const code = (key: string, checkType: string, name: string, script: string): DemoCheck => ({
    key,
    path: `/v1/checks/${findCheckType(checkType)!.route}`,
    definition: {
      name,
      tags: ['example'],
      frequency: 10,
      privateLocations: [location],
      retryStrategy: null,
      environmentVariables: [{ key: 'SITE_URL', value: site }],
      script,
    },
  });
  return [
    check('page', 'URL', 'Demo page', {
      url: `${site}/`,
      assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }],
    }),
    check('api', 'API', 'Demo API', {
      url: `${site}/api/status`,
      assertions: [
        { source: 'JSON_BODY', property: '$.status', comparison: 'EQUALS', target: 'ok' },
        { source: 'JSON_BODY', property: '$.services[0].healthy', comparison: 'EQUALS', target: 'true' },
        { source: 'HEADERS', property: 'content-type', comparison: 'CONTAINS', target: 'json' },
      ],
    }),
    check('echo', 'TCP', 'Demo echo port', {
      hostname: DEMO_HOST,
      port: ports.tcp,
      data: 'hello',
      assertions: [{ source: 'RESPONSE_DATA', comparison: 'CONTAINS', target: 'hello' }],
    }),
    check('name', 'DNS', 'Demo name server', {
      query: DEMO_NAME,
      recordType: 'A',
      nameServer: DEMO_HOST,
      port: ports.dns,
      assertions: [{ source: 'TEXT_ANSWER', comparison: 'CONTAINS', target: DEMO_HOST }],
    }),
    check('ping', 'ICMP', 'This machine', { hostname: '127.0.0.1', pingCount: 3 }),
    code('browser', 'BROWSER', 'Demo shop in a browser', BROWSER_SCRIPT),
    code('steps', 'MULTI_STEP', 'Demo order in steps', STEPS_SCRIPT),
    check('outage', 'URL', 'Demo outage (fails on purpose)', {
      url: `${site}/outage`,
      assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }],
    }),
  ];
}
