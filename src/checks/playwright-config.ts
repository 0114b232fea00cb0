import { z } from 'zod';

const ms = z.number().min(0).max(240_000);
const ratio = z.number().min(0).max(1);
const size = z.strictObject({ width: z.int().min(1).max(10_000), height: z.int().min(1).max(10_000) });
const headers = z.record(z.string(), z.string());

const pictures = { maxDiffPixels: z.int().min(0), maxDiffPixelRatio: ratio, threshold: ratio };

const Expect = z
  .strictObject({
    timeout: ms,
    toHaveScreenshot: z
      .strictObject({
        ...pictures,
        animations: z.enum(['allow', 'disabled']),
        caret: z.enum(['hide', 'initial']),
        scale: z.enum(['css', 'device']),
        stylePath: z.union([z.string(), z.array(z.string())]),
      })
      .partial(),
    toMatchSnapshot: z.strictObject(pictures).partial(),
  })
  .partial();

/** The program and its folders are the runtime's; everything else of a launch may be asked for. */
const LaunchOptions = z
  .strictObject({
    args: z.array(z.string()).max(100),
    ignoreDefaultArgs: z.union([z.boolean(), z.array(z.string())]),
    slowMo: ms,
    timeout: ms,
  })
  .partial();

const ConnectOptions = z.strictObject({
  wsEndpoint: z.string(),
  headers: headers.optional(),
  exposeNetwork: z.string().optional(),
  timeout: ms.optional(),
});

const Use = z
  .strictObject({
    acceptDownloads: z.boolean(),
    actionTimeout: ms,
    baseURL: z.string().max(2048),
    bypassCSP: z.boolean(),
    channel: z.enum(['chromium', 'chrome', 'chromium-headless-shell']),
    colorScheme: z.enum(['light', 'dark', 'no-preference']).nullable(),
    connectOptions: ConnectOptions,
    contextOptions: z.record(z.string(), z.unknown()),
    deviceScaleFactor: z.number().min(0.1).max(10),
    extraHTTPHeaders: headers,
    geolocation: z.strictObject({
      latitude: z.number().min(-90).max(90),
      longitude: z.number().min(-180).max(180),
      accuracy: z.number().min(0).optional(),
    }),
    hasTouch: z.boolean(),
    headless: z.boolean(),
    httpCredentials: z.strictObject({
      username: z.string(),
      password: z.string(),
      origin: z.string().optional(),
      send: z.enum(['unauthorized', 'always']).optional(),
    }),
    ignoreHTTPSErrors: z.boolean(),
    isMobile: z.boolean(),
    javaScriptEnabled: z.boolean(),
    launchOptions: LaunchOptions,
    locale: z.string().max(100),
    navigationTimeout: ms,
    offline: z.boolean(),
    permissions: z.array(z.string()).max(100),
    serviceWorkers: z.enum(['allow', 'block']),
    storageState: z.union([z.string(), z.record(z.string(), z.unknown())]),
    testIdAttribute: z.string().min(1).max(200),
    timezoneId: z.string().max(100),
    userAgent: z.string().max(2000),
    viewport: size.nullable(),
  })
  .partial();

/** The part of Playwright's configuration that a check may set; what reporters, projects and workers do is ours. */
export const playwrightConfig = z
  .strictObject({ timeout: ms, expect: Expect, use: Use })
  .partial()
  .nullable()
  .default(null);
