import { z } from 'zod';
import { isUuid } from '../../kit/ids.ts';
import { errorGroups, type ErrorGroupRow } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { getCheck } from './checks.ts';
import { notFound } from './refusal.ts';

type Of = 'checks' | 'tests';
/** Of a project, whose list has no pages. */
const MAX_OF_PROJECT = 1000;

export const ErrorGroupChange = z.strictObject({
  archivedUntilNextEvent: z.boolean().optional(),
  archiveForEver: z.boolean().optional(),
});

export async function listErrorGroups(
  caller: Caller,
  of: Of,
  page: { limit: number; page: number },
): Promise<ErrorGroupRow[]> {
  return errorGroups.listErrorGroups(caller.store.db, caller.accountId, { of }, rowsOf(page));
}

export async function listErrorGroupsOfCheck(
  caller: Caller,
  checkId: string,
  page: { limit: number; page: number },
): Promise<ErrorGroupRow[]> {
  const { id } = await getCheck(caller, checkId);
  const filter = { of: 'checks', checkId: id } as const;
  return errorGroups.listErrorGroups(caller.store.db, caller.accountId, filter, rowsOf(page));
}

/** A project without any is not known apart from one that nobody has. */
export async function listErrorGroupsOfProject(caller: Caller, projectId: string): Promise<ErrorGroupRow[]> {
  const filter = { of: 'tests', projectId } as const;
  const page = { limit: MAX_OF_PROJECT, offset: 0 };
  return errorGroups.listErrorGroups(caller.store.db, caller.accountId, filter, page);
}

export async function getErrorGroup(caller: Caller, of: Of, id: string): Promise<ErrorGroupRow> {
  const { db } = caller.store;
  const row = isUuid(id) ? await errorGroups.findErrorGroup(db, caller.accountId, of, id) : undefined;
  if (row === undefined) throw notFound('error group', id);
  return row;
}

/** Archived until the next event, it comes back when its error does; for ever, it is in no list. */
export async function archiveErrorGroup(
  caller: Caller,
  of: Of,
  id: string,
  change: z.output<typeof ErrorGroupChange>,
): Promise<ErrorGroupRow> {
  const row = await getErrorGroup(caller, of, id);
  return errorGroups.archiveErrorGroup(caller.store.db, row.id, {
    untilNextEvent: change.archivedUntilNextEvent,
    forEver: change.archiveForEver,
  });
}

const rowsOf = ({ limit, page }: { limit: number; page: number }) => ({ limit, offset: (page - 1) * limit });
