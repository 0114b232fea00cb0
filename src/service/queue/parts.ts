import { sql } from 'kysely';
import { mergeSuites, SuiteResult } from '../../checks/index.ts';
import { ARTIFACT_PREFIX, type RunResult } from '../../contract/index.ts';
import type { Trx } from '../ports.ts';
import { partArtifactName, toJson, wholeResultId } from '../store/index.ts';
import type { OpenRun } from './run-row.ts';
import type { StoredResult } from './settle.ts';

/** A manifest has at most so many entries: those of a part come after those of the one before. */
const MANIFEST_SIZE = 2000;

type Body = StoredResult['result'];

/** Where the artifact of a result is shown, and behind how many others. */
export function placeOf(
  { whole_id, shard }: OpenRun,
  resultId: string,
  name: string,
): { resultId: string; name: string; from: number } {
  if (whole_id === null || shard === null) return { resultId, name, from: 0 };
  return {
    resultId: wholeResultId(whole_id),
    name: partArtifactName(shard, name),
    from: (shard - 1) * MANIFEST_SIZE,
  };
}

/** Keeps the results of parts until all have ended. */
export async function keepParts(trx: Trx, parts: readonly StoredResult[]): Promise<void> {
  if (parts.length === 0) return;
  const rows = parts.map(({ run, result: { artifacts: _manifest, ...body } }) => ({
    run_id: run.id,
    whole_id: run.whole_id,
    result_id: body.resultId,
    shard: run.shard,
    body,
  }));
  await sql`
    insert into run_part (run_id, whole_id, result_id, shard, body)
    select * from json_to_recordset(${toJson(rows)}::json)
      as i(run_id bigint, whole_id uuid, result_id uuid, shard smallint, body jsonb)
    on conflict do nothing`.execute(trx);
}

interface EndedPart {
  whole_id: string;
  shard: number;
  outcome: string | null;
  end_reason: string | null;
  /** Null when it ended without a result. */
  body: Body | null;
}

/**
 * The results of suites whose parts have all ended. What ended without a single result has none, as a run
 * in one piece would.
 */
export async function finishedWholes(trx: Trx, runs: readonly OpenRun[]): Promise<StoredResult[]> {
  const wholes = new Map(
    runs.flatMap((run) => (run.whole_id === null ? [] : [[run.whole_id, run] as const])),
  );
  if (wholes.size === 0) return [];
  const { rows } = await sql<EndedPart>`
    select r.whole_id, r.shard, r.outcome, r.end_reason, p.body
    from run r left join run_part p on p.run_id = r.id
    where r.whole_id = any(${[...wholes.keys()]}::uuid[])
      and not exists (select 1 from run o where o.whole_id = r.whole_id and o.state < 3)
    order by r.whole_id, r.shard`.execute(trx);
  return [...Map.groupBy(rows, ({ whole_id }) => whole_id)].flatMap(([wholeId, parts]) => {
    const result = mergeParts(wholeId, parts);
    if (result === undefined) return [];
    return [
      { run: { ...wholes.get(wholeId)!, sequence_id: wholeId, whole_id: null }, type: 'FINAL', result },
    ];
  });
}

function mergeParts(wholeId: string, parts: readonly EndedPart[]): Body | undefined {
  const found = parts.flatMap(({ body, shard }) => (body === null ? [] : [{ body, shard }]));
  const bodies = found.map(({ body }) => body);
  if (bodies.length === 0) return undefined;
  const missing = parts.filter(({ body }) => body === null).map((part) => missingError(part, parts.length));
  const times = bodies.flatMap(({ responseTimeMs }) => (responseTimeMs === null ? [] : [responseTimeMs]));
  return {
    resultId: wholeResultId(wholeId),
    startedAt: bodies.map(({ startedAt }) => startedAt).reduce((a, b) => (a < b ? a : b)),
    stoppedAt: bodies.map(({ stoppedAt }) => stoppedAt).reduce((a, b) => (a > b ? a : b)),
    responseTimeMs: times.length === 0 ? null : Math.max(...times),
    flags: mergeFlags(
      bodies.map(({ flags }) => flags),
      missing.length > 0,
    ),
    errors: distinct([...bodies.flatMap(({ errors }) => errors), ...missing]),
    phases: longest(bodies.map(({ phases }) => phases)),
    statusCode: null,
    measured: {
      eventLoopDelayMs: Math.max(...bodies.map(({ measured }) => measured.eventLoopDelayMs)),
      resolvedAddress: null,
    },
    detail: mergeDetails(found),
  };
}

