import { join, relative } from 'node:path';
import { z } from 'zod';
import { monoMs, sleep } from '../../kit/clock.ts';
import * as answers from './answers.ts';
import { testCommand } from './commands.ts';
import type { RunContext } from './context.ts';
import { gateVariables } from './environment.ts';
import { Stopped } from './patience.ts';
import { SuiteProblem } from './problem.ts';
import { childText } from './process.ts';
import type { Project } from './protocol.ts';
import { problem, type Cut } from './verdict.ts';

/** Playwright gets so long to end its tests and to write its reports. */
const STOP_MS = 4_000;
const READ_MS = 200;
/** More than that on one machine wait for one another. */
const MOST_WORKERS = 4;

/** @returns the folder of the browsers that the project's Playwright needs */
export async function takeBrowsers(
  { suite, services, site, course }: RunContext,
  { playwrightVersion, packageManager }: Project,
): Promise<string> {
  const question = { do: 'playwright', root: site.project, workingDir: site.workingDir } as const;
  const found = await site.ask(question, answers.InstalledPlaywright.nullable());
  const version = found?.version ?? suite.playwrightVersion ?? playwrightVersion;
  if (version === null || (found === null && !packageManager.pnp)) {
    throw new SuiteProblem(
      'NO_PLAYWRIGHT',
      'the project does not depend on @playwright/test: add it to package.json',
    );
  }
  course.playwrightVersion = version;
  const installed = found ?? { version, browsers: await services.browsers.ofVersion(version) };
  return services.browsers.get(installed, suite.browsers);
}

/** Runs the project's tests, and hears of each as it ends. */
export async function runTests(
  context: RunContext,
  project: Project,
  path: string[],
  browsers: string,
): Promise<void> {
  const { suite, site, log, patience, course } = context;
  const config = await wrapConfig(context, project);
  const command = testCommand(suite, project.packageManager, relative(site.workingDir, config));
  const gate = site.gates.tests;
  const env = site.environment(path, gate, {
    PLAYWRIGHT_BROWSERS_PATH: browsers,
    ...(gate === null ? {} : gateVariables(gate)),
  });
  log.turnPage();
  const startedMs = monoMs();
  const ran = site.ask({ do: 'run', command, cwd: site.workingDir, env }, answers.Ended);
  ran.catch(() => {});
  const ms = Math.max(0, Math.min(suite.timeoutSeconds * 1000, patience.leftMs));
  const reading = new AbortController();
  const read = keepReading(context, reading.signal);
  try {
    course.ended = await patience.within(ran, { ms, cut: () => overLimit(ms) });
  } catch (error) {
    if (error instanceof Stopped) await stopTests(context, ran);
    throw error;
  } finally {
    course.testCommandMs = Math.round(monoMs() - startedMs);
    reading.abort();
    await read;
  }
}

/** @returns the path of a config that adds ours to the project's */
async function wrapConfig(context: RunContext, project: Project): Promise<string> {
  const { suite, services, site } = context;
  const { path } = await site.ask(
    {
      do: 'wrap',
      config: join(site.project, project.config),
      additions: childText('additions'),
      options: {
        reporter: site.reporter,
        events: site.eventFile!.path,
        out: join(site.folder, 'out'),
        workers: Math.max(1, Math.min(MOST_WORKERS, services.processors)),
        blob: suite.shard === null ? null : `blob-${suite.shard.index}.zip`,
      },
    },
    answers.Wrapped,
  );
  return path;
}

const overLimit = (ms: number): Cut =>
  problem(
    'test',
    'TIME_LIMIT',
    `the suite was not finished within ${Math.round(ms / 1000)} s: raise timeoutSeconds (3600 at most), run fewer tests or split it into shards`,
  );

/** As a Ctrl-C would, so that tests under way leave their traces; who does not end then is ended. */
async function stopTests({ site }: RunContext, ran: Promise<unknown>): Promise<void> {
  const { pid } = site.tests;
  if (pid === undefined) return;
  void site.ask({ do: 'interrupt', pid }, z.unknown()).catch(() => {});
  await Promise.race([ran.catch(() => {}), sleep(STOP_MS)]);
}

async function keepReading({ site }: RunContext, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await site.hear();
    await sleep(READ_MS, signal).catch(() => {});
  }
}
