import { z } from 'zod';
import {
  checkSchema,
  checkTypes,
  type CommonFields,
  EnvironmentVariable,
  findCheckType,
  intervalMs,
  type Check,
  type CheckType,
} from '../../checks/index.ts';
import { isUuid, newId } from '../../kit/ids.ts';
import type { Db, Trx } from '../ports.ts';
import { firstTick } from '../scheduler/index.ts';
import { checks, locations, type CheckFilter, type CheckRow, type CheckStatusRow } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { invalid, parse } from './problems.ts';
import { notFound } from './refusal.ts';

/** What the interface adds to a check on reading; sent back with an update it is ignored. */
const READ_ONLY = ['id', 'created_at', 'updated_at', 'alertChannels'] as const;

const Body = z.record(z.string(), z.unknown());
const TypedBody = z.looseObject({ checkType: z.enum(checkTypes().map((type) => type.name)) });

const schemas = new Map(checkTypes().map((type) => [type.name, checkSchema(type)]));

/** @param type absent on the deprecated route, whose body names it */
export async function createCheck(caller: Caller, input: unknown, type?: CheckType): Promise<CheckRow> {
  const of = type ?? typeNamedIn(input);
  const definition = definitionOf(of, parse(Body, input));
  return caller.store.db.transaction().execute(async (trx) => {
    await assertReferences(trx, caller.accountId, definition);
    const id = newId();
    return checks.insertCheck(trx, {
      id,
      account_id: caller.accountId,
      type: of.name,
      ...columnsOf(definition),
      next_at: definition.activated ? firstTick(id, intervalMs(definition), new Date()) : null,
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
  return caller.store.db.transaction().execute(async (trx) => {
    const old = await existing(trx, caller, id, true);
    const of = typeOf(old);
    if (type !== undefined && type !== of) {
      throw invalid([`id: is a check of type ${of.name}, to be updated at /v1/checks/${of.route}/${id}`]);
    }
    const before = old.definition as Check;
    const definition = definitionOf(of, { ...before, ...keepSecrets(body, before) });
    await assertReferences(trx, caller.accountId, definition);
    if (!definition.activated) await caller.queue.forgetCheck(id, trx);
    return checks.updateCheck(trx, id, { ...columnsOf(definition), next_at: nextTick(old, definition) });
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
  await caller.store.db.transaction().execute(async (trx) => {
    await existing(trx, caller, id, true);
    await caller.queue.forgetCheck(id, trx);
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

const Variables = z.array(EnvironmentVariable);

/** A secret is shown with an empty value; coming back like that, it keeps the value that it had. */
function keepSecrets(body: Record<string, unknown>, before: CommonFields): Record<string, unknown> {
  const sent = Variables.safeParse(body.environmentVariables);
  if (!sent.success) return body;
  const secrets = new Map(
    (before.environmentVariables ?? []).filter((each) => each.secret).map((each) => [each.key, each.value]),
  );
  const environmentVariables = sent.data.map((each) =>
    each.secret && each.value === '' ? { ...each, value: secrets.get(each.key) ?? '' } : each,
  );
  return { ...body, environmentVariables };
}

/** @throws Refusal `invalid` that names what the definition mentions and the account does not have */
async function assertReferences(trx: Trx, accountId: string, definition: Check): Promise<void> {
  const slugs = [...new Set(definition.privateLocations ?? [])];
  const known = await locations.holdSlugs(trx, accountId, slugs);
  const problems = slugs
    .filter((slug) => !known.has(slug))
    .map((slug) => `privateLocations: ${JSON.stringify(slug.slice(0, 64))} is not a private location`);
  if (definition.groupId !== null) problems.push(`groupId: ${definition.groupId} is not a check group`);
  if (problems.length > 0) throw invalid(problems);
}

function columnsOf(definition: Check) {
  return {
    name: definition.name,
    activated: definition.activated,
    tags: definition.tags,
    // Private locations first: they have agents, while a region without one holds a round-robin check up.
    run_locations: [...new Set([...(definition.privateLocations ?? []), ...(definition.locations ?? [])])],
    interval_ms: intervalMs(definition),
    definition: JSON.stringify(definition),
  };
}

/** The running rhythm is kept unless the interval changed or the check was asleep. */
function nextTick(old: CheckRow, definition: Check): Date | null {
  if (!definition.activated) return null;
  const interval = intervalMs(definition);
  if (old.next_at !== null && old.interval_ms === interval) return old.next_at;
  return firstTick(old.id, interval, new Date());
}
