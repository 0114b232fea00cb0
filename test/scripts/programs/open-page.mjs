/**
 * Opens a page as user code of a runtime does: open-page.mjs MODULES VIDEO_FOLDER LAUNCH_OPTIONS. Prints what
 * came of it as JSON.
 */
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [modules, dir, options] = process.argv.slice(2);
const { chromium } = createRequire(join(modules, 'here.js'))('playwright');
const browser = await chromium.launch(JSON.parse(options));
const context = await browser.newContext({ recordVideo: { dir } });
const page = await context.newPage();
await page.setContent('<title>A shop</title><h1>Welcome</h1>');
const screenshot = await page.screenshot();
const title = await page.title();
// Known from the first frame on; a page that is closed before has no video.
const video = await page.video().path();
await context.close();
const report = {
  node: process.version,
  title,
  picture: screenshot.subarray(1, 4).toString('latin1'),
  videoBytes: statSync(video).size,
};
await browser.close();
console.log(JSON.stringify(report));
