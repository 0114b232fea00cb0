import { sql, type Selectable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { AccountTable } from '../schema.ts';

/** Any constant: serialises the first starts of several services on one database. */
const FIRST_START_LOCK = 7_001;

export type AccountRow = Selectable<AccountTable>;

export interface NewAccount {
  accountId: string;
  name: string;
  key: { id: string; name: string; hash: Buffer; masked: string };
}

export async function ownerOfApiKey(
  db: Db,
  hash: Buffer,
): Promise<{ keyId: string; accountId: string } | undefined> {
  return db
    .selectFrom('api_key')
    .select(['id as keyId', 'account_id as accountId'])
    .where('hash', '=', hash)
    .executeTakeFirst();
}

/** Precise to the minute, so that a busy key does not write at each request. */
export async function noteApiKeyUse(db: Db, keyId: string): Promise<void> {
  await db
    .updateTable('api_key')
    .set({ last_used_at: sql<Date>`now()` })
    .where('id', '=', keyId)
    .where((eb) =>
      eb.or([
        eb('last_used_at', 'is', null),
        eb('last_used_at', '<', sql<Date>`now() - interval '1 minute'`),
      ]),
    )
    .execute();
}

export async function findAccount(db: Db, id: string): Promise<AccountRow | undefined> {
  return db.selectFrom('account').selectAll().where('id', '=', id).executeTakeFirst();
}

/** The runtimes that accounts have chosen, by account. */
export async function runtimesOf(db: Db, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('account')
    .select(['id', 'runtime_id'])
    .where('id', 'in', [...ids])
    .where('runtime_id', 'is not', null)
    .execute();
  return new Map(rows.map(({ id, runtime_id }) => [id, runtime_id!]));
}

export async function setRuntime(db: Db, id: string, runtimeId: string | null): Promise<void> {
  await db.updateTable('account').set({ runtime_id: runtimeId }).where('id', '=', id).execute();
}

/** Makes the account and its key unless the store has an account already. */
export async function createFirstAccount(db: Db, first: NewAccount): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(${sql.lit(FIRST_START_LOCK)})`.execute(trx);
    const existing = await trx.selectFrom('account').select('id').limit(1).executeTakeFirst();
    if (existing !== undefined) return false;
    await trx.insertInto('account').values({ id: first.accountId, name: first.name }).execute();
    await trx
      .insertInto('api_key')
      .values({ ...first.key, account_id: first.accountId })
      .execute();
    return true;
  });
}
