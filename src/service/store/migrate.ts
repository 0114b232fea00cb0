import { Migrator } from 'kysely';
import { ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import type { Db } from '../ports.ts';
import { migrations } from './migrations/index.ts';

/**
 * Brings the tables to this build's state, in one transaction under an advisory lock: of several
 * processes that start together one migrates and the others wait.
 *
 * @throws FatalError when the database was written by a newer build, or a step fails
 */
export async function migrate(db: Db, log: Log): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } });
  const { error, results = [] } = await migrator.migrateToLatest();
  for (const { migrationName, status } of results) {
    if (status === 'Success') log.info({ migration: migrationName }, 'database migrated');
  }
  if (error === undefined) return;
  const why = messageOf(error).startsWith('corrupted migrations')
    ? 'The database was written by another version of this program; start that version or a newer one'
    : `The database cannot be migrated: ${messageOf(error)}`;
  throw new FatalError(ExitCode.storeRefused, why, { cause: error });
}
