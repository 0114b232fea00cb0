import { sql } from 'kysely';

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
  name: string;
  /** The database's now. */
  now: Date;
}

/** The columns of an OpenRun, of a run named `r`. */
export const openRunColumns = sql`r.id, r.sequence_id, r.session_id, r.check_id, r.account_id, r.location,
  r.check_type, r.state, r.token, r.deliveries, r.attempt, r.scheduled_at, r.first_started_at,
  r.cancel_requested, r.excluded_agents, r.agent_id, coalesce(r.payload->>'name', '') as name, now() as now`;

/** Name of the topic that says: there is something to claim at this run's location. */
export const claimTopic = (run: { account_id: string; location: string }): `runs:${string}` =>
  `runs:${run.account_id}/${run.location}`;
