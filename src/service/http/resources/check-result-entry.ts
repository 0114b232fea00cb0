import { z } from 'zod';
import type { ResultRow } from '../../store/index.ts';
import { ARTIFACT_PREFIX } from '../../../contract/index.ts';
import { assetUrl, resultUrl } from './assets.ts';
import { instant, Instant } from './shapes.ts';

const Detail = z.record(z.string(), z.unknown()).nullable().default(null);

/** What API and URL checks found. Agents of other versions may send more. */
const ApiCheckResult = z
  .looseObject({
    assertions: z.array(z.looseObject({ source: z.string(), target: z.string() })).nullable(),
    request: z.looseObject({
      method: z.string(),
      url: z.string(),
      data: z.string(),
      headers: z.record(z.string(), z.unknown()),
      params: z.record(z.string(), z.unknown()),
    }),
    response: z
      .looseObject({
        status: z.int(),
        statusText: z.string(),
        body: z.string(),
        headers: z.record(z.string(), z.unknown()),
        timings: z.record(z.string(), z.number()).describe('Milliseconds since the start of the request'),
        timingPhases: z.record(z.string(), z.number()).describe('Milliseconds that each phase took'),
      })
      .partial()
      .describe('Empty when nothing answered; requestError says why'),
    requestError: z.string().nullable(),
    jobLog: z.record(z.string(), z.unknown()).nullable(),
    jobAssets: z.array(z.unknown()).nullable(),
    pcapDataUrl: z.string().nullable(),
  })
  .partial()
  .nullable();

const AssetLink = z.string().describe('Address of the file; see the assets of the result');

/** What every run of a script leaves. */
const scriptRun = {
  errors: z.array(z.looseObject({ message: z.string() })).describe('What the script threw, with its place'),
  startTime: z.number().describe('Epoch milliseconds'),
  endTime: z.number(),
  runtimeVersion: z.string(),
  jobLog: z
    .array(z.looseObject({ time: z.number(), msg: z.string(), level: z.string() }))
    .nullable()
    .describe('What the script printed, and what the agent has to say about the run'),
  jobAssets: z.array(AssetLink).nullable().describe('Screenshots and other files'),
  playwrightTestTraces: z.array(AssetLink),
  playwrightTestJsonReportFile: AssetLink,
};

const WebVital = z.looseObject({ score: z.string(), value: z.number() });
const Page = z
  .looseObject({
    url: z.string(),
    webVitals: z
      .looseObject({ CLS: WebVital, FCP: WebVital, LCP: WebVital, TBT: WebVital, TTFB: WebVital })
      .partial(),
    pageTimings: z
      .looseObject({ onContentLoad: z.number().nullable(), onLoad: z.number().nullable() })
      .partial(),
    responseSizes: z.unknown(),
  })
  .partial();

const BrowserCheckResult = z
  .looseObject({
    type: z.string(),
    traceSummary: z
      .looseObject({
        consoleErrors: z.int(),
        networkErrors: z.int(),
        documentErrors: z.int(),
        userScriptErrors: z.int(),
      })
      .partial(),
    pages: z.array(Page),
    ...scriptRun,
    playwrightTestVideos: z.array(AssetLink),
  })
  .partial()
  .nullable();

const MultiStepCheckResult = z.looseObject(scriptRun).partial().nullable();

/** A result of one type has its own member filled; the others are null. */
const DETAILS = {
  apiCheckResult: Detail,
  tcpCheckResult: Detail,
  dnsCheckResult: Detail,
  icmpCheckResult: Detail,
  browserCheckResult: Detail,
  multiStepCheckResult: Detail,
  agenticCheckResult: Detail,
  playwrightCheckResult: Detail,
};
const FailureEntry = z.strictObject({
  code: z.string(),
  message: z.string(),
  network: z.boolean().describe('A transport failure, which onlyOn NETWORK_ERROR retries'),
});

