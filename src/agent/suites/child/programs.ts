import { constants } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

const BIN = '.bin';

/**
 * Package managers make their programs executable by path, which the walls of a job may leave without effect:
 * the files of others could be of the same user. By descriptor it has one.
 */
export async function allowPrograms(root: string): Promise<void> {
  for (const folders = [root]; folders.length > 0;) {
    const folder = folders.pop()!;
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (!entry.isDirectory()) continue;
      if (entry.name === BIN) await allowEach(path);
      else folders.push(path);
    }
  }
}

async function allowEach(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = await open(join(folder, name), constants.O_RDONLY).catch(() => undefined);
    if (file === undefined) continue;
    const { mode } = await file.stat();
    if ((mode & 0o111) === 0) await file.chmod((mode & 0o777) | 0o111).catch(() => {});
    await file.close();
  }
}
