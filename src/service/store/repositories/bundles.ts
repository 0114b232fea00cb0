import { sql, type Selectable } from 'kysely';
import type { Db, Trx } from '../../ports.ts';
import type { BundleTable } from '../schema.ts';

export type BundleRow = Selectable<BundleTable>;

/** What checks call it; see BUNDLE_KEY. */
export const bundleKey = ({ sha256, format }: Pick<BundleRow, 'sha256' | 'format'>): string =>
  `bundles/${sha256}.tar.${format}`;

/** Notes that bytes are about to come: whatever becomes of the upload, somebody removes them. */
export async function openUpload(db: Db, blobId: string): Promise<void> {
  await db.insertInto('loose_blob').values({ blob_id: blobId }).execute();
}

type NewBundle = Pick<BundleRow, 'account_id' | 'sha256' | 'format' | 'size' | 'blob_id'>;

/**
 * Bytes become a bundle.
 *
 * @returns the bytes that the bundle has: others when the account had it already; then it counts as used now
 */
export async function insertBundle(db: Trx, row: NewBundle): Promise<string> {
  const { blob_id } = await db
    .insertInto('bundle')
    .values(row)
    .onConflict((conflict) =>
      conflict.columns(['account_id', 'sha256']).doUpdateSet({ used_at: sql<Date>`now()` }),
    )
    .returning('blob_id')
    .executeTakeFirstOrThrow();
  if (blob_id === row.blob_id) await forgetLoose(db, blob_id);
  return blob_id;
}

/** Gives a bundle whose bytes `lost` are not there any more others. @returns false when somebody else has */
export async function replaceBytes(db: Trx, row: NewBundle, lost: string): Promise<boolean> {
  const done = await db
    .updateTable('bundle')
    .set({ blob_id: row.blob_id })
    .where('account_id', '=', row.account_id)
    .where('sha256', '=', row.sha256)
    .where('blob_id', '=', lost)
    .returning('sha256')
    .execute();
  if (done.length === 1) await forgetLoose(db, row.blob_id);
  return done.length === 1;
}

/** Bytes that have been loose for so long. @returns their ids, at most 100 */
export async function looseBlobs(db: Db, idleMs: number): Promise<string[]> {
  const { rows } = await sql<{ blob_id: string }>`
    select blob_id from loose_blob where since < now() - ${idleMs}::float8 * interval '1 millisecond'
    order by since limit 100`.execute(db);
  return rows.map(({ blob_id }) => blob_id);
}

/** They are removed, or a bundle's. */
export async function forgetLoose(db: Db, blobId: string): Promise<void> {
  await db.deleteFrom('loose_blob').where('blob_id', '=', blobId).execute();
}

/**
 * Whether the account has the bundle of this key. From here to the end of the transaction nobody removes
 * it, and afterwards not for a day.
 */
export async function holdBundle(db: Db, accountId: string, key: string): Promise<boolean> {
  const done = await db
    .updateTable('bundle')
    .set({ used_at: sql<Date>`now()` })
    .where('account_id', '=', accountId)
    .where(keyIs(key))
    .returning('sha256')
    .execute();
  return done.length === 1;
}

const keyIs = (key: string) => sql<boolean>`'bundles/' || sha256 || '.tar.' || format = ${key}`;

/** Those of the accounts that have one of the SHA-256. */
export async function findBundles(
  db: Db,
  accountIds: readonly string[],
  sha256s: readonly string[],
): Promise<BundleRow[]> {
  if (sha256s.length === 0) return [];
  return db
    .selectFrom('bundle')
    .selectAll()
    .where('account_id', 'in', [...accountIds])
    .where('sha256', 'in', [...sha256s])
    .execute();
}

/** The bundle of a run that an agent at the place has or was offered. */
export async function findBundleOfRun(
  db: Db,
  place: { accountId: string; location: string },
  sha256: string,
): Promise<BundleRow | undefined> {
  return db
    .selectFrom('bundle as b')
    .selectAll()
    .where('b.account_id', '=', place.accountId)
    .where('b.sha256', '=', sha256)
    .where(
      sql<boolean>`exists (select 1 from run r where r.state in (1, 2) and r.account_id = b.account_id
        and r.location = ${place.location} and r.payload #>> '{bundle,sha256}' = b.sha256)`,
    )
    .executeTakeFirst();
}

/** Takes out what no check and no unfinished run uses; the bytes are loose then. @returns how many */
export async function removeUnused(db: Db, idleMs: number): Promise<number> {
  const { rows } = await sql`
    with gone as (delete from bundle b using (
      select account_id, sha256 from bundle
      where used_at < now() - ${idleMs}::float8 * interval '1 millisecond'
      order by used_at limit 1000 for update skip locked) old
    where b.account_id = old.account_id and b.sha256 = old.sha256
      and not exists (select 1 from check_def c where c.account_id = b.account_id and c.type = 'PLAYWRIGHT'
        and c.definition ->> 'codeBundlePath' = 'bundles/' || b.sha256 || '.tar.' || b.format)
      and not exists (select 1 from run r where r.account_id = b.account_id and r.state in (0, 1, 2)
        and r.payload #>> '{bundle,sha256}' = b.sha256)
    returning b.blob_id)
    insert into loose_blob (blob_id, since) select blob_id, '-infinity' from gone
    returning blob_id`.execute(db);
  return rows.length;
}
