import type { TryReport } from '../../checks/execute.ts';
import type { ScriptLogLine } from '../../checks/script-hooks.ts';
import { ARTIFACT_PREFIX, type Artifact } from '../../contract/index.ts';
import { wallMs } from '../../kit/clock.ts';
import type { CollectedFile } from '../ports.ts';
import type { Scrubber } from '../scrub/index.ts';
import type { Judged } from './outcome.ts';

export interface RunFacts {
  checkType: 'BROWSER' | 'MULTI_STEP';
  runtimeId: string;
  judged: Judged;
  /** Wall clock of the user's part, epoch ms. */
  startTime: number;
  endTime: number;
  /** Members of the result that the run itself reported. */
  detail: Record<string, unknown>;
  log: ScriptLogLine[];
  files: readonly CollectedFile[];
  eventLoopDelayMs: number;
}

/** Of what the run reports beside its log and its errors. */
const MAX_DETAIL_CHARS = 300_000;
/** Below the 1 MiB that a spooled result may have; control characters take six times their room as JSON. */
const MAX_REPORT_CHARS = 900_000;
const NO_ERRORS = { consoleErrors: 0, networkErrors: 0, documentErrors: 0, userScriptErrors: 0 };
/** Results with a place of their own in the detail; the rest are assets. */
const OWN_PLACE: ReadonlySet<Artifact['kind']> = new Set(['trace', 'video', 'report']);

/** The report of a run whose user code began. */
export function reportOf(facts: RunFacts): TryReport {
  const { judged, startTime, endTime, checkType, files, eventLoopDelayMs } = facts;
  const linksTo = (kind: Artifact['kind']): string[] =>
    files.filter((file) => file.kind === kind).map(linkOf);
  const [reportFile] = linksTo('report');
  const shared = {
    errors: judged.errors,
    startTime,
    endTime,
    runtimeVersion: facts.runtimeId,
    jobLog: facts.log,
    jobAssets: files.filter(({ kind }) => !OWN_PLACE.has(kind)).map(linkOf),
    playwrightTestTraces: linksTo('trace'),
    ...(reportFile === undefined ? {} : { playwrightTestJsonReportFile: reportFile }),
  };
  const found = boundedDetail(facts);
  const detail =
    checkType === 'MULTI_STEP'
      ? { multiStepCheckResult: { ...found, ...shared } }
      : {
          browserCheckResult: {
            type: 'PLAYWRIGHT',
            traceSummary: NO_ERRORS,
            pages: [],
            ...found,
            ...shared,
            playwrightTestVideos: linksTo('video'),
          },
        };
  return {
    startedAt: new Date(startTime).toISOString(),
    stoppedAt: new Date(Math.max(startTime, endTime)).toISOString(),
    responseTimeMs: judged.verdict === 'error' ? null : Math.max(0, endTime - startTime),
    flags: {
      hasFailures: judged.verdict === 'failed',
      hasErrors: judged.verdict === 'error',
      isDegraded: judged.verdict === 'degraded',
      isCancelled: false,
      overMaxResponseTime: false,
    },
    errors: judged.failures,
    phases: {},
    statusCode: null,
    measured: { eventLoopDelayMs, resolvedAddress: null },
    detail,
  };
}

const linkOf = ({ name }: CollectedFile): string => `${ARTIFACT_PREFIX}${name}`;

/** Members are left out, the largest first, until the rest fits; the log says so. */
function boundedDetail({ detail, log }: RunFacts): Record<string, unknown> {
  const sizes = Object.entries(detail).map(([name, value]) => ({
    name,
    value,
    chars: JSON.stringify(value)?.length ?? 0,
  }));
  let total = sizes.reduce((sum, { chars }) => sum + chars, 0);
  const kept = new Map(sizes.map(({ name, value }) => [name, value]));
  for (const { name, chars } of sizes.toSorted((a, b) => b.chars - a.chars)) {
    if (total <= MAX_DETAIL_CHARS) break;
    total -= chars;
    kept.delete(name);
    log.push({ time: wallMs(), msg: `${name} is left out: it has ${chars} characters`, level: 'WARN' });
  }
  return Object.fromEntries(kept);
}

/** Drops the older half of the log until the report can be spooled with its detail. */
export function fitting(report: TryReport): TryReport {
  const [result] = Object.values(report.detail);
  const log = (result as { jobLog?: ScriptLogLine[] } | undefined)?.jobLog ?? [];
  while (log.length > 1 && JSON.stringify(report).length > MAX_REPORT_CHARS) {
    const dropped = log.splice(0, Math.ceil(log.length / 2));
    const msg = `${dropped.length} lines were left out: the result would be too long`;
    log.unshift({ time: dropped[0]!.time, msg, level: 'WARN' });
    if (log.length === 2) log.pop();
  }
  return report;
}

/** Times stay as they are, whatever a secret looks like. */
export function scrubbedReport(report: TryReport, scrubber: Scrubber): TryReport {
  if (scrubber.empty) return report;
  return { ...report, errors: scrubber.value(report.errors), detail: scrubber.value(report.detail) };
}
