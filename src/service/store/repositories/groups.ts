import { sql, type Insertable, type Selectable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { CheckGroupTable } from '../schema.ts';

export type GroupRow = Selectable<CheckGroupTable>;

export interface GroupFilter {
  /** Any of these. */
  tags?: readonly string[] | undefined;
  names?: readonly string[] | undefined;
}

export async function listGroups(
  db: Db,
  accountId: string,
  { tags, names }: GroupFilter,
  page: { limit: number; offset: number },
): Promise<GroupRow[]> {
  return db
    .selectFrom('check_group')
    .selectAll()
    .where('account_id', '=', accountId)
    .$if(tags !== undefined, (q) => q.where(sql<boolean>`tags && ${[...tags!]}::text[]`))
    .$if(names !== undefined, (q) => q.where('name', 'in', [...names!]))
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(page.limit)
    .offset(page.offset)
    .execute();
}

/**
 * @param lock `share` keeps the group as it is until the transaction ends, for a check that enters it;
 * `update` keeps checks from entering it too
 */
export async function findGroup(
  db: Db,
  accountId: string,
  id: number,
  lock?: 'share' | 'update',
): Promise<GroupRow | undefined> {
  return db
    .selectFrom('check_group')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .$if(lock === 'share', (query) => query.forShare())
    .$if(lock === 'update', (query) => query.forUpdate())
    .executeTakeFirst();
}

export async function findGroups(db: Db, ids: readonly number[]): Promise<GroupRow[]> {
  if (ids.length === 0) return [];
  return db
    .selectFrom('check_group')
    .selectAll()
    .where('id', 'in', [...ids])
    .execute();
}

export async function insertGroup(db: Db, row: Insertable<CheckGroupTable>): Promise<GroupRow> {
  return db.insertInto('check_group').values(row).returningAll().executeTakeFirstOrThrow();
}

export async function updateGroup(
  db: Db,
  id: number,
  change: Pick<Insertable<CheckGroupTable>, 'name' | 'tags' | 'definition'>,
): Promise<GroupRow> {
  return db
    .updateTable('check_group')
    .set({ ...change, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

export async function deleteGroup(db: Db, id: number): Promise<void> {
  await db.deleteFrom('check_group').where('id', '=', id).execute();
}
