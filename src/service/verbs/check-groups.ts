import { z } from 'zod';
import type { Check } from '../../checks/index.ts';
import { isUuid } from '../../kit/ids.ts';
import { effectiveDefinitions, GroupFields, oversize, placesOf, type Group } from '../definitions/index.ts';
import type { Db, Trx } from '../ports.ts';
import { checks, groups, transact, type CheckRow, type GroupFilter, type GroupRow } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { isActive, nextTick } from './check-columns.ts';
import { invalid, parse } from './problems.ts';
import { missingReferences } from './references.ts';
import { notFound, Refusal } from './refusal.ts';
import { keepSecrets } from './secrets.ts';

/** What the interface adds to a group on reading; sent back with an update it is ignored. */
const READ_ONLY = ['id', 'created_at', 'updated_at'] as const;

const Body = z.record(z.string(), z.unknown());

interface Page {
  limit: number;
  page: number;
}
const rowsOf = ({ limit, page }: Page) => ({ limit, offset: (page - 1) * limit });

export async function listGroups(caller: Caller, filter: GroupFilter, page: Page): Promise<GroupRow[]> {
  return groups.listGroups(caller.store.db, caller.accountId, filter, rowsOf(page));
}

export async function getGroup(caller: Caller, id: string): Promise<GroupRow> {
  return existing(caller.store.db, caller, id);
}

export async function createGroup(caller: Caller, input: unknown): Promise<GroupRow> {
  const group = parse(GroupFields, input);
  return transact(caller.store.db, async (trx) => {
    await assertReferences(trx, caller, group);
    return groups.insertGroup(trx, { account_id: caller.accountId, ...columnsOf(group) });
  });
}

/** Top-level fields that `input` leaves out keep their value. Its checks follow at once. */
export async function updateGroup(caller: Caller, id: string, input: unknown): Promise<GroupRow> {
  const body = Object.fromEntries(
    Object.entries(parse(Body, input)).filter(([name]) => !READ_ONLY.some((each) => each === name)),
  );
  return transact(caller.store.db, async (trx) => {
    const old = await existing(trx, caller, id, 'update');
    const before = old.definition as Group;
    const group = parse(GroupFields, { ...before, ...keepSecrets(body, before) });
    await assertReferences(trx, caller, group);
    const row = await groups.updateGroup(trx, old.id, columnsOf(group));
    await passOn(trx, caller, old.id, group);
    return row;
  });
}

export async function deleteGroup(caller: Caller, id: string): Promise<void> {
  await transact(caller.store.db, async (trx) => {
    const row = await existing(trx, caller, id, 'update');
    const members = await checks.checksOfGroup(trx, row.id, { limit: 4, offset: 0 });
    if (members.length > 0) {
      const named = members.slice(0, 3).map(({ name }) => JSON.stringify(name));
      const more = members.length > 3 ? ' and others' : '';
      throw new Refusal('conflict', `the check group still has checks: ${named.join(', ')}${more}`);
    }
    await groups.deleteGroup(trx, row.id);
  });
}

export async function listGroupChecks(caller: Caller, id: string, page: Page): Promise<CheckRow[]> {
  const { id: groupId } = await existing(caller.store.db, caller, id);
  return checks.checksOfGroup(caller.store.db, groupId, rowsOf(page));
}

export async function getGroupCheck(caller: Caller, id: string, checkId: string): Promise<CheckRow> {
  const { id: groupId } = await existing(caller.store.db, caller, id);
  const row = isUuid(checkId)
    ? await checks.findCheck(caller.store.db, caller.accountId, checkId)
    : undefined;
  if (row?.group_id !== groupId) throw notFound('a check of the group with the id', checkId);
  return row;
}

/** The groups of checks, for those who show them with their group's settings. */
export async function groupsOf(
  { store }: Caller,
  rows: readonly CheckRow[],
): Promise<(row: CheckRow) => Group | undefined> {
  const ids = new Set(rows.map(({ group_id }) => group_id).filter((id) => id !== null));
  const found = new Map(
    (await groups.findGroups(store.db, [...ids])).map(({ id, definition }) => [id, definition as Group]),
  );
  return ({ group_id }) => (group_id === null ? undefined : found.get(group_id));
}

async function existing(db: Db, caller: Caller, id: string, lock?: 'share' | 'update'): Promise<GroupRow> {
  const number = /^[1-9]\d{0,8}$/.test(id) ? Number(id) : undefined;
  const row = number === undefined ? undefined : await groups.findGroup(db, caller.accountId, number, lock);
  if (row === undefined) throw notFound('check group', id);
  return row;
}

async function assertReferences(trx: Trx, { accountId }: Caller, group: Group): Promise<void> {
  const problems = await missingReferences(trx, accountId, group);
  if (problems.length > 0) throw invalid(problems);
}

const columnsOf = (group: Group) => ({
  name: group.name,
  tags: group.tags,
  definition: JSON.stringify(group),
});

/** Brings the group's checks in line with it. @throws Refusal `invalid` when one could not run any more */
async function passOn(trx: Trx, caller: Caller, groupId: number, group: Group): Promise<void> {
  const members = await checks.lockMembers(trx, groupId);
  await assertSendable(trx, members);
  const changed = members.map((row) => {
    const definition = row.definition as Check;
    return {
      id: row.id,
      name: row.name,
      activated: isActive(definition, group),
      run_locations: placesOf(definition, group),
      next_at: nextTick(row, definition, group),
    };
  });
  const homeless = changed.find(({ run_locations }) => run_locations.length === 0);
  if (homeless !== undefined) {
    const name = JSON.stringify(homeless.name);
    throw invalid([`locations: at least one is required, since check ${name} has none of its own`]);
  }
  const asleep = members.filter(({ activated }, at) => activated && !changed[at]!.activated);
  for (const { id } of asleep) await caller.queue.forgetCheck(id, trx);
  await checks.updateInherited(trx, changed);
}

async function assertSendable(trx: Trx, members: readonly CheckRow[]): Promise<void> {
  const definitionOf = await effectiveDefinitions(trx, members);
  for (const check of members) {
    const problem = oversize(definitionOf(check));
    if (problem !== null) throw invalid([`body: check ${JSON.stringify(check.name)} ${problem}`]);
  }
}
