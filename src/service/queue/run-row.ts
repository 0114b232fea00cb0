import { sql, type RawBuilder } from 'kysely';
import type { Trx } from '../ports.ts';

/** An unfinished run, locked, with what closing or repeating it needs. */
export interface OpenRun {
  id: number;
  sequence_id: string;
  session_id: string;
  check_id: string;
  account_id: string;
  location: string;
  check_type: string;
  state: number;
  token: number;
  deliveries: number;
  attempt: number;
  scheduled_at: Date;
  first_started_at: Date | null;
  cancel_requested: boolean;
  excluded_agents: string[];
  agent_id: string | null;
  /** The sequence that its parts are shown as; null of what is no part. */
  whole_id: string | null;
  shard: number | null;
  tested_check_id: string | null;
  test_session_id: string | null;
  name: string;
  /** The database's now. */
  now: Date;
}

/** The columns of an OpenRun, of a run named `r` and its session `s`. */
export const openRunColumns = sql`r.whole_id, r.shard, r.tested_check_id, s.test_session_id, r.id, r.sequence_id, r.session_id, r.check_id, r.account_id, r.location,
  r.check_type, r.state, r.token, r.deliveries, r.attempt, r.scheduled_at, r.first_started_at,
  r.cancel_requested, r.excluded_agents, r.agent_id, coalesce(r.payload->>'name', '') as name, now() as now`;

/**
 * Locks unfinished runs and their sessions: by session, then by run, in every transaction, so that two
 * of them wait for one another in one direction only. Sessions are locked because their status follows
 * from all their runs: two results of one session that commit at the same time would otherwise each see
 * the other's run unfinished, and the session would never end.
 *
 * @param condition on the run `r`
 */
export async function lockOpen(trx: Trx, condition: RawBuilder<unknown>): Promise<OpenRun[]> {
  const { rows } = await sql<OpenRun>`
    select ${openRunColumns} from run r join check_session s on s.id = r.session_id
    where ${condition} order by r.session_id, r.id for update of r, s`.execute(trx);
  return rows;
}

const SWEEP = 500;

/** As lockOpen, at most 500 of them and none that another transaction has. */
export async function lockSome(trx: Trx, condition: RawBuilder<unknown>): Promise<OpenRun[]> {
  const { rows } = await sql<OpenRun>`
    select ${openRunColumns} from run r join check_session s on s.id = r.session_id
    where ${condition} order by r.session_id, r.id limit ${SWEEP} for update of r, s skip locked`.execute(
    trx,
  );
  return rows;
}

/** Name of the topic that says: there is something to claim at this run's location. */
export const claimTopic = (run: { account_id: string; location: string }): `runs:${string}` =>
  `runs:${run.account_id}/${run.location}`;
