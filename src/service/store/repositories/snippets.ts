import { sql, type Selectable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { SnippetTable } from '../schema.ts';

export type SnippetRow = Selectable<SnippetTable>;

export async function listSnippets(
  db: Db,
  accountId: string,
  page: { limit: number; offset: number },
): Promise<SnippetRow[]> {
  return db
    .selectFrom('snippet')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(page.limit)
    .offset(page.offset)
    .execute();
}

export async function snippetsOf(db: Db, accountIds: readonly string[]): Promise<SnippetRow[]> {
  if (accountIds.length === 0) return [];
  return db
    .selectFrom('snippet')
    .selectAll()
    .where('account_id', 'in', [...accountIds])
    .orderBy('id')
    .execute();
}

/** `lock` holds the row until the transaction ends, so that two writers take turns. */
export async function findSnippet(
  db: Db,
  accountId: string,
  id: number,
  lock = false,
): Promise<SnippetRow | undefined> {
  return db
    .selectFrom('snippet')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .$if(lock, (query) => query.forUpdate())
    .executeTakeFirst();
}

/** Those of `ids` that exist. They stay until the transaction ends. */
export async function holdSnippets(db: Db, accountId: string, ids: readonly number[]): Promise<Set<number>> {
  if (ids.length === 0) return new Set();
  const rows = await db
    .selectFrom('snippet')
    .select('id')
    .where('account_id', '=', accountId)
    .where('id', 'in', [...ids])
    .forShare()
    .execute();
  return new Set(rows.map((row) => row.id));
}

/** @returns undefined when the account has a snippet of this name */
export async function insertSnippet(
  db: Db,
  row: { account_id: string; name: string; script: string },
): Promise<SnippetRow | undefined> {
  return db
    .insertInto('snippet')
    .values(row)
    .onConflict((conflict) => conflict.columns(['account_id', 'name']).doNothing())
    .returningAll()
    .executeTakeFirst();
}

/** Whether a snippet other than `exceptId` has one of the names. */
export async function oneIsNamed(
  db: Db,
  accountId: string,
  names: readonly string[],
  exceptId = 0,
): Promise<boolean> {
  const row = await db
    .selectFrom('snippet')
    .select('id')
    .where('account_id', '=', accountId)
    .where('name', 'in', [...names])
    .where('id', '!=', exceptId)
    .executeTakeFirst();
  return row !== undefined;
}

export async function updateSnippet(
  db: Db,
  id: number,
  change: { name: string; script: string },
): Promise<SnippetRow> {
  return db
    .updateTable('snippet')
    .set({ ...change, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

export async function deleteSnippet(db: Db, id: number): Promise<void> {
  await db.deleteFrom('snippet').where('id', '=', id).execute();
}

/** Names of checks and groups whose setup or teardown it is, a few of them. */
export async function usersOf(db: Db, accountId: string, id: number): Promise<string[]> {
  const isUsed = sql`(definition -> 'setupSnippetId' = to_jsonb(${id}::int)
    or definition -> 'tearDownSnippetId' = to_jsonb(${id}::int))`;
  const { rows } = await sql<{ name: string }>`
    select name from (
      select name, created_at from check_def where account_id = ${accountId} and ${isUsed}
      union all
      select name, created_at from check_group where account_id = ${accountId} and ${isUsed}) users
    order by created_at limit 4`.execute(db);
  return rows.map((row) => row.name);
}
