import pg from 'pg';
import { ExitCode, FatalError, codeOf, messageOf } from '../../kit/errors.ts';
import { monoMs, sleep } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import { columnTypes } from './pg-settings.ts';

/** Oldest server whose features the SQL of this project uses. */
const OLDEST_SERVER = 150_000;
/** A database that comes up together with the service gets this long to answer. */
const START_PATIENCE_MS = 30_000;

/**
 * Connection settings for one PostgreSQL. A connection that died is noticed by keep-alive, by the
 * statement's own limit, or at the latest when the connection reaches its age limit.
 */
function settings(databaseUrl: string): pg.PoolConfig {
  return {
    connectionString: databaseUrl,
    application_name: 'vedette',
    types: columnTypes,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: 5_000,
  };
}

/** The pool that everything but wake-ups uses. Errors of its connections fail their query, nothing else. */
export function createPool(databaseUrl: string, log: Log): pg.Pool {
  return surviving(
    new pg.Pool({
      ...settings(databaseUrl),
      max: 10,
      idleTimeoutMillis: 30_000,
      maxLifetimeSeconds: 600,
      statement_timeout: 30_000,
      // Long transactions keep dead queue rows alive and slow every claim down.
      idle_in_transaction_session_timeout: 10_000,
      lock_timeout: 10_000,
      query_timeout: 35_000,
    }),
    log,
  );
}

/** One connection without time limits, for migrations: an index on a large table takes minutes. */
export function createPatientPool(databaseUrl: string, log: Log): pg.Pool {
  return surviving(new pg.Pool({ ...settings(databaseUrl), max: 1 }), log);
}

/** A connection of its own, outside any pooler's transaction mode, for LISTEN and NOTIFY. */
export function createSideClient(databaseUrl: string): pg.Client {
  return new pg.Client({ ...settings(databaseUrl), query_timeout: 10_000 });
}

/**
 * A connection that breaks while idle is reported by the pool, one that breaks while in use by the
 * client; an `error` event without a listener would end the process.
 */
function surviving(pool: pg.Pool, log: Log): pg.Pool {
  const report = (error: Error): void => log.warn({ reason: messageOf(error) }, 'database connection lost');
  pool.on('error', report);
  pool.on('connect', (client) => client.on('error', report));
  return pool;
}

/**
 * Waits for the server and checks its version.
 *
 * @throws FatalError when it refuses us, is too old, or does not answer for 30 s
 */
export async function awaitServer(pool: pg.Pool, databaseUrl: string, log: Log): Promise<void> {
  const since = monoMs();
  for (;;) {
    try {
      const { rows } = await pool.query<{ version: number }>(
        "select current_setting('server_version_num')::int as version",
      );
      const version = rows[0]!.version;
      if (version >= OLDEST_SERVER) return;
      throw new FatalError(
        ExitCode.storeRefused,
        `DATABASE_URL: PostgreSQL ${Math.floor(version / 10_000)} is too old; version 15 or newer is needed`,
      );
    } catch (error) {
      if (error instanceof FatalError) throw error;
      if (!isOutage(error) || monoMs() - since > START_PATIENCE_MS) {
        throw new FatalError(
          ExitCode.storeRefused,
          `DATABASE_URL: cannot use the database at ${shownUrl(databaseUrl)}: ${messageOf(error)}`,
          { cause: error },
        );
      }
      log.warn({ reason: messageOf(error) }, 'the database does not answer yet');
      await sleep(1_000);
    }
  }
}

/** Refused, reset, starting up or shutting down: worth another try, unlike a wrong password. */
function isOutage(error: unknown): boolean {
  const code = codeOf(error) ?? '';
  return (
    /^(08|57P)/.test(code) || !/^[0-9A-Z]{5}$/.test(code) || code === '53300' // too many connections
  );
}

function shownUrl(databaseUrl: string): string {
  if (!URL.canParse(databaseUrl)) return 'the given address';
  const url = new URL(databaseUrl);
  return `${url.host}${url.pathname}`;
}
