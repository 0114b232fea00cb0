import { z } from 'zod';
import { checkSchema, checkTypes, findCheckType, type Check, type CheckType } from '../../checks/index.ts';
import { isUuid, newId } from '../../kit/ids.ts';
import { effectiveDefinitions, oversize, type Group } from '../definitions/index.ts';
import type { Db, Trx } from '../ports.ts';
import {
  checks,
  errorGroups,
  groups,
  transact,
  type CheckFilter,
  type CheckRow,
  type CheckStatusRow,
} from '../store/index.ts';
import type { Caller } from './caller.ts';
import { columnsOf, nextTick } from './check-columns.ts';
import { invalid, parse } from './problems.ts';
import { missingReferences } from './references.ts';
import { notFound } from './refusal.ts';
import { keepSecrets } from './secrets.ts';

/** What the interface adds to a check on reading; sent back with an update it is ignored. */
const READ_ONLY = ['id', 'created_at', 'updated_at', 'alertChannels'] as const;

const Body = z.record(z.string(), z.unknown());
const TypedBody = z.looseObject({ checkType: z.enum(checkTypes().map((type) => type.name)) });

const schemas = new Map(checkTypes().map((type) => [type.name, checkSchema(type)]));

/** @param type absent on the deprecated route, whose body names it */
export async function createCheck(caller: Caller, input: unknown, type?: CheckType): Promise<CheckRow> {
  const of = type ?? typeNamedIn(input);
  const definition = definitionOf(of, parse(Body, input));
  return transact(caller.store.db, async (trx) => {
    const group = await groupOf(trx, caller.accountId, definition, of);
    const id = newId();
    return checks.insertCheck(trx, {
      id,
      account_id: caller.accountId,
      type: of.name,
      ...columnsOf(definition, group),
      next_at: nextTick({ id, next_at: null, interval_ms: 0 }, definition, group),
    });
  });
}

/**
 * Top-level fields that `input` leaves out keep their value; `request` is replaced as a whole.
 *
 * @param type absent on the deprecated route, which takes a check of any type
 */
export async function updateCheck(
  caller: Caller,
  id: string,
  input: unknown,
  type?: CheckType,
): Promise<CheckRow> {
  const body = withoutReadOnly(parse(Body, input));
  return transact(caller.store.db, async (trx) => {
    const { group_id } = await existing(trx, caller, id);
    // The group first, as where it is updated with its checks: neither waits for the other then.
    await holdGroup(trx, caller.accountId, body['groupId'] ?? group_id);
    const old = await existing(trx, caller, id, true);
    const of = typeOf(old);
    if (type !== undefined && type !== of) {
      throw invalid([`id: is a check of type ${of.name}, to be updated at /v1/checks/${of.route}/${id}`]);
    }
    const before = old.definition as Check;
    const definition = definitionOf(of, { ...before, ...keepSecrets(body, before) });
    const group = await groupOf(trx, caller.accountId, definition, of);
    const columns = columnsOf(definition, group);
    if (!columns.activated) await caller.queue.forgetCheck(id, trx);
    return checks.updateCheck(trx, id, { ...columns, next_at: nextTick(old, definition, group) });
  });
}

export async function getCheck(caller: Caller, id: string): Promise<CheckRow> {
  return existing(caller.store.db, caller, id);
}

export async function listChecks(
  caller: Caller,
  filter: CheckFilter,
  page: { limit: number; page: number },
): Promise<CheckRow[]> {
  const offset = (page.page - 1) * page.limit;
  return checks.listChecks(caller.store.db, caller.accountId, filter, { limit: page.limit, offset });
}

/** Its queued runs go with it; runs under way end, and their results are dropped. */
export async function deleteCheck(caller: Caller, id: string): Promise<void> {
  await transact(caller.store.db, async (trx) => {
    await existing(trx, caller, id, true);
    await caller.queue.forgetCheck(id, trx);
    await errorGroups.removeOfCheck(trx, id);
    await checks.deleteCheck(trx, caller.accountId, id);
  });
}

export async function listCheckStatuses(caller: Caller): Promise<CheckStatusRow[]> {
  return checks.checkStatuses(caller.store.db, caller.accountId);
}

/** @throws Refusal `notFound` also while the check has no result */
export async function getCheckStatus(caller: Caller, id: string): Promise<CheckStatusRow> {
  await existing(caller.store.db, caller, id);
  const [status] = await checks.checkStatuses(caller.store.db, caller.accountId, id);
  if (status === undefined) throw notFound('a status of check', id);
  return status;
}

async function existing(db: Db, caller: Caller, id: string, lock = false): Promise<CheckRow> {
  const row = isUuid(id) ? await checks.findCheck(db, caller.accountId, id, lock) : undefined;
  if (row === undefined) throw notFound('check', id);
  return row;
}

function typeNamedIn(input: unknown): CheckType {
  return findCheckType(parse(TypedBody, input).checkType)!;
}

function typeOf(row: CheckRow): CheckType {
  const type = findCheckType(row.type);
  if (type === undefined) throw new Error(`check ${row.id} has the unknown type ${row.type}`);
  return type;
}

/** @throws Refusal `invalid` */
function definitionOf(type: CheckType, { checkType, ...fields }: Record<string, unknown>): Check {
  if (checkType !== undefined && checkType !== type.name) throw invalid([`checkType: must be ${type.name}`]);
  return parse(schemas.get(type.name)!, fields) as Check;
}

function withoutReadOnly(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(body).filter(([name]) => !READ_ONLY.some((each) => each === name)),
  );
}

/**
 * The check's group, which stays as it is until the transaction ends.
 *
 * @throws Refusal `invalid` that names what the definition mentions and the account does not have, or why
 * no agent could run it
 */
async function groupOf(
  trx: Trx,
  accountId: string,
  definition: Check,
  type: CheckType,
): Promise<Group | undefined> {
  const { groupId } = definition;
  const row = await holdGroup(trx, accountId, groupId);
  const problems = await missingReferences(trx, accountId, definition);
  if (groupId !== null && row === undefined) problems.push(`groupId: ${groupId} is not a check group`);
  const group = row?.definition as Group | undefined;
  if (problems.length === 0 && columnsOf(definition, group).run_locations.length === 0) {
    problems.push(
      'locations: at least one of locations and privateLocations is required, here or in the group',
    );
  }
  if (problems.length > 0) throw invalid(problems);
  const check = { account_id: accountId, type: type.name, group_id: groupId, definition };
  const definitionOf = await effectiveDefinitions(trx, [check]);
  const tooLarge = oversize(definitionOf(check));
  if (tooLarge !== null) throw invalid([`body: ${tooLarge}`]);
  return group;
}

async function holdGroup(trx: Trx, accountId: string, id: unknown) {
  return isGroupId(id) ? groups.findGroup(trx, accountId, id, 'share') : undefined;
}

/** Other numbers the store could not even compare. */
const isGroupId = (id: unknown): id is number =>
  typeof id === 'number' && Number.isInteger(id) && id > 0 && id < 2 ** 31;
