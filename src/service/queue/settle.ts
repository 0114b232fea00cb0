import { sql } from 'kysely';
import { MAX_ARTIFACT_BYTES, unobserved, type Artifact, type RunResult } from '../../contract/index.ts';
import { derivedId } from '../../kit/ids.ts';
import type { Trx } from '../ports.ts';
import { artifactId, toJson } from '../store/index.ts';
import { RunState } from '../store/schema.ts';
import { noteErrors } from './error-groups.ts';
import { finishedWholes, keepParts, placeOf } from './parts.ts';
import type { OpenRun } from './run-row.ts';

export type Outcome = 'PASSED' | 'DEGRADED' | 'FAILED' | 'TIMED_OUT' | 'CANCELLED';

/** How a run ends. */
export interface Ending {
  run: OpenRun;
  state: number;
  outcome: Outcome;
  endReason?: string;
}

/** Closes runs for good; the definition is not needed any more and goes, which keeps rows small. */
export async function endRuns(trx: Trx, endings: readonly Ending[]): Promise<void> {
  if (endings.length === 0) return;
  await sql`
    update run r set state = e.state, outcome = e.outcome, end_reason = e.reason, finished_at = now(),
      agent_id = null, lease_until = null, hard_until = null, payload = '{}'
    from unnest(${endings.map(({ run }) => run.id)}::bigint[], ${endings.map(({ state }) => state)}::smallint[],
                ${endings.map(({ outcome }) => outcome)}::text[],
                ${endings.map(({ endReason }) => endReason ?? null)}::text[]) as e(id, state, outcome, reason)
    where r.id = e.id`.execute(trx);
}

/** A result as it is stored; `detail` is what the interface shows besides the columns. */
export interface StoredResult {
  run: OpenRun;
  type: 'FINAL' | 'ATTEMPT';
  result: Omit<RunResult, 'runId' | 'sequenceId' | 'token' | 'attempt'>;
}

/** Stores results. Parts of suites wait for their others; the last one brings the result of the whole. */
export async function insertResults(trx: Trx, results: readonly StoredResult[]): Promise<void> {
  const parts = results.filter(({ run }) => run.whole_id !== null);
  await keepParts(trx, parts);
  await insertManifests(trx, parts);
  await insertWhole(
    trx,
    results.filter(({ run }) => run.whole_id === null),
  );
  await mergeWholes(
    trx,
    parts.map(({ run }) => run),
  );
}

/** Stores the results of suites whose parts have all ended. @param runs parts among others */
export async function mergeWholes(trx: Trx, runs: readonly OpenRun[]): Promise<void> {
  await insertWhole(trx, await finishedWholes(trx, runs));
}

async function insertWhole(trx: Trx, results: readonly StoredResult[]): Promise<void> {
  if (results.length === 0) return;
  const groupsOf = await noteErrors(trx, results);
  await sql`
    with input as materialized (
      select * from json_to_recordset(${toJson(results.map((each) => resultRow(each, groupsOf(each))))}::json) as i(
        id uuid, scheduled_at timestamptz, account_id uuid, check_id uuid, check_type text, name text,
        session_id uuid, run_id bigint, sequence_id uuid, location text, result_type text, attempts smallint,
        has_failures boolean, has_errors boolean, is_degraded boolean, is_cancelled boolean,
        over_max_response_time boolean, response_time float8, status_code int, phases jsonb,
        error_group_ids uuid[], started_at timestamptz, stopped_at timestamptz, detail jsonb)
    ), listed as (
      insert into check_result (id, scheduled_at, account_id, check_id, check_type, name, session_id, run_id,
        sequence_id, location, result_type, attempts, has_failures, has_errors, is_degraded, is_cancelled,
        over_max_response_time, response_time, status_code, phases, error_group_ids, started_at, stopped_at)
      select id, scheduled_at, account_id, check_id, check_type, name, session_id, run_id,
        sequence_id, location, result_type, attempts, has_failures, has_errors, is_degraded, is_cancelled,
        over_max_response_time, response_time, status_code, phases, error_group_ids, started_at, stopped_at
      from input on conflict do nothing
    )
    insert into check_result_detail (result_id, scheduled_at, detail)
    select id, scheduled_at, detail from input on conflict do nothing`.execute(trx);
  await insertManifests(trx, results);
}

