import { sql, type Insertable, type Selectable, type Updateable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { CheckTable } from '../schema.ts';

export type CheckRow = Selectable<CheckTable>;

export interface CheckFilter {
  type?: string | undefined;
  /** Part of the name, in any case. */
  search?: string | undefined;
  /** Any of these. */
  tags?: readonly string[] | undefined;
  /** Part of the address of an API or URL check, in any case. */
  urlPattern?: string | undefined;
  /** By the last final result that says something about the target. */
  status?: 'passing' | 'failing' | 'degraded' | undefined;
}

export async function listChecks(
  db: Db,
  accountId: string,
  filter: CheckFilter,
  page: { limit: number; offset: number },
): Promise<CheckRow[]> {
  const { type, search, tags, urlPattern, status } = filter;
  return db
    .selectFrom('check_def as c')
    .selectAll('c')
    .where('c.account_id', '=', accountId)
    .$if(type !== undefined, (q) => q.where('c.type', '=', type!))
    .$if(search !== undefined, (q) => q.where('c.name', 'ilike', containing(search!)))
    .$if(tags !== undefined, (q) => q.where(sql<boolean>`c.tags && ${[...tags!]}::text[]`))
    .$if(urlPattern !== undefined, (q) =>
      q.where(sql<boolean>`c.definition #>> '{request,url}' ilike ${containing(urlPattern!)}`),
    )
    .$if(status !== undefined, (q) => q.where(sql<boolean>`${LAST_VERDICT} = ${status!}`))
    .orderBy('c.created_at', 'desc')
    .orderBy('c.id')
    .limit(page.limit)
    .offset(page.offset)
    .execute();
}

/** Of check c: by its newest final result that is neither cancelled nor our own fault. */
const LAST_VERDICT = sql<string>`(
  select case when r.has_failures then 'failing' when r.is_degraded then 'degraded' else 'passing' end
  from check_result r
  where r.check_id = c.id and r.result_type = 'FINAL' and not r.is_cancelled and not r.has_errors
  order by r.started_at desc, r.id desc limit 1)`;

function containing(text: string): string {
  return `%${text.replace(/[\\%_]/g, '\\$&')}%`;
}

/** `lock` holds the row until the transaction ends, so that two writers take turns. */
export async function findCheck(
  db: Db,
  accountId: string,
  id: string,
  lock = false,
): Promise<CheckRow | undefined> {
  return db
    .selectFrom('check_def')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .$if(lock, (query) => query.forUpdate())
    .executeTakeFirst();
}

export async function findChecks(db: Db, accountId: string, ids: readonly string[]): Promise<CheckRow[]> {
  if (ids.length === 0) return [];
  return db
    .selectFrom('check_def')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', 'in', [...ids])
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

/** Activated checks that carry all tags of at least one set; all of them without sets. */
export const activeChecks = async (
  db: Db,
  accountId: string,
  tagSets?: readonly (readonly string[])[],
): Promise<CheckRow[]> => matchingChecks(db, accountId, tagSets, false);

/** @param all deactivated checks too */
export async function matchingChecks(
  db: Db,
  accountId: string,
  tagSets: readonly (readonly string[])[] | undefined,
  all: boolean,
): Promise<CheckRow[]> {
  return db
    .selectFrom('check_def')
    .selectAll()
    .where('account_id', '=', accountId)
    .$if(!all, (query) => query.where('activated', '=', true))
    .$if(tagSets !== undefined, (query) =>
      query.where((eb) => eb.or(tagSets!.map((set) => sql<boolean>`tags @> ${[...set]}::text[]`))),
    )
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

export async function insertCheck(db: Db, row: Insertable<CheckTable>): Promise<CheckRow> {
  return db.insertInto('check_def').values(row).returningAll().executeTakeFirstOrThrow();
}

export async function updateCheck(db: Db, id: string, change: Updateable<CheckTable>): Promise<CheckRow> {
  return db
    .updateTable('check_def')
    .set({ ...change, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** @returns false when the account has no such check */
export async function deleteCheck(db: Db, accountId: string, id: string): Promise<boolean> {
  const done = await db
    .deleteFrom('check_def')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .returning('id')
    .execute();
  return done.length === 1;
}

/** A page of the checks of a group, in the order in which they run. */
export async function checksOfGroup(
  db: Db,
  groupId: number,
  page: { limit: number; offset: number },
): Promise<CheckRow[]> {
  return db
    .selectFrom('check_def')
    .selectAll()
    .where('group_id', '=', groupId)
    .orderBy(sql`(definition ->> 'groupOrder')::float8`)
    .orderBy('created_at')
    .orderBy('id')
    .limit(page.limit)
    .offset(page.offset)
    .execute();
}

/** All of them, locked until the transaction ends. */
export async function lockMembers(db: Db, groupId: number): Promise<CheckRow[]> {
  return db
    .selectFrom('check_def')
    .selectAll()
    .where('group_id', '=', groupId)
    .orderBy('id')
    .forUpdate()
    .execute();
}

/** What a check takes over from its group. */
export type InheritedColumns = Pick<CheckRow, 'id' | 'activated' | 'run_locations' | 'next_at'>;

export async function updateInherited(db: Db, rows: readonly InheritedColumns[]): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    update check_def c set activated = n.activated, run_locations = n.run_locations, next_at = n.next_at
    from json_to_recordset(${JSON.stringify(rows)}::json)
      as n(id uuid, activated boolean, run_locations text[], next_at timestamptz)
    where c.id = n.id`.execute(db);
}

export interface CheckStatusRow {
  checkId: string;
  name: string;
  hasFailures: boolean;
  hasErrors: boolean;
  isDegraded: boolean;
  lastRunLocation: string;
  lastCheckRunId: number;
  longestRun: number | null;
  shortestRun: number | null;
  /** Of a suite, as its agent counted its tests. */
  testMetrics: unknown;
  createdAt: Date;
  updatedAt: Date;
}

/** The last final result of each check that has one; run times are those of the 24 hours before it. */
export async function checkStatuses(db: Db, accountId: string, checkId?: string): Promise<CheckStatusRow[]> {
  const one = checkId === undefined ? sql`` : sql`and c.id = ${checkId}`;
  const { rows } = await sql<CheckStatusRow>`
    select c.id as "checkId", c.name, l.has_failures as "hasFailures", l.has_errors as "hasErrors",
      l.is_degraded as "isDegraded", l.location as "lastRunLocation", l.run_id as "lastCheckRunId",
      t.longest as "longestRun", t.shortest as "shortestRun",
      case when c.type = 'PLAYWRIGHT' then (
        select d.detail #> '{playwrightCheckResult,metrics}' from check_result_detail d
        where d.result_id = l.id and d.scheduled_at = l.scheduled_at) end as "testMetrics",
      c.created_at as "createdAt", l.created_at as "updatedAt"
    from check_def c
    join lateral (
      select * from check_result r
      where r.check_id = c.id and r.result_type = 'FINAL' and not r.is_cancelled
      order by r.started_at desc, r.id desc limit 1) l on true
    join lateral (
      select max(r.response_time) as longest, min(r.response_time) as shortest from check_result r
      where r.check_id = c.id and r.result_type = 'FINAL' and not r.is_cancelled
        and r.started_at > l.started_at - interval '24 hours') t on true
    where c.account_id = ${accountId} ${one}
    order by c.created_at, c.id`.execute(db);
  return rows;
}
