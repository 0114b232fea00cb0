import { constants, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { monoMs, wallMs } from '../../../kit/clock.ts';
import type { Log } from '../../../kit/log.ts';
import { syncPath, syncTree } from './sync-file-system.ts';

const BACKUP_EVERY_MS = 24 * 3_600_000;
const BACKUPS_KEPT = 3;

/** True when the newest backup, or without one the database itself, is a day old. */
export function backupIsDue(folder: string, backups: string): boolean {
  const newest = existing(backups).at(-1);
  const path = newest === undefined ? join(folder, 'PG_VERSION') : join(backups, newest);
  return wallMs() - statSync(path).ctimeMs >= BACKUP_EVERY_MS;
}

/**
 * Copies the database to `<backups>/<instant>` while it holds the only connection, so that nothing
 * changes meanwhile: about a second per gigabyte, nothing on a file system with clones. To restore,
 * stop the service and put the copy in the place of `store`.
 */
export async function backUp(place: {
  pool: pg.Pool;
  folder: string;
  backups: string;
  log: Log;
}): Promise<string> {
  const { pool, folder, backups, log } = place;
  mkdirSync(backups, { recursive: true, mode: 0o700 });
  const target = join(backups, new Date(wallMs()).toISOString().replaceAll(':', '-'));
  const draft = `${target}.part`;
  const since = monoMs();
  const connection = await pool.connect();
  try {
    await connection.query('checkpoint');
    await cp(folder, draft, { recursive: true, mode: constants.COPYFILE_FICLONE });
  } finally {
    connection.release();
  }
  await syncTree(draft);
  await rename(draft, target);
  await syncPath(backups);
  await removeOld(backups);
  log.info({ target, tookMs: Math.round(monoMs() - since) }, 'database backed up');
  return target;
}

async function removeOld(backups: string): Promise<void> {
  const whole = existing(backups);
  const drafts = readdirSync(backups).filter((name) => name.endsWith('.part'));
  for (const name of [...drafts, ...whole.slice(0, -BACKUPS_KEPT)]) {
    await rm(join(backups, name), { recursive: true, force: true });
  }
}

/** Oldest first: the names are instants. */
function existing(backups: string): string[] {
  if (!existsSync(backups)) return [];
  return readdirSync(backups)
    .filter((name) => !name.endsWith('.part'))
    .toSorted();
}
