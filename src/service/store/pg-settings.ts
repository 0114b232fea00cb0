import { Kysely, PostgresDialect, type PostgresPool, type PostgresPoolClient } from 'kysely';
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

export function kyselyOver(pool: PostgresPool): Db {
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool }) });
}

/** Texts that are prepared on a connection at most. */
const PREPARED_AT_MOST = 256;

/**
 * The same pool, on which every statement is prepared once and planned from memory afterwards: the
 * embedded engine spends two thirds of a short statement on parsing and planning. Not for servers: a
 * pooler between may hand each transaction to another connection.
 */
export function preparing(pool: pg.Pool): PostgresPool {
  const names = new Map<string, string>();
  const nameOf = (text: string): string | undefined => {
    if (!names.has(text) && names.size < PREPARED_AT_MOST) names.set(text, `s${names.size}`);
    return names.get(text);
  };
  return {
    connect: async () => {
      const client = await pool.connect();
      const query = (text: string, values: unknown[]): unknown => {
        const name = nameOf(text);
        return client.query(name === undefined ? { text, values } : { name, text, values });
      };
      return { query, release: () => client.release() } as PostgresPoolClient;
    },
    end: () => pool.end(),
  };
}
