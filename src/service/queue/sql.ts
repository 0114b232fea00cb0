import { sql, type RawBuilder } from 'kysely';
import type { RunRef } from '../../contract/index.ts';
import { codeOf } from '../../kit/errors.ts';
import type { Db, Trx } from '../ports.ts';

/** An interval of `ms` milliseconds. */
export function interval(ms: number): RawBuilder<unknown> {
  return sql`(${ms}::float8 * interval '1 millisecond')`;
}

/** A table expression `(id, token)` of the runs that an agent names. */
export function named(runs: readonly RunRef[]): RawBuilder<unknown> {
  const ids = runs.map(({ runId }) => runId);
  const tokens = runs.map(({ token }) => token);
  return sql`unnest(${ids}::bigint[], ${tokens}::bigint[])`;
}

/** Deadlock and serialization failure: nothing was done, the same again may succeed. */
const REPEATABLE = new Set(['40P01', '40001']);
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
