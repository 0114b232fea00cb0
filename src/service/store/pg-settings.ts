import {
  Kysely,
  PostgresDialect,
  type PostgresCursor,
  type PostgresPool,
  type PostgresPoolClient,
  type PostgresQueryResult,
} from 'kysely';
import pg from 'pg';
import { codeOf } from '../../kit/errors.ts';
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
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: new PreparingPool(pool) }) });
}

/** Texts that are prepared on a connection at most. */
const PREPARED_AT_MOST = 256;
/** A statement is unknown, or known already: a pooler handed us another connection than before. */
const POOLER_IN_BETWEEN = new Set(['26000', '42P05']);

/**
 * A pool on which each text is parsed once per connection and planned from memory afterwards: parsing
 * and planning are half of a short statement, and two thirds in the embedded engine. Behind a pooler
 * that does not follow prepared statements the first one that fails ends this.
 */
class PreparingPool implements PostgresPool {
  readonly #pool: pg.Pool;
  readonly #names = new Map<string, string>();
  #prepares = true;

  constructor(pool: pg.Pool) {
    this.#pool = pool;
  }

  async connect(): Promise<PostgresPoolClient> {
    return new PreparingClient(await this.#pool.connect(), this);
  }

  end(): Promise<void> {
    return this.#pool.end();
  }

  nameOf(text: string): string | undefined {
    const names = this.#names;
    if (!names.has(text) && names.size < PREPARED_AT_MOST) names.set(text, `vedette_${names.size}`);
    return this.#prepares ? names.get(text) : undefined;
  }

  failed(error: unknown): void {
    if (POOLER_IN_BETWEEN.has(codeOf(error) ?? '')) this.#prepares = false;
  }
}

class PreparingClient implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #pool: PreparingPool;

  constructor(client: pg.PoolClient, pool: PreparingPool) {
    this.#client = client;
    this.#pool = pool;
  }

  query<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
  query<R>(
    what: string | PostgresCursor<R>,
    values: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<R>> | PostgresCursor<R> {
    if (typeof what !== 'string') throw new Error('cursors are not in use');
    return this.#run(what, [...values]);
  }

  async #run<R>(text: string, values: unknown[]): Promise<PostgresQueryResult<R>> {
    const name = this.#pool.nameOf(text);
    try {
      const { command, rowCount, rows } = await this.#client.query(
        name === undefined ? { text, values } : { name, text, values },
      );
      return { command: command as PostgresQueryResult<R>['command'], rowCount: rowCount ?? 0, rows };
    } catch (error) {
      this.#pool.failed(error);
      throw error;
    }
  }

  release(): void {
    this.#client.release();
  }
}
