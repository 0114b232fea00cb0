import { chmod, lstat, readdir, rename, rmdir, unlink } from 'node:fs/promises';
import { codeOf } from '../../kit/errors.ts';

const SLASH = Buffer.from('/');

/**
 * Removes a folder that a job filled, whatever it made there: folders without permissions, names that
 * are no text, trees deeper than a path can be long. Links are removed and never followed. The job must
 * have ended.
 *
 * Each subfolder is moved to the top before it is emptied, so that no path gets longer than two names.
 */
export async function removeFolder(path: string): Promise<void> {
  const top = await lstat(path).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (top === undefined) return;
  if (!top.isDirectory()) return unlink(path);
  await chmod(path, 0o700);
  let moved = 0;
  const nextName = (): Buffer => Buffer.from(`${path}/.removed-${moved++}`);
  for (let left = await emptied(Buffer.from(path), nextName); left.length > 0;) {
    const folder = left.pop()!;
    left = [...left, ...(await emptied(folder, nextName))];
    await rmdir(folder);
  }
  await rmdir(path);
}

/** Removes the files in a folder and moves its subfolders away. @returns where they are now */
async function emptied(folder: Buffer, nextName: () => Buffer): Promise<Buffer[]> {
  const subfolders: Buffer[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true, encoding: 'buffer' })) {
    const path = Buffer.concat([folder, SLASH, entry.name]);
    if (!entry.isDirectory()) {
      await unlink(path);
      continue;
    }
    // A folder that changes its parent must itself be writable.
    await chmod(path, 0o700);
    const target = await freeName(nextName);
    await rename(path, target);
    subfolders.push(target);
  }
  return subfolders;
}

/** The job may have used our names too. */
async function freeName(nextName: () => Buffer): Promise<Buffer> {
  for (;;) {
    const name = nextName();
    try {
      await lstat(name);
    } catch {
      return name;
    }
  }
}
