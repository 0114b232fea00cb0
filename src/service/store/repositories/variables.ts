import { sql, type Insertable, type Selectable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { VariableTable } from '../schema.ts';

export type VariableRow = Selectable<VariableTable>;

export async function listVariables(
  db: Db,
  accountId: string,
  page: { limit: number; offset: number },
): Promise<VariableRow[]> {
  return db
    .selectFrom('variable')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('key')
    .limit(page.limit)
    .offset(page.offset)
    .execute();
}

export async function variablesOf(db: Db, accountIds: readonly string[]): Promise<VariableRow[]> {
  if (accountIds.length === 0) return [];
  return db
    .selectFrom('variable')
    .selectAll()
    .where('account_id', 'in', [...accountIds])
    .orderBy('key')
    .execute();
}

/** `lock` holds the row until the transaction ends, so that two writers take turns. */
export async function findVariable(
  db: Db,
  accountId: string,
  key: string,
  lock = false,
): Promise<VariableRow | undefined> {
  return db
    .selectFrom('variable')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('key', '=', key)
    .$if(lock, (query) => query.forUpdate())
    .executeTakeFirst();
}

/** How many variables an account has beside the one of `key`, and their bytes. */
export async function sizeOfOthers(
  db: Db,
  accountId: string,
  key: string,
): Promise<{ count: number; bytes: number }> {
  return db
    .selectFrom('variable')
    .select([
      sql<number>`count(*)::int`.as('count'),
      sql<number>`coalesce(sum(octet_length(key) + octet_length(value)), 0)::int`.as('bytes'),
    ])
    .where('account_id', '=', accountId)
    .where('key', '!=', key)
    .executeTakeFirstOrThrow();
}

/** @returns undefined when the account has a variable of this key */
export async function insertVariable(
  db: Db,
  row: Insertable<VariableTable>,
): Promise<VariableRow | undefined> {
  return db
    .insertInto('variable')
    .values(row)
    .onConflict((conflict) => conflict.columns(['account_id', 'key']).doNothing())
    .returningAll()
    .executeTakeFirst();
}

export async function updateVariable(
  db: Db,
  accountId: string,
  key: string,
  change: Pick<Insertable<VariableTable>, 'value' | 'locked' | 'secret'>,
): Promise<VariableRow> {
  return db
    .updateTable('variable')
    .set({ ...change, updated_at: sql<Date>`now()` })
    .where('account_id', '=', accountId)
    .where('key', '=', key)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** @returns false when the account has no such variable */
export async function deleteVariable(db: Db, accountId: string, key: string): Promise<boolean> {
  const done = await db
    .deleteFrom('variable')
    .where('account_id', '=', accountId)
    .where('key', '=', key)
    .returning('key')
    .execute();
  return done.length === 1;
}
