import { sql, type Selectable } from 'kysely';
import type { Db } from '../../ports.ts';
import type { CheckTriggerTable } from '../schema.ts';

export type TriggerRow = Selectable<CheckTriggerTable>;

/** What a trigger starts: one of the two. */
export interface TriggerTarget {
  check_id: string | null;
  group_id: number | null;
}

export async function findTrigger(db: Db, target: TriggerTarget): Promise<TriggerRow | undefined> {
  return db
    .selectFrom('check_trigger')
    .selectAll()
    .where((eb) => eb.or([eb('check_id', '=', target.check_id), eb('group_id', '=', target.group_id)]))
    .executeTakeFirst();
}

export async function findTriggerByToken(db: Db, token: string): Promise<TriggerRow | undefined> {
  return db.selectFrom('check_trigger').selectAll().where('token', '=', token).executeTakeFirst();
}

/** One for each target: with a second one the first stays. */
export async function insertTrigger(
  db: Db,
  row: TriggerTarget & { account_id: string; token: string },
): Promise<void> {
  await db
    .insertInto('check_trigger')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** @returns false when there was none */
export async function deleteTrigger(db: Db, target: TriggerTarget): Promise<boolean> {
  const done = await db
    .deleteFrom('check_trigger')
    .where((eb) => eb.or([eb('check_id', '=', target.check_id), eb('group_id', '=', target.group_id)]))
    .returning('id')
    .execute();
  return done.length === 1;
}

export async function noteCall(db: Db, id: number): Promise<void> {
  await db
    .updateTable('check_trigger')
    .set({ called_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}
