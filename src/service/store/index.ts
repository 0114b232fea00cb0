/**
 * The store: PostgreSQL by DATABASE_URL, or the embedded engine in the data folder. Hides which of the
 * two it is, connections and their loss, migrations, partitions and retention, the lock on the folder,
 * and how wake-ups reach other processes. Both engines speak PostgreSQL 15 through one driver; one
 * conformance suite runs on both. Repositories, one module per entity, are the only other place here
 * that names tables; the queue's rows are written by the queue room alone.
 *
 * Decisions
 * - The embedded engine is reached through its wire protocol by the same `pg` driver as a server, so
 *   that types, errors and bound values cannot differ. A dialect on PGlite's own query call was tried:
 *   no faster (2,370 against 2,170 trivial statements/s), and a second set of type rules.
 * - Its backup is a copy of the folder while nothing writes, not PGlite's dump, which builds the whole
 *   archive in memory.
 */
import { sql } from 'kysely';
import type pg from 'pg';
import type { Log } from '../../kit/log.ts';
import type { Db, Store } from '../ports.ts';
import { openEmbedded } from './embedded/engine.ts';
import { migrate } from './migrate.ts';
import { ensurePartitions, partitionLoop } from './partitions.ts';
import { kyselyOver } from './pg-settings.ts';
import { awaitServer, createPatientPool, createPool, createSideClient } from './postgres.ts';
import { LocalBus, PostgresBus, type WakeBus } from './wake.ts';

export { ensurePartitions } from './partitions.ts';
export { toJson } from './json.ts';
export { repeating, transact } from './transact.ts';
export * from './repositories/index.ts';

export interface StoreOptions {
  /** `postgres://…`; without it the embedded engine. */
  databaseUrl?: string | undefined;
  /** Folder of the embedded engine (`store`, `backup` and `lock.db` in it). */
  dataDir: string;
  /** Days that raw results are kept; default 30. */
  retentionDays?: number;
  log: Log;
}

interface Engine {
  kind: Store['kind'];
  pool: pg.Pool;
  bus: WakeBus;
  close(): Promise<void>;
}

/**
 * Opens the store and migrates it.
 *
 * @throws FatalError with exit code 78 and one line for the user
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { databaseUrl, log, retentionDays = 30 } = options;
  const engine =
    databaseUrl === undefined ? await openLocal(options.dataDir, log) : await openServer(databaseUrl, log);
  const db = kyselyOver(engine.pool);
  const stop = new AbortController();
  try {
    if (engine.kind === 'embedded') await migrate(db, log);
    await ensurePartitions(db);
  } catch (error) {
    await engine.close();
    throw error;
  }
  const upkeep = partitionLoop(db, { retentionDays, log, signal: stop.signal });
  return {
    db,
    kind: engine.kind,
    wake: (topic) => engine.bus.wake(topic),
    onWake: (listener) => engine.bus.onWake(listener),
    ping: () => ping(db),
    close: async () => {
      stop.abort();
      await upkeep;
      await engine.close();
    },
  };
}

async function openLocal(dataDir: string, log: Log): Promise<Engine> {
  const engine = await openEmbedded(dataDir, log);
  const bus = new LocalBus();
  return {
    kind: 'embedded',
    pool: engine.pool,
    bus,
    close: async () => {
      await bus.close();
      await engine.close();
    },
  };
}

async function openServer(databaseUrl: string, log: Log): Promise<Engine> {
  const patient = createPatientPool(databaseUrl, log);
  try {
    await awaitServer(patient, databaseUrl, log);
    await migrate(kyselyOver(patient), log);
  } finally {
    await patient.end();
  }
  const pool = createPool(databaseUrl, log);
  const bus = new PostgresBus(() => createSideClient(databaseUrl), log);
  return {
    kind: 'postgres',
    pool,
    bus,
    close: async () => {
      await bus.close();
      await pool.end();
    },
  };
}

async function ping(db: Db): Promise<boolean> {
  try {
    await sql`select 1`.execute(db);
    return true;
  } catch {
    return false;
  }
}
