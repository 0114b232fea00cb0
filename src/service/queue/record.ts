import { sql } from 'kysely';
import type { ResultReceipt, RunResult, Timing } from '../../contract/index.ts';
import type { Trx } from '../ports.ts';
import { toJson } from '../store/index.ts';
import { RunState } from '../store/schema.ts';
import { nextTryMs, retryRule } from './retry.ts';
import { openRunColumns, type OpenRun } from './run-row.ts';
import { refreshSessions } from './session-status.ts';
import { endRuns, insertResults, type Ending, type Outcome, type StoredResult } from './settle.ts';
import { interval } from './sql.ts';

export interface Place {
  accountId: string;
  slug: string;
}

interface Retry {
  run: OpenRun;
  waitMs: number;
  /** Another location is wanted, if there is one. */
  moves: boolean;
  location: string;
}

/** What a batch does to the store, decided before anything is written. */
interface Plan {
  /** One per result, in order. */
  receipts: ResultReceipt[];
  stored: StoredResult[];
  endings: Ending[];
  retries: Retry[];
  late: { run: OpenRun; result: RunResult; receipt: number }[];
}

/** A run with its check's rules for retries. */
interface RetriedRun extends OpenRun {
  retry_strategy: unknown;
  has_strategy: boolean;
  double_check: boolean;
  may_move: boolean;
}

export interface Recorded {
  receipts: ResultReceipt[];
  /** Runs whose session changed. */
  touched: OpenRun[];
  retries: Retry[];
}

/**
 * Counts a batch inside `trx`. The fence protects leases, not evidence: the first outcome of an attempt
 * counts even when its lease has ended, and the repetition is lost at its next renewal. The locked run
 * row makes sure that there is only one first.
 */
export async function recordBatch(
  trx: Trx,
  place: Place,
  results: readonly RunResult[],
  timing: Timing,
): Promise<Recorded> {
  const runs = await lockRuns(trx, results);
  const plan: Plan = { receipts: [], stored: [], endings: [], retries: [], late: [] };
  for (const result of results) {
    plan.receipts.push(take(plan, runs.get(result.runId), place, result));
  }
  await moveRetries(trx, plan.retries);
  await endRuns(trx, plan.endings);
  await requeue(trx, plan.retries, timing);
  await insertResults(trx, plan.stored);
  await keepLate(trx, plan);
  const touched = plan.stored.map(({ run }) => run);
  await refreshSessions(
    trx,
    touched.map(({ session_id }) => session_id),
  );
  return { receipts: plan.receipts, touched, retries: plan.retries };
}

/** In the order of lockOpen. */
async function lockRuns(trx: Trx, results: readonly RunResult[]): Promise<Map<number, RetriedRun>> {
  const { rows } = await sql<RetriedRun>`
    select ${openRunColumns}, r.payload->'retryStrategy' as retry_strategy,
      r.payload ? 'retryStrategy' as has_strategy,
      coalesce((r.payload->>'doubleCheck')::boolean, true) as double_check,
      not coalesce((r.payload->>'runParallel')::boolean, false)
        and cardinality(s.run_locations) = 1 as may_move
    from run r join check_session s on s.id = r.session_id
    where r.id = any(${results.map(({ runId }) => runId)}::bigint[])
    order by r.session_id, r.id for update of r, s`.execute(trx);
  return new Map(rows.map((run) => [run.id, run]));
}

/** Decides about one result, and notes on the run what later results of the batch must see. */
function take(plan: Plan, run: RetriedRun | undefined, place: Place, result: RunResult): ResultReceipt {
  const { resultId } = result;
  if (run?.account_id !== place.accountId || run.sequence_id !== result.sequenceId) {
    return { resultId, status: 'rejected', reason: 'there is no such run' };
  }
  if (result.token > run.token) return { resultId, status: 'rejected', reason: 'this token was never given' };
  if (run.state >= RunState.done || result.attempt !== run.attempt) {
    plan.late.push({ run, result, receipt: plan.receipts.length });
    return { resultId, status: 'late', reason: 'another outcome was counted before' };
  }
  if (run.location !== place.slug) {
    return { resultId, status: 'rejected', reason: 'the run belongs to another location' };
  }
  const retry = retryOf(run, result);
  plan.stored.push({ run: { ...run }, type: retry === null ? 'FINAL' : 'ATTEMPT', result });
  if (retry === null) {
    const ending = { run, state: stateOf(result), outcome: outcomeOf(result) };
    plan.endings.push(ending);
    run.state = ending.state;
  } else {
    plan.retries.push(retry);
    run.attempt += 1;
  }
  return { resultId, status: 'stored' };
}

