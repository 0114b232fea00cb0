import { sql, type Insertable, type Selectable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { TestSessionTable } from '../schema.ts';
import type { ResultPosition } from './results.ts';
import type { SessionResult, SessionRow } from './sessions.ts';

export type TestSessionRow = Selectable<TestSessionTable> & {
  /** created_at in microseconds since the epoch. */
  createdAtMicros: number;
};

export interface TestSessionFilter {
  from?: Date | undefined;
  to?: Date | undefined;
  /** Any of these; see STATUS. */
  statuses: readonly string[];
  branches: readonly string[];
  providers: readonly string[];
  /** Part of the name, the branch or the commit's message, in any case. */
  text?: string | undefined;
  errorGroupId?: string | undefined;
}

/** Of test session t: it runs while a part does; then the gravest of its parts. */
const STATUS = sql<string>`(
  select case when bool_or(s.stopped_at is null) then 'RUNNING'
    when bool_or(s.status = 'CANCELLED') then 'CANCELLED'
    when bool_or(s.status in ('FAILED', 'TIMED_OUT')) then 'FAILED'
    else 'PASSED' end
  from check_session s where s.test_session_id = t.id)`;

const columns = (db: Db) =>
  db
    .selectFrom('test_session as t')
    .selectAll()
    .select(sql<number>`(extract(epoch from t.created_at) * 1000000)::float8`.as('createdAtMicros'));

export async function insertTestSession(db: Db, row: Insertable<TestSessionTable>): Promise<void> {
  await db.insertInto('test_session').values(row).execute();
}

export async function findTestSession(
  db: Db,
  accountId: string,
  id: string,
): Promise<TestSessionRow | undefined> {
  return columns(db).where('t.account_id', '=', accountId).where('t.id', '=', id).executeTakeFirst();
}

/** Newest first; those that were not to be recorded are not among them. */
export async function listTestSessions(
  db: Db,
  accountId: string,
  filter: TestSessionFilter,
  limit: number,
  after?: ResultPosition,
): Promise<TestSessionRow[]> {
  const { from, to, statuses, branches, providers, text, errorGroupId } = filter;
  const like = `%${(text ?? '').replace(/[\\%_]/g, '\\$&')}%`;
  return columns(db)
    .where('t.account_id', '=', accountId)
    .where('t.recorded', '=', true)
    .where(sql<boolean>`${STATUS} = any(${[...statuses]}::text[])`)
    .$if(from !== undefined, (q) => q.where('t.created_at', '>=', from!))
    .$if(to !== undefined, (q) => q.where('t.created_at', '<', to!))
    .$if(branches.length > 0, (q) =>
      q.where(sql<boolean>`t.metadata ->> 'branchName' = any(${[...branches]}::text[])`),
    )
    .$if(providers.length > 0, (q) => q.where('t.provider', 'in', [...providers]))
    .$if(text !== undefined, (q) =>
      q.where(
        sql<boolean>`(t.name ilike ${like} or t.metadata ->> 'branchName' ilike ${like}
          or t.metadata ->> 'commitMessage' ilike ${like})`,
      ),
    )
    .$if(errorGroupId !== undefined, (q) =>
      q.where(
        sql<boolean>`exists (select 1 from check_session s
          join check_result r on r.session_id = s.id and r.scheduled_at = s.started_at
          where s.test_session_id = t.id and ${errorGroupId!}::uuid = any(r.error_group_ids))`,
      ),
    )
    .$if(after !== undefined, (q) =>
      q.where(
        sql<boolean>`(t.created_at, t.id) < (
          timestamptz 'epoch' + ${after!.startedAtMicros}::float8 * interval '1 microsecond', ${after!.id}::uuid)`,
      ),
    )
    .orderBy('t.created_at', 'desc')
    .orderBy('t.id', 'desc')
    .limit(limit)
    .execute();
}

/** The sessions of their checks, in the order in which they were named. */
export async function partsOf(db: Db, testSessionIds: readonly string[]): Promise<SessionRow[]> {
  if (testSessionIds.length === 0) return [];
  return db
    .selectFrom('check_session')
    .selectAll()
    .where('test_session_id', 'in', [...testSessionIds])
    .orderBy('name')
    .orderBy('id')
    .execute();
}

export async function resultsOfParts(db: Db, parts: readonly SessionRow[]): Promise<SessionResult[]> {
  if (parts.length === 0) return [];
  return db
    .selectFrom('check_result')
    .selectAll()
    .where(
      'session_id',
      'in',
      parts.map(({ id }) => id),
    )
    .where(
      'scheduled_at',
      'in',
      parts.map(({ started_at }) => started_at),
    )
    .orderBy('attempts')
    .execute();
}
