import { z } from 'zod';
import { variables, type VariableRow } from '../store/index.ts';
import type { Db } from '../ports.ts';
import type { Caller } from './caller.ts';
import { invalid } from './problems.ts';
import { notFound, Refusal } from './refusal.ts';

/** They travel with every job, which has room for 1 MiB. */
const MAX_VARIABLES = 1000;
const MAX_VALUE_CHARS = 10_000;
const MAX_BYTES = 200_000;

const Key = z
  .string()
  .min(1, 'must not be empty')
  .max(255)
  .regex(/^[^\s=\p{C}]+$/u, 'must not contain spaces, = or control characters');
const Value = z.string().max(MAX_VALUE_CHARS);

export const VariableInput = z.strictObject({
  key: Key,
  value: Value,
  /** Shown to those only who may change it. */
  locked: z.boolean().default(false),
  /** Its value is never shown. */
  secret: z.boolean().default(false),
});

export const VariableChange = z.strictObject({
  /** The one of the address. */
  key: z.string().optional(),
  /** Null and, for a secret, an empty text leave it as it is. */
  value: Value.nullable().optional(),
  locked: z.boolean().optional(),
  secret: z.boolean().optional(),
  created_at: z.unknown().optional(),
  updated_at: z.unknown().optional(),
});

export async function listVariables(
  caller: Caller,
  { limit, page }: { limit: number; page: number },
): Promise<VariableRow[]> {
  const offset = (page - 1) * limit;
  return variables.listVariables(caller.store.db, caller.accountId, { limit, offset });
}

export async function getVariable(caller: Caller, key: string): Promise<VariableRow> {
  const row = await variables.findVariable(caller.store.db, caller.accountId, key);
  if (row === undefined) throw notFound('variable', key);
  return row;
}

export async function createVariable(
  caller: Caller,
  input: z.output<typeof VariableInput>,
): Promise<VariableRow> {
  const { db } = caller.store;
  await assertRoom(db, caller.accountId, input);
  const row = await variables.insertVariable(db, { account_id: caller.accountId, ...input });
  if (row === undefined) {
    throw new Refusal('conflict', `key: ${JSON.stringify(input.key)} is taken by another variable`);
  }
  return row;
}

export async function updateVariable(
  caller: Caller,
  key: string,
  change: z.output<typeof VariableChange>,
): Promise<VariableRow> {
  if (change.key !== undefined && change.key !== key) throw invalid(['key: cannot change']);
  return caller.store.db.transaction().execute(async (trx) => {
    const old = await variables.findVariable(trx, caller.accountId, key, true);
    if (old === undefined) throw notFound('variable', key);
    const { locked = old.locked, secret = old.secret } = change;
    const kept = change.value === undefined || change.value === null || (secret && change.value === '');
    if (kept && old.secret && !secret) {
      throw invalid(['value: is required when a secret becomes readable']);
    }
    const value = kept ? old.value : (change.value ?? '');
    await assertRoom(trx, caller.accountId, { key, value });
    return variables.updateVariable(trx, caller.accountId, key, { value, locked, secret });
  });
}

async function assertRoom(
  db: Db,
  accountId: string,
  { key, value }: { key: string; value: string },
): Promise<void> {
  const others = await variables.sizeOfOthers(db, accountId, key);
  if (others.count >= MAX_VARIABLES) {
    throw new Refusal('conflict', `an account has at most ${MAX_VARIABLES} variables; delete one first`);
  }
  const bytes = others.bytes + Buffer.byteLength(key) + Buffer.byteLength(value);
  if (bytes <= MAX_BYTES) return;
  const message = `value: the variables of the account would have ${bytes} bytes together; at most ${MAX_BYTES} are allowed`;
  throw invalid([message]);
}

export async function deleteVariable(caller: Caller, key: string): Promise<void> {
  const gone = await variables.deleteVariable(caller.store.db, caller.accountId, key);
  if (!gone) throw notFound('variable', key);
}
