import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { Db } from '../ports.ts';
import type { Database } from './schema.ts';

/**
 * Both engines speak through the same driver, so that types, errors and bound values are the same:
 * 64-bit numbers arrive as JS numbers (counts and run ids stay far below 2^53), stamps as Date.
 */
export const columnTypes: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format),
};

export function kyselyOver(pool: pg.Pool): Db {
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool }) });
}
