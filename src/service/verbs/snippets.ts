import { z } from 'zod';
import { snippets, transact, type SnippetRow } from '../store/index.ts';
import type { Db } from '../ports.ts';
import type { Caller } from './caller.ts';
import { notFound, Refusal } from './refusal.ts';

const MAX_SCRIPT_CHARS = 256_000;

export const SnippetInput = z.strictObject({
  /** Scripts require it as ./snippets/NAME.js. */
  name: z
    .string()
    .min(1, 'must not be empty')
    .max(100)
    .regex(/^[^/\\"'`\p{C}]+$/u, 'must not contain slashes, quotes or control characters')
    .refine((name) => !/^\.+$/.test(name), 'must not be dots only'),
  script: z.string().max(MAX_SCRIPT_CHARS),
});

export const SnippetChange = z.strictObject({
  ...SnippetInput.partial().shape,
  id: z.unknown().optional(),
  created_at: z.unknown().optional(),
  updated_at: z.unknown().optional(),
});

export async function listSnippets(
  caller: Caller,
  { limit, page }: { limit: number; page: number },
): Promise<SnippetRow[]> {
  const offset = (page - 1) * limit;
  return snippets.listSnippets(caller.store.db, caller.accountId, { limit, offset });
}

export async function getSnippet(caller: Caller, id: string): Promise<SnippetRow> {
  return existing(caller.store.db, caller, id);
}

export async function createSnippet(
  caller: Caller,
  { name, script }: z.output<typeof SnippetInput>,
): Promise<SnippetRow> {
  const { db } = caller.store;
  if (await snippets.oneIsNamed(db, caller.accountId, [twinOf(name)])) throw nameTaken(name);
  const row = await snippets.insertSnippet(db, { account_id: caller.accountId, name, script });
  if (row === undefined) throw nameTaken(name);
  return row;
}

export async function updateSnippet(
  caller: Caller,
  id: string,
  change: z.output<typeof SnippetChange>,
): Promise<SnippetRow> {
  return transact(caller.store.db, async (trx) => {
    const old = await existing(trx, caller, id, true);
    const { name = old.name, script = old.script } = change;
    const names = [name, twinOf(name)];
    if (await snippets.oneIsNamed(trx, caller.accountId, names, old.id)) throw nameTaken(name);
    return snippets.updateSnippet(trx, old.id, { name, script });
  });
}

export async function deleteSnippet(caller: Caller, id: string): Promise<void> {
  await caller.store.db.transaction().execute(async (trx) => {
    const row = await existing(trx, caller, id, true);
    const users = await snippets.usersOf(trx, caller.accountId, row.id);
    if (users.length > 0) {
      const named = users.slice(0, 3).map((name) => JSON.stringify(name));
      const more = users.length > 3 ? ' and others' : '';
      const what = 'the snippet cannot be deleted while it is the setup or teardown of';
      throw new Refusal('conflict', `${what} ${named.join(', ')}${more}`);
    }
    await snippets.deleteSnippet(trx, row.id);
  });
}

async function existing(db: Db, caller: Caller, id: string, lock = false): Promise<SnippetRow> {
  const number = /^[1-9]\d{0,8}$/.test(id) ? Number(id) : undefined;
  const row =
    number === undefined ? undefined : await snippets.findSnippet(db, caller.accountId, number, lock);
  if (row === undefined) throw notFound('snippet', id);
  return row;
}

/** The other name by which scripts would find the same file. */
const twinOf = (name: string): string => (name.endsWith('.js') ? name.slice(0, -3) : `${name}.js`);

function nameTaken(name: string): Refusal {
  return new Refusal('conflict', `name: ${JSON.stringify(name)} is taken by another snippet`);
}
