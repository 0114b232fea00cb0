import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import pg from 'pg';
import { ExitCode, FatalError, messageOf } from '../../../kit/errors.ts';
import type { Log } from '../../../kit/log.ts';
import { columnTypes } from '../pg-settings.ts';
import { lockFolder } from './lock.ts';
import { startMaintenance } from './maintenance.ts';
import type { FromDatabase, ToDatabase } from './protocol.ts';
import { Wire } from './wire.ts';

const THREAD = new URL(
  import.meta.url.endsWith('.ts') ? './database-thread.ts' : './database-thread.js',
  import.meta.url,
);

/** Longest wait for the one connection; a vacuum or a backup takes seconds. */
const WAIT_FOR_CONNECTION_MS = 30_000;

export interface EmbeddedEngine {
  pool: pg.Pool;
  close(): Promise<void>;
}

/**
 * PGlite in `<dataDir>/store`, behind an ordinary driver pool of one connection: statements wait for
 * one another, so keep each below 250 ms or renewals wait too.
 *
 * @throws FatalError (78) when the folder is in use, cannot be used, or does not survive a power cut
 */
export async function openEmbedded(dataDir: string, log: Log): Promise<EmbeddedEngine> {
  const folder = join(dataDir, 'store');
  const unlock = takeFolder(dataDir);
  const thread = new DatabaseThread(folder, log);
  try {
    await thread.running();
  } catch (error) {
    unlock();
    throw new FatalError(
      ExitCode.storeRefused,
      `The database in ${folder} cannot be opened: ${messageOf(error)}`,
      { cause: error },
    );
  }
  const pool = createPool(thread, log);
  const stopMaintenance = startMaintenance({ pool, folder, backups: join(dataDir, 'backup'), log });
  return {
    pool,
    close: async () => {
      await stopMaintenance();
      await pool.end();
      await thread.close();
      unlock();
    },
  };
}

function takeFolder(dataDir: string): () => void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new FatalError(
      ExitCode.storeRefused,
      `The data folder ${dataDir} cannot be made: ${messageOf(error)}`,
      { cause: error },
    );
  }
  return lockFolder(join(dataDir, 'lock.db'), dataDir);
}

function createPool(thread: DatabaseThread, log: Log): pg.Pool {
  let wires = 0;
  const pool = new pg.Pool({
    user: 'postgres',
    database: 'postgres',
    ssl: false,
    types: columnTypes,
    max: 1,
    idleTimeoutMillis: 0,
    // Who asks for a second connection while it holds the only one gets an error, not a standstill.
    connectionTimeoutMillis: WAIT_FOR_CONNECTION_MS,
    stream: () => new Wire(++wires, thread.running()),
  });
  const report = (error: Error): void => log.warn({ reason: messageOf(error) }, 'database connection lost');
  pool.on('error', report);
  pool.on('connect', (client) => client.on('error', report));
  return pool;
}

/** The thread that holds the database; a crashed one is started again by the next connection. */
class DatabaseThread {
  readonly #folder: string;
  readonly #log: Log;
  #worker: Promise<Worker> | undefined;
  #closing = false;

  constructor(folder: string, log: Log) {
    this.#folder = folder;
    this.#log = log;
  }

  running(): Promise<Worker> {
    this.#worker ??= this.#start();
    return this.#worker;
  }

  async #start(): Promise<Worker> {
    const worker = new Worker(THREAD, { workerData: this.#folder, execArgv: [], name: 'vedette-store' });
    worker.once('exit', (code) => {
      this.#worker = undefined;
      if (!this.#closing) this.#log.error({ code }, 'the embedded database stopped; it is started again');
    });
    // A failed start is told by `firstMessage`; later errors are followed by `exit`.
    worker.on('error', (error) => this.#log.error({ reason: messageOf(error) }, 'embedded database failed'));
    const first = await firstMessage(worker);
    if (first.kind === 'open') return worker;
    this.#closing = true;
    await worker.terminate();
    throw new Error(first.kind === 'refused' ? first.why : 'its thread ended at start');
  }

  async close(): Promise<void> {
    this.#closing = true;
    const worker = await this.#worker;
    if (worker === undefined) return;
    const closed = firstMessage(worker);
    worker.postMessage({ kind: 'close' } satisfies ToDatabase);
    await closed;
    await worker.terminate();
  }
}

function firstMessage(worker: Worker): Promise<FromDatabase> {
  return new Promise((resolve) => {
    worker.once('message', resolve);
    worker.once('exit', () => resolve({ kind: 'closed' }));
  });
}
