import { isUuid } from '../../kit/ids.ts';
import { checks, results, type CheckRow, type ResultFilter, type ResultRow } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';
import { notFound } from './refusal.ts';

export interface ResultPage {
  rows: ResultRow[];
  /** Null when no more results match. */
  nextId: string | null;
}

/** Newest first. */
export async function listResults(
  caller: Caller,
  checkId: string,
  filter: ResultFilter,
  page: { limit: number; nextId?: string | undefined },
): Promise<ResultPage> {
  const { id } = await existingCheck(caller, checkId);
  const after = page.nextId === undefined ? undefined : decodeCursor(id, page.nextId);
  const found = await results.listResults(caller.store.db, id, filter, page.limit + 1, after);
  const rows = found.slice(0, page.limit);
  const last = rows.at(-1);
  return { rows, nextId: found.length > page.limit && last ? encodeCursor(id, last) : null };
}

export async function getResult(caller: Caller, checkId: string, id: string): Promise<ResultRow> {
  await existingCheck(caller, checkId);
  const row = isUuid(id)
    ? await results.findResult(caller.store.db, caller.accountId, checkId, id)
    : undefined;
  if (row === undefined) throw notFound('check result', id);
  return row;
}

async function existingCheck(caller: Caller, id: string): Promise<CheckRow> {
  const check = isUuid(id) ? await checks.findCheck(caller.store.db, caller.accountId, id) : undefined;
  if (check === undefined) throw notFound('check', id);
  return check;
}