/** The bytes follow, from agents that find their artifact here. */
async function insertManifests(trx: Trx, results: readonly StoredResult[]): Promise<void> {
  const rows = results.flatMap(({ run, result }) =>
    (result.artifacts ?? []).map((artifact, position) =>
      artifactRow(run, result.resultId, artifact, position),
    ),
  );
  if (rows.length === 0) return;
  await sql`
    insert into artifact (id, scheduled_at, result_id, account_id, location, name, kind, content_type, size,
      sha256, state, reason, position)
    select * from json_to_recordset(${toJson(rows)}::json) as i(
      id uuid, scheduled_at timestamptz, result_id uuid, account_id uuid, location text, name text, kind text,
      content_type text, size bigint, sha256 text, state text, reason text, position int)
    on conflict do nothing`.execute(trx);
}

function artifactRow(run: OpenRun, resultId: string, artifact: Artifact, position: number): object {
  const { kind, contentType, size, sha256, state, reason } = artifact;
  const place = placeOf(run, resultId, artifact.name);
  const tooLarge = state === 'pending' && size > MAX_ARTIFACT_BYTES;
  return {
    id: artifactId(place.resultId, place.name),
    scheduled_at: run.scheduled_at.toISOString(),
    result_id: place.resultId,
    account_id: run.account_id,
    location: run.location,
    name: place.name,
    kind,
    content_type: contentType,
    size,
    sha256: tooLarge ? null : sha256,
    state: tooLarge ? 'refused' : state,
    reason: tooLarge ? `it has ${size} bytes; at most ${MAX_ARTIFACT_BYTES} are taken` : (reason ?? null),
    position: place.from + position,
  };
}

function resultRow({ run, type, result }: StoredResult, errorGroupIds: readonly string[]): object {
  const { flags } = result;
  return {
    id: result.resultId,
    scheduled_at: run.scheduled_at.toISOString(),
    account_id: run.account_id,
    check_id: run.check_id,
    check_type: run.check_type,
    name: run.name,
    session_id: run.session_id,
    run_id: run.id,
    sequence_id: run.sequence_id,
    location: run.location,
    result_type: type,
    attempts: run.attempt,
    has_failures: flags.hasFailures,
    has_errors: flags.hasErrors,
    is_degraded: flags.isDegraded,
    is_cancelled: flags.isCancelled,
    over_max_response_time: flags.overMaxResponseTime,
    response_time: result.responseTimeMs,
    status_code: result.statusCode,
    phases: result.phases,
    error_group_ids: errorGroupIds,
    started_at: result.startedAt,
    stopped_at: result.stoppedAt,
    detail: { errors: result.errors, measured: result.measured, ...result.detail },
  };
}

/** The FINAL of a run that was cancelled before an agent could say so. */
export function cancelled(run: OpenRun): { ending: Ending; final: StoredResult } {
  return {
    ending: { run, state: RunState.cancelled, outcome: 'CANCELLED' },
    final: ownFinal(run, 'cancelled', { isCancelled: true }, []),
  };
}

/** The FINAL of a run that ended `deliveries` agents, or so it seems: our error, not the target's. */
export function poisoned(run: OpenRun): { ending: Ending; final: StoredResult } {
  const message = `the agent stopped ${run.deliveries} times while running this check`;
  return {
    ending: { run, state: RunState.poison, outcome: 'FAILED', endReason: 'AGENT_STOPPED' },
    final: ownFinal(run, 'poison', { hasErrors: true }, [{ code: 'AGENT_STOPPED', message, network: false }]),
  };
}

function ownFinal(
  run: OpenRun,
  why: string,
  flags: Partial<RunResult['flags']>,
  errors: RunResult['errors'],
): StoredResult {
  return {
    run,
    type: 'FINAL',
    result: {
      resultId: derivedId(run.sequence_id, run.attempt, why),
      startedAt: (run.first_started_at ?? run.now).toISOString(),
      stoppedAt: run.now.toISOString(),
      ...unobserved(flags),
      errors,
    },
  };
}
