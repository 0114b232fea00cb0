import type { Selectable } from 'kysely';
import { derivedId } from '../../../kit/ids.ts';
import type { Db } from '../../ports.ts';
import type { CheckResultTable, CheckSessionTable, RunTable } from '../schema.ts';

export type SessionRow = Selectable<CheckSessionTable>;
export type SessionRun = Pick<
  Selectable<RunTable>,
  'id' | 'sequence_id' | 'location' | 'state' | 'attempt' | 'end_reason' | 'token'
>;
export type SessionResult = Selectable<CheckResultTable>;

/** The sequence of a session at one of its locations. */
export const sequenceIdOf = (sessionId: string, location: string): string =>
  derivedId('sequence', sessionId, location);

/** Sessions of test sessions are found there. */
export async function findSession(db: Db, accountId: string, id: string): Promise<SessionRow | undefined> {
  return db
    .selectFrom('check_session')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .where('test_session_id', 'is', null)
    .executeTakeFirst();
}

export async function findSessions(db: Db, ids: readonly string[]): Promise<SessionRow[]> {
  if (ids.length === 0) return [];
  return db
    .selectFrom('check_session')
    .selectAll()
    .where('id', 'in', [...ids])
    .execute();
}

/** Finished runs leave the table after a while; their results stay. */
export async function runsOfSession(db: Db, sessionId: string): Promise<SessionRun[]> {
  return db
    .selectFrom('run')
    .select((eb) => [
      'id',
      eb.fn.coalesce('whole_id', 'sequence_id').as('sequence_id'),
      'location',
      'state',
      'attempt',
      'end_reason',
      'token',
    ])
    .where('session_id', '=', sessionId)
    .orderBy('id')
    .execute();
}

/** The start of the session is the scheduled_at of its results: it names their partition. */
export async function resultsOfSession(db: Db, session: SessionRow): Promise<SessionResult[]> {
  return db
    .selectFrom('check_result')
    .selectAll()
    .where('session_id', '=', session.id)
    .where('scheduled_at', '=', session.started_at)
    .orderBy('location')
    .orderBy('started_at')
    .orderBy('attempts')
    .execute();
}
