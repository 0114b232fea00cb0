import { sql, type Selectable } from 'kysely';
import type { Db } from '../../ports.ts';
import { wholeResultId } from './artifacts.ts';
import type { CheckResultTable } from '../schema.ts';

/** A result with what the list does not need for filtering beside it. */
export type ResultRow = Selectable<CheckResultTable> & {
  detail: Record<string, unknown> | null;
  /** started_at in microseconds since the epoch: a Date would lose digits that the order needs. */
  startedAtMicros: number;
};

/** Where a page ended: the next one begins behind it. */
export interface ResultPosition {
  startedAtMicros: number;
  id: string;
}

export interface ResultFilter {
  resultType: 'FINAL' | 'ATTEMPT' | 'ALL';
  from?: Date | undefined;
  to?: Date | undefined;
  location?: string | undefined;
  checkType?: string | undefined;
  hasFailures?: boolean | undefined;
}

const withDetail = (db: Db) =>
  db
    .selectFrom('check_result as r')
    .leftJoin('check_result_detail as d', (join) =>
      join.onRef('d.result_id', '=', 'r.id').onRef('d.scheduled_at', '=', 'r.scheduled_at'),
    )
    .selectAll('r')
    .select([
      'd.detail',
      sql<number>`(extract(epoch from r.started_at) * 1000000)::float8`.as('startedAtMicros'),
    ]);

/** Newest first. A result that arrives later than the walk moves nothing that was or will be shown. */
export async function listResults(
  db: Db,
  checkId: string,
  filter: ResultFilter,
  limit: number,
  after?: ResultPosition,
): Promise<ResultRow[]> {
  const { resultType, from, to, location, checkType, hasFailures } = filter;
  return withDetail(db)
    .where('r.check_id', '=', checkId)
    .$if(resultType !== 'ALL', (q) => q.where('r.result_type', '=', resultType as 'FINAL' | 'ATTEMPT'))
    .$if(from !== undefined, (q) => q.where('r.started_at', '>=', from!))
    .$if(to !== undefined, (q) => q.where('r.started_at', '<', to!))
    .$if(location !== undefined, (q) => q.where('r.location', '=', location!))
    .$if(checkType !== undefined, (q) => q.where('r.check_type', '=', checkType!))
    .$if(hasFailures !== undefined, (q) => q.where('r.has_failures', '=', hasFailures!))
    .$if(after !== undefined, (q) =>
      q.where(
        sql<boolean>`(r.started_at, r.id) < (
          timestamptz 'epoch' + ${after!.startedAtMicros}::float8 * interval '1 microsecond', ${after!.id}::uuid)`,
      ),
    )
    .orderBy('r.started_at', 'desc')
    .orderBy('r.id', 'desc')
    .limit(limit)
    .execute();
}

export async function findResult(
  db: Db,
  accountId: string,
  checkId: string,
  id: string,
): Promise<ResultRow | undefined> {
  return withDetail(db)
    .where('r.account_id', '=', accountId)
    .where('r.check_id', '=', checkId)
    .where('r.id', '=', id)
    .executeTakeFirst();
}

/** The results, once they are there, of suites that these are parts of. */
export async function wholesOfParts(db: Db, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('run_part')
    .select('whole_id')
    .distinct()
    .where('result_id', 'in', [...ids])
    .execute();
  return rows.map(({ whole_id }) => wholeResultId(whole_id));
}

/** Results by id, oldest first; those that are not there are left out. */
export async function findResults(db: Db, ids: readonly string[]): Promise<ResultRow[]> {
  if (ids.length === 0) return [];
  return withDetail(db)
    .where('r.id', 'in', [...ids])
    .orderBy('r.started_at')
    .orderBy('r.id')
    .execute();
}
