import { existsSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { messageOf } from '../../../kit/errors.ts';
import { queryMessage, type FromDatabase, type ToDatabase } from './protocol.ts';
import { SyncFileSystem, syncPath, syncTree } from './sync-file-system.ts';

/**
 * The database's own thread: here the engine computes without holding up the event loop that renews
 * leases (longest stall 640 ms in the main thread, 8 ms so). It answers PostgreSQL's wire protocol.
 */
const START_PARAMETERS = [
  // -F switches fsync off. fdatasync is an empty stub in this build, hence the method.
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== '-F'),
  '-c',
  'fsync=on',
  '-c',
  'wal_sync_method=fsync',
];

const folder = String(workerData);

function tell(message: FromDatabase): void {
  parentPort!.postMessage(message);
}

async function openFolder(path: string): Promise<{ pg: PGlite; fs: SyncFileSystem }> {
  const fs = new SyncFileSystem(path);
  return { pg: await PGlite.create({ fs, startParams: START_PARAMETERS }), fs };
}

/** A power cut in the middle of this leaves either nothing or a whole database under the final name. */
async function createFolder(): Promise<void> {
  const draft = `${folder}.new`;
  rmSync(draft, { recursive: true, force: true });
  const { pg } = await openFolder(draft);
  await pg.close();
  await syncTree(draft);
  renameSync(draft, folder);
  await syncPath(dirname(folder));
}

async function open(): Promise<PGlite> {
  if (!existsSync(folder)) await createFolder();
  // Left by a process that was killed; the lock proves that no other one uses the folder.
  rmSync(join(folder, 'postmaster.pid'), { force: true });
  const { pg, fs } = await openFolder(folder);
  const before = fs.fsyncs;
  pg.execProtocolRawSync(queryMessage("select pg_logical_emit_message(true, 'vedette', 'durable?')"));
  if (fs.fsyncs === before) throw new Error('a commit did not reach the disk (no fsync was called)');
  return pg;
}

function serve(pg: PGlite): void {
  let current = 0;
  parentPort!.on('message', (message: ToDatabase) => {
    if (message.kind === 'close') {
      void pg.close().finally(() => tell({ kind: 'closed' }));
      return;
    }
    const { wire } = message;
    try {
      if (wire !== current) {
        pg.execProtocolRawSync(queryMessage('rollback'));
        pg.execProtocolRawSync(queryMessage('discard all'));
        current = wire;
      }
      const bytes = Uint8Array.from(pg.execProtocolRawSync(message.bytes));
      tell({ kind: 'bytes', wire, bytes });
    } catch (error) {
      tell({ kind: 'failed', wire, why: messageOf(error) });
    }
  });
}

try {
  serve(await open());
  tell({ kind: 'open' });
} catch (error) {
  tell({ kind: 'refused', why: messageOf(error) });
}
