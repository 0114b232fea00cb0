import { sql, type Selectable } from 'kysely';
import { derivedId } from '../../../kit/ids.ts';
import type { Db } from '../../ports.ts';
import type { ArtifactTable } from '../schema.ts';

export type ArtifactRow = Selectable<ArtifactTable>;

/** The id of a result's artifact: whoever knows the two can name it without asking. */
export const artifactId = (resultId: string, name: string): string =>
  derivedId('artifact', resultId.toLowerCase(), name);

/** The result of a suite in parts, known before any of them has ended. */
export const wholeResultId = (wholeId: string): string => derivedId('whole', wholeId);

/** What a suite's part calls an artifact may be the name of another part's. */
export const partArtifactName = (shard: number, name: string): string => `shard-${shard}/${name}`;

/** The artifact that an agent knows by its result and name. */
export async function findAnnounced(
  db: Db,
  resultId: string,
  name: string,
  place: { accountId: string; location: string },
): Promise<ArtifactRow | undefined> {
  const own = await findArtifact(db, artifactId(resultId, name), place);
  if (own !== undefined) return own;
  const part = await db
    .selectFrom('run_part')
    .select(['whole_id', 'shard'])
    .where('result_id', '=', resultId)
    .executeTakeFirst();
  if (part === undefined) return undefined;
  const shown = artifactId(wholeResultId(part.whole_id), partArtifactName(part.shard, name));
  return findArtifact(db, shown, place);
}

/** @param place of whom it must be */
export async function findArtifact(
  db: Db,
  id: string,
  place: { accountId: string; location: string },
): Promise<ArtifactRow | undefined> {
  return db
    .selectFrom('artifact')
    .selectAll()
    .where('id', '=', id)
    .where('account_id', '=', place.accountId)
    .where('location', '=', place.location)
    .executeTakeFirst();
}

/** Those of a result in the order of its manifest. */
export async function artifactsOf(db: Db, resultId: string): Promise<ArtifactRow[]> {
  return db
    .selectFrom('artifact')
    .selectAll()
    .where('result_id', '=', resultId)
    .orderBy('position')
    .execute();
}

/** Notes that its upload is under way; one that was given up for its silence may go on. */
export async function touchArtifact(db: Db, { id, scheduled_at }: ArtifactRow): Promise<void> {
  await db
    .updateTable('artifact')
    .set({ state: 'pending', reason: null, touched_at: sql<Date>`now()` })
    .where('id', '=', id)
    .where('scheduled_at', '=', scheduled_at)
    .where('state', '!=', 'stored')
    .execute();
}

/** @returns false when the artifact is not kept any more */
export async function artifactStored(db: Db, { id, scheduled_at }: ArtifactRow): Promise<boolean> {
  const done = await db
    .updateTable('artifact')
    .set({ state: 'stored', reason: null })
    .where('id', '=', id)
    .where('scheduled_at', '=', scheduled_at)
    .returning('id')
    .execute();
  return done.length === 1;
}

/** Gives up what has not moved for so long. @returns what was given up, at most 500 */
export async function giveUpIdle(db: Db, idleMs: number, reason: string): Promise<ArtifactRow[]> {
  const { rows } = await sql<ArtifactRow>`
    update artifact a set state = 'refused', reason = ${reason}
    from (select id, scheduled_at from artifact
      where state = 'pending' and touched_at < now() - ${idleMs}::float8 * interval '1 millisecond'
      limit 500 for update skip locked) idle
    where a.id = idle.id and a.scheduled_at = idle.scheduled_at
    returning a.*`.execute(db);
  return rows;
}
