import { sql, type RawBuilder } from 'kysely';
import type { RunRef } from '../../contract/index.ts';

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
