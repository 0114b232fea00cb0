import { Migrator, sql } from 'kysely';
import { ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import type { Db } from '../ports.ts';
import { migrations } from './migrations/index.ts';

/**
 * Brings the tables to this build's state, in one transaction under an advisory lock: of several
 * processes that start together one migrates and the others wait. Tables of a newer build are left as
 * they are where this build can live with them (migrations/index.ts has the rule).
 *
 * @throws FatalError when this build cannot live with what a newer one did, or a step fails
 */
export async function migrate(db: Db, log: Log): Promise<void> {
  const newer = await stepsOfNewerBuilds(db);
  const [breaking] = newer.filter((name) => name.endsWith('-contract'));
  if (breaking !== undefined) {
    const why = `The database was changed by a newer version of this program (${breaking}), which this one cannot use`;
    throw new FatalError(ExitCode.storeRefused, `${why}; start that version or a newer one`);
  }
  if (newer.length > 0) {
    log.warn({ newer }, 'the database is ahead of this version, which goes on with it as it is');
    return;
  }
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } });
  const { error, results = [] } = await migrator.migrateToLatest();
  for (const { migrationName, status } of results) {
    if (status === 'Success') log.info({ migration: migrationName }, 'database migrated');
  }
  if (error === undefined) return;
  throw new FatalError(ExitCode.storeRefused, `The database cannot be migrated: ${messageOf(error)}`, {
    cause: error,
  });
}

/** Steps that were carried out here and that this build does not know. */
async function stepsOfNewerBuilds(db: Db): Promise<string[]> {
  const { rows: found } = await sql<{ oid: string | null }>`
    select to_regclass('kysely_migration')::text as oid`.execute(db);
  if (found[0]!.oid === null) return [];
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  return rows.map(({ name }) => name).filter((name) => !Object.hasOwn(migrations, name));
}
