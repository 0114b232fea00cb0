import { join } from 'node:path';
import { messageOf } from '../../kit/errors.ts';
import { wallMs } from '../../kit/clock.ts';
import type { SuiteResult } from '../../checks/index.ts';
import type { Finished } from '../ports.ts';
import { removeFolder } from '../sandbox/index.ts';
import { scrubbedReport } from '../scripts/index.ts';
import type { Scrubber } from '../scrub/index.ts';
import type { RunContext } from './context.ts';
import { saysFull } from './full-disk.ts';
import { degradedReasons, keepFiles } from './left-files.ts';
import { reportOf } from './result.ts';
import type { Shortage } from './shortage.ts';
import { judgeTests, type Cut, type Verdict } from './verdict.ts';

interface SummaryOptions {
  context: RunContext;
  scrubber: Scrubber;
  shortage: Shortage;
  /** What ended the run before its time. */
  cut: Cut | null;
  isCancelled: boolean;
  startTime: number;
  /** Folder for the files that are kept. */
  into: string;
}

type Left = ReturnType<RunContext['site']['tests']['list']>;

/** What a run comes to, of which nothing lives any more: its verdict, its result, and the files that stay. */
export async function summaryOf(options: SummaryOptions): Promise<Finished> {
  const { context, scrubber, cut, startTime, into } = options;
  const { site, suite, log, course } = context;
  if (site.eventFile?.broken !== undefined) {
    log.note('warn', `the list of tests is not whole: ${site.eventFile.broken}`);
  }
  for (const { sentence } of site.refusals) log.note('warn', sentence);
  const left = site.tests.list();
  const { tests, metrics } = left;
  const degraded = await degradedReasons(site.folder, join('project', suite.workingDir ?? ''));
  const verdict = await verdictOf(options, left, degraded);
  if (verdict.cut !== null && verdict.cut !== cut) log.note('error', verdict.cut.message);
  const kept = await keep(options, left);
  const { engine, packageManager, install, testCommandMs } = course;
  const found = {
    tests,
    metrics,
    loose: site.tests.loose,
    startTime,
    endTime: wallMs(),
    testCommandMs,
    playwrightVersion: site.tests.playwrightVersion ?? course.playwrightVersion,
    engine: engine === undefined ? null : { name: engine.name, version: engine.version },
    packageManager,
    install,
    degraded,
    shard: suite.shard,
    jobLog: log.lines(),
  };
  // Before anything is cut: half a secret is not recognised any more.
  const report = reportOf(scrubber.value(found), scrubber.value(verdict), kept.files);
  if (kept.files.length === 0) await removeFolder(into);
  return { report: scrubbedReport(report, scrubber), ...kept };
}

async function verdictOf(
  { context, shortage, cut, isCancelled }: SummaryOptions,
  { tests, metrics }: Pick<SuiteResult, 'tests' | 'metrics'>,
  degraded: string[],
): Promise<Verdict> {
  const { site, course, log } = context;
  if (isCancelled) return { verdict: 'cancelled', cut };
  if (cut !== null) return { verdict: cut.isOurs ? 'error' : 'failed', cut };
  const { loose, hasBegun, status, onlySoft } = site.tests;
  const texts = [log.printed, ...[...loose, ...tests.flatMap(({ errors }) => errors)].map((e) => e.message)];
  return judgeTests({
    tests,
    metrics,
    loose,
    hasBegun,
    status,
    ended: course.ended,
    printed: log.printed,
    printedBytes: log.printedBytes,
    degraded,
    onlySoft,
    gate: site.gates.tests,
    isFull: await site.isFull(texts.some(saysFull)),
    wasStarved: ({ startTime, duration }) => shortage.wasStarved(startTime, duration),
  });
}

/** A verdict without its files is worth more than none. */
async function keep(
  { context, scrubber, into }: SummaryOptions,
  { tests, files: left, metrics }: Left,
): Promise<Pick<Finished, 'files' | 'refused'>> {
  const { site, suite, log } = context;
  try {
    const summary = { tests, metrics };
    const kept = await keepFiles({ folder: site.folder, into, left, summary, scrubber, shard: suite.shard });
    for (const { name, size, reason } of kept.refused) {
      log.note('warn', `${name} (${size} bytes) is not kept: ${reason}`);
    }
    return kept;
  } catch (error) {
    await removeFolder(into);
    log.note('warn', `the files of this run could not be kept: ${messageOf(error)}`);
    return { files: [], refused: [] };
  }
}
