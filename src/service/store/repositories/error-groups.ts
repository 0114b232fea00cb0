import { sql, type Selectable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { ErrorGroupTable } from '../schema.ts';

export type ErrorGroupRow = Selectable<ErrorGroupTable>;

export interface ErrorGroupFilter {
  /** Those of checks, or those of test sessions. */
  of: 'checks' | 'tests';
  checkId?: string;
  projectId?: string;
}

/** Those that came last first. */
export async function listErrorGroups(
  db: Db,
  accountId: string,
  { of, checkId, projectId }: ErrorGroupFilter,
  page: { limit: number; offset: number },
): Promise<ErrorGroupRow[]> {
  return db
    .selectFrom('error_group')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('archived_for_ever', '=', false)
    .where('check_id', of === 'checks' ? 'is not' : 'is', null)
    .$if(checkId !== undefined, (q) => q.where('check_id', '=', checkId!))
    .$if(projectId !== undefined, (q) => q.where('project_id', '=', projectId!))
    .orderBy('last_seen', 'desc')
    .orderBy('id')
    .limit(page.limit)
    .offset(page.offset)
    .execute();
}

export async function findErrorGroup(
  db: Db,
  accountId: string,
  of: ErrorGroupFilter['of'],
  id: string,
): Promise<ErrorGroupRow | undefined> {
  return db
    .selectFrom('error_group')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .where('check_id', of === 'checks' ? 'is not' : 'is', null)
    .executeTakeFirst();
}

export async function archiveErrorGroup(
  db: Db,
  id: string,
  change: { untilNextEvent?: boolean | undefined; forEver?: boolean | undefined },
): Promise<ErrorGroupRow> {
  const { untilNextEvent, forEver } = change;
  return db
    .updateTable('error_group')
    .set({
      archived_until_next_event:
        untilNextEvent === undefined ? sql<boolean>`archived_until_next_event` : untilNextEvent,
      archived_for_ever: forEver === undefined ? sql<boolean>`archived_for_ever` : forEver,
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

export async function removeOfCheck(db: Db, checkId: string): Promise<void> {
  await db.deleteFrom('error_group').where('check_id', '=', checkId).execute();
}
