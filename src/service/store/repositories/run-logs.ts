import { sql, type Selectable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { RunLogTable } from '../schema.ts';

export type RunLogRow = Pick<Selectable<RunLogTable>, 'id' | 'shard' | 'text'>;

/** Of each run, bytes: what was printed before goes. */
const KEPT_BYTES = 256 * 1024;
/** Whoever reads along does so within hours. */
const KEPT_HOURS = 3;

/**
 * Adds to the log of a run that is under way at the place with this token.
 *
 * @returns its session, or undefined when there is no such run
 */
export async function append(
  db: Db,
  place: { accountId: string; location: string },
  said: { runId: number; token: number; text: string },
): Promise<string | undefined> {
  const { rows } = await sql<{ session_id: string }>`
    insert into run_log (session_id, run_id, shard, text)
    select session_id, id, shard, ${said.text} from run
    where id = ${said.runId} and token = ${said.token} and state = 2
      and account_id = ${place.accountId} and location = ${place.location}
    returning session_id`.execute(db);
  if (rows[0] === undefined) return undefined;
  await sql`
    delete from run_log where run_id = ${said.runId} and id < (
      select min(id) from (
        select id, sum(octet_length(text)) over (order by id desc) as bytes
        from run_log where run_id = ${said.runId}) kept
      where bytes <= ${KEPT_BYTES})`.execute(db);
  return rows[0].session_id;
}

/** What was printed after the row `after`, oldest first. */
export async function read(db: Db, sessionId: string, after: number, limit: number): Promise<RunLogRow[]> {
  return db
    .selectFrom('run_log')
    .select(['id', 'shard', 'text'])
    .where('session_id', '=', sessionId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute();
}

export async function removeOld(db: Db): Promise<void> {
  await sql`delete from run_log where created_at < now() - ${KEPT_HOURS}::int * interval '1 hour'`.execute(
    db,
  );
}
