import { sql, type Insertable, type Selectable, type Updateable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { PrivateLocationKeyTable, PrivateLocationTable } from '../schema.ts';

export type LocationRow = Selectable<PrivateLocationTable>;
export type LocationKeyRow = Pick<
  Selectable<PrivateLocationKeyTable>,
  'id' | 'location_id' | 'masked' | 'created_at' | 'updated_at'
>;
/** An agent with a session at this moment. */
export interface ConnectedAgent {
  id: string;
  locationId: string;
  version: string;
  lastSeen: Date;
}

export async function listLocations(db: Db, accountId: string): Promise<LocationRow[]> {
  return db
    .selectFrom('private_location')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

/** `lock` holds the row until the transaction ends, so that two writers of its keys take turns. */
export async function findLocation(
  db: Db,
  accountId: string,
  id: string,
  lock = false,
): Promise<LocationRow | undefined> {
  return db
    .selectFrom('private_location')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .$if(lock, (query) => query.forUpdate())
    .executeTakeFirst();
}

/**
 * Those of `slugs` that exist. Their rows cannot be deleted or renamed until the transaction ends, so
 * that a check never names a location that is gone.
 */
export async function holdSlugs(db: Db, accountId: string, slugs: readonly string[]): Promise<Set<string>> {
  if (slugs.length === 0) return new Set();
  const rows = await db
    .selectFrom('private_location')
    .select('slug')
    .where('account_id', '=', accountId)
    .where('slug', 'in', [...slugs])
    .forShare()
    .execute();
  return new Set(rows.map((row) => row.slug));
}

/** @returns false when the account has a location of this slug */
export async function insertLocation(db: Db, row: Insertable<PrivateLocationTable>): Promise<boolean> {
  const done = await db
    .insertInto('private_location')
    .values(row)
    .onConflict((conflict) => conflict.columns(['account_id', 'slug']).doNothing())
    .returning('id')
    .execute();
  return done.length === 1;
}

export async function slugIsTaken(
  db: Db,
  accountId: string,
  slug: string,
  exceptId: string,
): Promise<boolean> {
  const row = await db
    .selectFrom('private_location')
    .select('id')
    .where('account_id', '=', accountId)
    .where('slug', '=', slug)
    .where('id', '!=', exceptId)
    .executeTakeFirst();
  return row !== undefined;
}

export async function updateLocation(
  db: Db,
  id: string,
  change: Updateable<PrivateLocationTable>,
): Promise<void> {
  await db
    .updateTable('private_location')
    .set({ ...change, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}

/** Keys and agents of the location go with it. */
export async function deleteLocation(db: Db, id: string): Promise<void> {
  await db.deleteFrom('private_location').where('id', '=', id).execute();
}

/** Names of checks and groups that mention it, a few of them, to show what stands in the way. */
export async function usersOf(db: Db, accountId: string, slug: string): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select name from (
      select name, created_at from check_def
      where account_id = ${accountId}
        and (${slug}::text = any(run_locations) or definition -> 'privateLocations' @> to_jsonb(${slug}::text))
      union all
      select name, created_at from check_group
      where account_id = ${accountId} and definition -> 'privateLocations' @> to_jsonb(${slug}::text)) users
    order by created_at limit 4`.execute(db);
  return rows.map((row) => row.name);
}

export async function keysOf(db: Db, locationIds: readonly string[]): Promise<LocationKeyRow[]> {
  if (locationIds.length === 0) return [];
  return db
    .selectFrom('private_location_key')
    .select(['id', 'location_id', 'masked', 'created_at', 'updated_at'])
    .where('location_id', 'in', [...locationIds])
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

export async function insertKey(
  db: Db,
  key: { id: string; location_id: string; hash: Buffer; masked: string },
): Promise<LocationKeyRow> {
  return db
    .insertInto('private_location_key')
    .values(key)
    .returning(['id', 'location_id', 'masked', 'created_at', 'updated_at'])
    .executeTakeFirstOrThrow();
}

/** @returns false when the location has no such key */
export async function deleteKey(db: Db, locationId: string, keyId: string): Promise<boolean> {
  const done = await db
    .deleteFrom('private_location_key')
    .where('location_id', '=', locationId)
    .where('id', '=', keyId)
    .returning('id')
    .execute();
  return done.length === 1;
}

export async function connectedAgents(db: Db, locationIds: readonly string[]): Promise<ConnectedAgent[]> {
  if (locationIds.length === 0) return [];
  return db
    .selectFrom('agent')
    .select(['id', 'location_id as locationId', 'version', 'last_seen as lastSeen'])
    .where('location_id', 'in', [...locationIds])
    .where('session_id', 'is not', null)
    .orderBy('id')
    .execute();
}
