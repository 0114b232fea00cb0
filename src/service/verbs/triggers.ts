import { newSecret } from '../../kit/ids.ts';
import type { ServiceContext } from '../ports.ts';
import { checks, triggers, type CheckRow, type SessionRow, type TriggerRow } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { getGroup } from './check-groups.ts';
import { startNow } from './check-sessions.ts';
import { getCheck } from './checks.ts';
import { notFound, Refusal } from './refusal.ts';

/** What a trigger starts: a check, or the checks of a group. */
export type TriggerOf = 'checks' | 'check-groups';
type Target = Pick<TriggerRow, 'check_id' | 'group_id'>;

/** Of one group; more would be more than a call should start. */
const MAX_MEMBERS = 1000;

/** @throws Refusal `notFound` also for a target without a trigger */
export async function getTrigger(caller: Caller, of: TriggerOf, id: string): Promise<TriggerRow> {
  const row = await triggers.findTrigger(caller.store.db, await targetOf(caller, of, id));
  if (row === undefined) throw notFound(`a trigger of ${nameOf(of)}`, id);
  return row;
}

/** Where there is one already it stays, so that its link goes on working. */
export async function createTrigger(caller: Caller, of: TriggerOf, id: string): Promise<TriggerRow> {
  const target = await targetOf(caller, of, id);
  const row = { ...target, account_id: caller.accountId, token: newSecret('tr') };
  await triggers.insertTrigger(caller.store.db, row);
  return getTrigger(caller, of, id);
}

export async function deleteTrigger(caller: Caller, of: TriggerOf, id: string): Promise<void> {
  const target = await targetOf(caller, of, id);
  if (!(await triggers.deleteTrigger(caller.store.db, target)))
    throw notFound(`a trigger of ${nameOf(of)}`, id);
}

/** The account whose trigger has this token. @throws Refusal `badKey` */
export async function accountOfToken({ store }: ServiceContext, token: string): Promise<string> {
  const row = await triggers.findTriggerByToken(store.db, token);
  if (row === undefined) throw new Refusal('badKey', 'Bad Token');
  return row.account_id;
}

/** Starts what the trigger is of; a check named by itself runs even when it is deactivated. */
export async function callTrigger(
  caller: Caller,
  of: TriggerOf,
  id: string,
  token: string,
): Promise<SessionRow[]> {
  const row = await getTrigger(caller, of, id);
  if (row.token !== token) throw notFound('a trigger with this token', id);
  await triggers.noteCall(caller.store.db, row.id);
  return startNow(caller, await rowsOf(caller, row), { runSource: 'LEGACY_TRIGGER', refreshCache: false });
}

async function rowsOf(caller: Caller, { check_id, group_id }: Target): Promise<CheckRow[]> {
  if (check_id !== null) return [await getCheck(caller, check_id)];
  const page = { limit: MAX_MEMBERS, offset: 0 };
  const members = await checks.checksOfGroup(caller.store.db, group_id!, page);
  return members.filter(({ activated }) => activated);
}

/** @throws Refusal `notFound` */
async function targetOf(caller: Caller, of: TriggerOf, id: string): Promise<Target> {
  if (of === 'checks') return { check_id: (await getCheck(caller, id)).id, group_id: null };
  return { check_id: null, group_id: (await getGroup(caller, id)).id };
}

const nameOf = (of: TriggerOf): string => (of === 'checks' ? 'check' : 'check group');