export const CheckResult = z
  .strictObject({
    id: z.uuid(),
    name: z.string(),
    checkId: z.uuid(),
    hasFailures: z.boolean(),
    hasErrors: z.boolean(),
    isDegraded: z.boolean(),
    isCancelled: z.boolean(),
    overMaxResponseTime: z.boolean(),
    runLocation: z.string(),
    startedAt: Instant,
    stoppedAt: Instant,
    created_at: Instant,
    responseTime: z
      .number()
      .describe('Milliseconds. When nothing was measured, how long it took to find that out'),
    ...DETAILS,
    apiCheckResult: ApiCheckResult.describe('API and URL checks'),
    browserCheckResult: BrowserCheckResult,
    multiStepCheckResult: MultiStepCheckResult,
    checkRunId: z.int(),
    attempts: z.int(),
    resultType: z.enum(['FINAL', 'ATTEMPT']),
    sequenceId: z.uuid(),
    traceId: z.string().nullable(),
    errorGroupIds: z.array(z.uuid()),
    errors: z.array(FailureEntry).describe('Why it failed, most important first'),
    eventLoopDelayMs: z.number().nullable().describe('Longest delay inside the agent while it measured'),
    resolvedAddress: z.string().nullable().describe('Address that was contacted'),
  })
  .meta({ id: 'CheckResult' });

/** As a check result, of a check that may be stored nowhere. */
export const TestSessionResult = CheckResult.extend({ checkId: z.uuid().nullable() }).meta({
  id: 'TestSessionResult',
});

export const resultFields = CheckResult.keyof();

/** What the queue keeps of a result beside its columns. */
const Stored = z.object({
  ...DETAILS,
  errors: z.array(FailureEntry.strip()).catch([]),
  measured: z
    .object({ eventLoopDelayMs: z.number(), resolvedAddress: z.string().nullable() })
    .nullable()
    .catch(null),
});

/** What an agent found is shown as it came, so its members are not held against the schema. */
type Shown = Omit<z.input<typeof CheckResult>, keyof typeof DETAILS> &
  Record<keyof typeof DETAILS, object | null>;

/** @param url where it is read, of a result that is no check's */
export function showResult(row: ResultRow, publicUrl: string, url?: string): Shown {
  const { errors, measured, ...found } = Stored.parse(row.detail ?? {});
  const { apiCheckResult, ...details } = withLinks(found, (name) =>
    assetUrl(url ?? resultUrl(publicUrl, row), row, name),
  );
  return {
    id: row.id,
    name: row.name,
    checkId: row.check_id,
    hasFailures: row.has_failures,
    hasErrors: row.has_errors,
    isDegraded: row.is_degraded,
    isCancelled: row.is_cancelled,
    overMaxResponseTime: row.over_max_response_time,
    runLocation: row.location,
    startedAt: instant(row.started_at),
    stoppedAt: instant(row.stopped_at),
    created_at: instant(row.created_at),
    responseTime: row.response_time ?? Math.max(0, row.stopped_at.getTime() - row.started_at.getTime()),
    ...details,
    apiCheckResult: apiCheckResult && { ...apiCheckResult, response: apiCheckResult.response ?? {} },
    checkRunId: row.run_id,
    attempts: row.attempts,
    resultType: row.result_type,
    sequenceId: row.sequence_id,
    traceId: null,
    errorGroupIds: row.error_group_ids,
    errors,
    eventLoopDelayMs: measured?.eventLoopDelayMs ?? null,
    resolvedAddress: measured?.resolvedAddress ?? null,
  };
}

/** Members of a type's result in which artifacts are named. What targets and scripts wrote is not among them. */
const LINKING = new Set([
  'blobReportFile',
  'htmlReportFile',
  'jobAssets',
  'pages',
  'pcapDataUrl',
  'playwrightTestJsonReportFile',
  'playwrightTestTraces',
  'playwrightTestVideos',
  'playwrightTraceFiles',
  'screenshots',
  'snapshots',
  'steps',
]);

type Details = Record<keyof typeof DETAILS, Record<string, unknown> | null>;

/** `artifact:NAME` becomes the address of that asset. */
function withLinks(details: Details, urlOf: (name: string) => string): Details {
  const linked = Object.entries(details).map(([type, members]) => {
    if (members === null) return [type, null];
    const shown = Object.entries(members).map(([name, value]) =>
      LINKING.has(name) ? [name, linksIn(value, urlOf)] : [name, value],
    );
    return [type, Object.fromEntries(shown)];
  });
  return Object.fromEntries(linked) as Details;
}

function linksIn(value: unknown, urlOf: (name: string) => string): unknown {
  if (typeof value === 'string') {
    return value.startsWith(ARTIFACT_PREFIX) ? urlOf(value.slice(ARTIFACT_PREFIX.length)) : value;
  }
  if (Array.isArray(value)) return value.map((each) => linksIn(each, urlOf));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, linksIn(each, urlOf)]));
}
