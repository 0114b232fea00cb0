import { codeOf } from '../../kit/errors.ts';
import type { Db, Trx } from '../ports.ts';

/**
 * Deadlock, serialization failure, and a name that another transaction took meanwhile: nothing was done,
 * and the same again may succeed or find out why not.
 */
const REPEATABLE = new Set(['40P01', '40001', '23505']);
const TRIES = 3;

/** Repeats what lost against another transaction. `work` must have no effect but its transaction's. */
export async function repeating<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === TRIES || !REPEATABLE.has(codeOf(error) ?? '')) throw error;
    }
  }
}

/** One transaction, repeated when it lost against another. */
export function transact<T>(db: Db, work: (trx: Trx) => Promise<T>): Promise<T> {
  return repeating(() => db.transaction().execute(work));
}