function retryOf(run: RetriedRun, result: RunResult): Retry | null {
  if (run.cancel_requested) return null;
  const rule = retryRule({
    retryStrategy: run.has_strategy ? run.retry_strategy : undefined,
    doubleCheck: run.double_check,
  });
  const since = run.first_started_at ?? run.now;
  const waitMs = nextTryMs(rule, result, run.attempt, run.now.getTime() - since.getTime());
  if (rule === null || waitMs === null) return null;
  return { run: { ...run }, waitMs, moves: rule.elsewhere && run.may_move, location: run.location };
}

const stateOf = ({ flags }: RunResult): number => (flags.isCancelled ? RunState.cancelled : RunState.done);

/** Our own fault is not a pass: an unseen target must not look healthy. */
function outcomeOf({ flags }: RunResult): Outcome {
  if (flags.isCancelled) return 'CANCELLED';
  if (flags.hasFailures || flags.hasErrors) return 'FAILED';
  return flags.isDegraded ? 'DEGRADED' : 'PASSED';
}

/**
 * Chooses the place of retries that are to run elsewhere: at random among the check's other private
 * locations with a connected agent for its type. Without one the retry stays, because a check that
 * failed must not end as timed out.
 */
async function moveRetries(trx: Trx, retries: readonly Retry[]): Promise<void> {
  const moving = retries.filter(({ moves }) => moves);
  if (moving.length === 0) return;
  const { rows } = await sql<{ check_id: string; slug: string }>`
    select c.id as check_id, l.slug from check_def c
    join private_location l on l.account_id = c.account_id and l.slug = any(c.run_locations)
    where c.id = any(${moving.map(({ run }) => run.check_id)}::uuid[])
      and exists (select 1 from agent a
        where a.location_id = l.id and a.session_id is not null and c.type = any(a.check_types))`.execute(
    trx,
  );
  for (const retry of moving) {
    const others = rows.filter(
      ({ check_id, slug }) => check_id === retry.run.check_id && slug !== retry.run.location,
    );
    const chosen = others[Math.floor(Math.random() * others.length)];
    if (chosen !== undefined) retry.location = chosen.slug;
  }
}

async function requeue(trx: Trx, retries: readonly Retry[], timing: Timing): Promise<void> {
  if (retries.length === 0) return;
  await sql`
    update run r set state = 0, attempt = r.attempt + 1, deliveries = 0, location = n.location,
      not_before = now() + n.wait * interval '1 millisecond',
      expires_at = now() + n.wait * interval '1 millisecond' + ${interval(timing.queueExpiryMs)},
      first_started_at = coalesce(r.first_started_at, now()),
      agent_id = null, lease_until = null, hard_until = null
    from unnest(${retries.map(({ run }) => run.id)}::bigint[], ${retries.map(({ waitMs }) => waitMs)}::float8[],
                ${retries.map(({ location }) => location)}::text[]) as n(id, wait, location)
    where r.id = n.id`.execute(trx);
}

/** A late result that is in the store already is a repetition of itself, not another outcome. */
async function keepLate(trx: Trx, plan: Plan): Promise<void> {
  if (plan.late.length === 0) return;
  const ids = plan.late.map(({ result }) => result.resultId);
  const instants = plan.late.map(({ run }) => run.scheduled_at.toISOString());
  const { rows } = await sql<{ id: string; run_id: number }>`
    select id, run_id from check_result
    where id = any(${ids}::uuid[]) and scheduled_at = any(${instants}::timestamptz[])
    union all select result_id, run_id from run_part where result_id = any(${ids}::uuid[])`.execute(trx);
  const stored = new Set([
    ...rows.map(({ id, run_id }) => `${id} ${run_id}`),
    ...plan.stored.map(({ run, result }) => `${result.resultId} ${run.id}`),
  ]);
  for (const { run, result, receipt } of plan.late) {
    const { resultId } = result;
    if (stored.has(`${resultId} ${run.id}`)) {
      plan.receipts[receipt] = { resultId, status: 'duplicate' };
      continue;
    }
    await sql`
      insert into result_late (id, run_id, session_id, body)
      values (${resultId}, ${run.id}, ${run.session_id}, ${toJson(result)}::jsonb)
      on conflict do nothing`.execute(trx);
  }
}