function missingError({ shard, outcome, end_reason }: EndedPart, total: number): RunResult['errors'][number] {
  const why = end_reason ?? outcome ?? 'no result';
  return { code: 'PART_MISSING', message: `part ${shard} of ${total} has no result: ${why}`, network: false };
}

/** The gravest of all. A part that nobody ran is our error, unless the others failed anyway. */
function mergeFlags(all: readonly RunResult['flags'][], isPartMissing: boolean): RunResult['flags'] {
  const any = (name: keyof RunResult['flags']): boolean => all.some((flags) => flags[name]);
  const hasFailures = any('hasFailures');
  const isCancelled = any('isCancelled');
  const hasErrors = !hasFailures && (any('hasErrors') || (isPartMissing && !isCancelled));
  return {
    hasFailures,
    hasErrors,
    isDegraded: !hasFailures && !hasErrors && any('isDegraded'),
    isCancelled,
    overMaxResponseTime: any('overMaxResponseTime'),
  };
}

function distinct(errors: RunResult['errors']): RunResult['errors'] {
  return [...new Map(errors.map((error) => [`${error.code} ${error.message}`, error])).values()];
}

function longest(all: readonly Record<string, number>[]): Record<string, number> {
  const merged: Record<string, number> = {};
  for (const [name, ms] of all.flatMap((phases) => Object.entries(phases))) {
    merged[name] = Math.max(ms, merged[name] ?? 0);
  }
  return merged;
}

/** What an agent of another version wrote in another shape is left out: its errors and flags count all the same. */
function mergeDetails(found: readonly { body: Body; shard: number }[]): Record<string, unknown> {
  const renamed = found.map(({ body, shard }) => withPartNames(body.detail, shard) as Body['detail']);
  const suites = renamed.flatMap((detail) => {
    const parsed = SuiteResult.safeParse(detail['playwrightCheckResult']);
    return parsed.success ? [parsed.data] : [];
  });
  const older = renamed.map((detail) => detail['browserCheckResult']).filter(isObject);
  return {
    ...(suites.length === 0 ? {} : { playwrightCheckResult: mergeSuites(suites) }),
    ...(older.length === 0 ? {} : { browserCheckResult: older.reduce(mergeOlder) }),
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Lists are joined and counts added; of times the widest span stays, of anything else the first. */
function mergeOlder(a: Record<string, unknown>, b: Record<string, unknown>): Record<string, unknown> {
  const merged = { ...b, ...a };
  for (const [name, ours] of Object.entries(a)) {
    const theirs = b[name];
    if (Array.isArray(ours) && Array.isArray(theirs))
      merged[name] = [...(ours as unknown[]), ...(theirs as unknown[])];
    else if (isObject(ours) && isObject(theirs)) merged[name] = mergeOlder(ours, theirs);
    else if (typeof ours === 'number' && typeof theirs === 'number')
      merged[name] = mergeNumber(name, ours, theirs);
  }
  return merged;
}

function mergeNumber(name: string, a: number, b: number): number {
  if (name === 'startTime') return Math.min(a, b);
  return name === 'endTime' ? Math.max(a, b) : a + b;
}

/** Members that name an artifact without its prefix. */
const NAMING: ReadonlySet<string> = new Set(['artifact', 'filename']);

/** Artifacts by the names that they have among those of all parts. */
function withPartNames(value: unknown, shard: number, member = ''): unknown {
  if (typeof value === 'string') {
    if (value.startsWith(ARTIFACT_PREFIX)) {
      return ARTIFACT_PREFIX + partArtifactName(shard, value.slice(ARTIFACT_PREFIX.length));
    }
    return NAMING.has(member) ? partArtifactName(shard, value) : value;
  }
  if (Array.isArray(value)) return value.map((each) => withPartNames(each, shard));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, withPartNames(each, shard, name)]),
  );
}
