import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunScript } from '../../protocol.ts';

/** Where things lie below the job folder. */
export const REPORT = 'report.json';
export const RESULTS = 'results';
export const VIDEOS = 'videos';
export const TRACES = 'traces';
/** Of translated files. */
export const CACHE = 'cache';
const CONFIGURATION = 'playwright.config.cjs';
const REPORTER = 'reporter.cjs';

const TEST_TIMEOUT_MS = 30_000;
const END_MS = 3_000;
/** Under which the reporter's class is found by its file. */
export const REPORTER_KEY = 'vedette.reporter';

/**
 * The configuration of one run: what the check may set, and what is ours.
 *
 * @param folder the job folder
 * @returns path of the file
 */
export function writeConfiguration(folder: string, run: RunScript): string {
  const { use, ...own } = run.playwrightConfig ?? {};
  const whenFailed = run.keepArtifacts ? 'on' : 'retain-on-failure';
  const config = {
    timeout: TEST_TIMEOUT_MS,
    ...own,
    testDir: join(folder, 'src'),
    // The entry alone: what it imports may look like a test, too.
    testMatch: [`**/${escapeGlob(run.entry)}`],
    testIgnore: [],
    outputDir: join(folder, RESULTS),
    reporter: [[join(folder, REPORTER)], ['json', { outputFile: join(folder, REPORT) }]],
    workers: 1,
    retries: 0,
    fullyParallel: false,
    // The run is interrupted when its time is up, and gets this long to end.
    globalTimeout: run.timeoutMs + END_MS,
    reportSlowTests: null,
    captureGitInfo: { commit: false, diff: false },
    use: {
      trace: whenFailed,
      ...(run.checkType === 'BROWSER' ? { screenshot: 'only-on-failure', video: whenFailed } : {}),
      ...Object(use),
    },
  };
  const reporter = `module.exports = globalThis[Symbol.for(${JSON.stringify(REPORTER_KEY)})];\n`;
  writeFileSync(join(folder, REPORTER), reporter, { flag: 'wx' });
  const file = join(folder, CONFIGURATION);
  writeFileSync(file, `module.exports = ${JSON.stringify(config)};\n`, { flag: 'wx' });
  return file;
}

const escapeGlob = (path: string): string => path.replace(/[[\]{}()*?!+@\\]/g, '\\$&');
