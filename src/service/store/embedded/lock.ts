import { DatabaseSync } from 'node:sqlite';
import { ExitCode, FatalError, messageOf } from '../../../kit/errors.ts';

/**
 * Holds a data folder for one process. SQLite's exclusive lock is the kernel's: it ends with the
 * process, however that ends. It does not work on NFS. Two processes on one database would silently
 * lose nearly half of what was acknowledged.
 *
 * @returns gives the folder back
 * @throws FatalError when another process holds it
 */
export function lockFolder(lockFile: string, folder: string): () => void {
  let database: DatabaseSync;
  try {
    database = new DatabaseSync(lockFile, { timeout: 0 });
  } catch (error) {
    throw new FatalError(
      ExitCode.storeRefused,
      `The data folder ${folder} cannot be used: ${messageOf(error)}`,
      { cause: error },
    );
  }
  try {
    database.exec('begin exclusive');
  } catch (error) {
    database.close();
    const why = messageOf(error).includes('locked')
      ? 'is in use by another process: stop that one, or choose another folder'
      : `cannot be locked: ${messageOf(error)}`;
    throw new FatalError(ExitCode.storeRefused, `The data folder ${folder} ${why}`, { cause: error });
  }
  return () => database.close();
}
