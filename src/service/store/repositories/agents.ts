import { sql } from 'kysely';
import type { Db } from '../../ports.ts';

/**
 * Rows of agents and of the location keys they come with. Statements take many agents at once, as
 * thousands return together; they lock rows in the order of their ids, so that no two can deadlock.
 */

/** Whose key a request carries. */
export interface KeyHolder {
  keyId: string;
  locationId: string;
  accountId: string;
  /** Slug of the location. */
  location: string;
}

export async function findKeyHolder(db: Db, hash: Buffer): Promise<KeyHolder | undefined> {
  return db
    .selectFrom('private_location_key as key')
    .innerJoin('private_location as location', 'location.id', 'key.location_id')
    .where('key.hash', '=', hash)
    .select(['key.id as keyId', 'location.id as locationId', 'location.account_id as accountId'])
    .select('location.slug as location')
    .executeTakeFirst();
}

/** The present slug of the key's location; undefined when the key is gone. */
export async function locationOfKey(db: Db, keyId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('private_location_key as key')
    .innerJoin('private_location as location', 'location.id', 'key.location_id')
    .where('key.id', '=', keyId)
    .select('location.slug')
    .executeTakeFirst();
  return row?.slug;
}

export interface ArrivingAgent {
  id: string;
  locationId: string;
  keyId: string;
  instanceId: string;
  sid: string;
  version: string;
  checkTypes: string[];
  slots: number;
}

/**
 * Makes or renews the rows of agents that said hello; ids must differ from one another.
 *
 * @returns the new epoch of each; an agent whose key or location is gone is missing
 */
export async function welcomeAgents(db: Db, agents: readonly ArrivingAgent[]): Promise<Map<string, number>> {
  const { rows } = await sql<{ id: string; epoch: number }>`
    insert into agent (id, location_id, key_id, instance_id, session_id, epoch, version, check_types,
                       slots, free, draining, connected_at, last_seen)
    select a.id, a."locationId", a."keyId", a."instanceId", a.sid, 1, a.version, a."checkTypes",
           a.slots, 0, false, now(), now()
    from json_to_recordset(${JSON.stringify(agents)}::json)
      as a(id uuid, "locationId" uuid, "keyId" uuid, "instanceId" uuid, sid uuid, version text,
           "checkTypes" text[], slots int)
    join private_location_key k on k.id = a."keyId" and k.location_id = a."locationId"
    order by a.id
    on conflict (id) do update set
      key_id = excluded.key_id, instance_id = excluded.instance_id, session_id = excluded.session_id,
      epoch = agent.epoch + 1, version = excluded.version, check_types = excluded.check_types,
      slots = excluded.slots, free = 0, draining = false, connected_at = now(), last_seen = now()
    returning id, epoch`.execute(db);
  return new Map(rows.map(({ id, epoch }) => [id, epoch]));
}

export interface SeenAgent {
  id: string;
  sid: string;
  epoch: number;
  free: number;
  /** Slug that the session believes to serve. */
  location: string;
}

/** `replaced` by a later hello, `revoked` with key or location, or its location has another slug now. */
export type Standing = 'current' | 'replaced' | 'revoked' | 'renamed';

/** Notes that agents are alive, and finds out whether they still may be. */
export async function seeAgents(db: Db, agents: readonly SeenAgent[]): Promise<Map<string, Standing>> {
  // By epoch and not by session: an agent that was silent for long had its session cleared.
  const { rows } = await sql<{ id: string; current: boolean; slug: string | null }>`
    with seen as materialized (
      select * from json_to_recordset(${JSON.stringify(agents)}::json)
        as s(id uuid, sid uuid, epoch int, free int)
    ), locked as materialized (
      select a.id from agent a join seen on seen.id = a.id and seen.epoch = a.epoch
      order by a.id for update of a
    ), touched as (
      update agent a set last_seen = now(), free = seen.free, session_id = seen.sid
      from seen join locked on locked.id = seen.id
      where a.id = seen.id
    )
    select a.id, a.epoch = seen.epoch as current, l.slug
    from seen
    join agent a on a.id = seen.id
    left join private_location_key k on k.id = a.key_id
    left join private_location l on l.id = k.location_id`.execute(db);
  const found = new Map(rows.map((row) => [row.id, row]));
  return new Map(
    agents.map(({ id, location }) => {
      const row = found.get(id);
      if (row !== undefined && !row.current) return [id, 'replaced'];
      if (row === undefined || row.slug === null) return [id, 'revoked'];
      return [id, row.slug === location ? 'current' : 'renamed'];
    }),
  );
}

/** Forgets sessions that ended; a later session of the same agent is left alone. */
export async function endSessions(db: Db, sids: readonly string[]): Promise<void> {
  await sql`update agent set session_id = null, free = 0 where id in (
      select id from agent where session_id in (${sql.join(sids)}) order by id for update
    )`.execute(db);
}

export async function setDraining(db: Db, sid: string): Promise<void> {
  await db.updateTable('agent').set({ draining: true, free: 0 }).where('session_id', '=', sid).execute();
}

/** The epoch of the agent's latest hello; undefined when it is unknown. */
export async function currentEpoch(db: Db, id: string): Promise<number | undefined> {
  const row = await db.selectFrom('agent').where('id', '=', id).select('epoch').executeTakeFirst();
  return row?.epoch;
}

export interface OpenSessionRow {
  id: string;
  keyId: string | null;
  epoch: number;
  version: string;
  checkTypes: string[];
  slots: number;
  free: number;
  draining: boolean;
}

/** A session as its row tells it, for a replica of the service that has not met it. */
export async function findSession(
  db: Db,
  sid: string,
  locationId: string,
): Promise<OpenSessionRow | undefined> {
  return db
    .selectFrom('agent')
    .where('session_id', '=', sid)
    .where('location_id', '=', locationId)
    .select(['id', 'key_id as keyId', 'epoch', 'version', 'check_types as checkTypes'])
    .select(['slots', 'free', 'draining'])
    .executeTakeFirst();
}

/** Shows keys as used and locations as seen now. */
export async function touchKeys(
  db: Db,
  keyIds: readonly string[],
  locationIds: readonly string[],
): Promise<void> {
  await sql`update private_location_key set last_used_at = now()
    where id in (${sql.join(keyIds)})`.execute(db);
  await sql`update private_location set last_seen = now()
    where id in (${sql.join(locationIds)})`.execute(db);
}

/** Clears the sessions of agents that were silent for `silentMs`. */
export async function clearSilentSessions(db: Db, silentMs: number): Promise<void> {
  await sql`update agent set session_id = null, free = 0 where id in (
      select id from agent
      where session_id is not null and last_seen < now() - ${silentMs}::float8 * interval '1 millisecond'
      for update skip locked
    )`.execute(db);
}

/** Removes agents that were not seen for `days`. @returns how many */
export async function pruneAgents(db: Db, days: number): Promise<number> {
  const { rows } = await sql<{ id: string }>`delete from agent
    where session_id is null and last_seen < now() - ${days}::float8 * interval '1 day' returning id`.execute(
    db,
  );
  return rows.length;
}
