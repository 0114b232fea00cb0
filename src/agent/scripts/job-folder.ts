import { copyFile, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { removeFolder } from '../sandbox/index.ts';

/** A file of the user's code, by its path below `<folder>/src`. */
export interface UserFile {
  path: string;
  content: string;
}

/** Expected pictures of visual comparisons come as text. */
const PICTURE = /\.(png|jpe?g)$/i;
const PICTURE_DATA = /^data:image\/(?:png|jpeg);base64,/;

let last = 0;

/**
 * A new folder for one job: all that its code may write. `node_modules` leads to the runtime's packages,
 * since code in `src` looks for them upwards.
 */
export async function makeJobFolder(workDir: string, modules: string): Promise<string> {
  const folder = join(workDir, String(++last));
  await mkdir(join(folder, 'src'), { recursive: true, mode: 0o700 });
  await symlink(modules, join(folder, 'node_modules'));
  return folder;
}

/** Puts the database where the browser of the job looks for it: the folder is its home. */
export async function giveAuthorities(folder: string, database: string | undefined): Promise<void> {
  if (database === undefined) return;
  const into = join(folder, '.pki', 'nssdb');
  await mkdir(into, { recursive: true, mode: 0o700 });
  await copyFile(database, join(into, 'cert9.db'));
}

/** Writes the user's files. To be called before any of them runs: later a name may be a link. */
export async function writeUserFiles(folder: string, files: readonly UserFile[]): Promise<void> {
  for (const { path, content } of files) {
    const file = join(folder, 'src', path);
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await writeFile(file, bytesOf(path, content), { flag: 'wx', mode: 0o600 });
  }
}

function bytesOf(path: string, content: string): string | Buffer {
  const prefix = PICTURE.test(path) ? PICTURE_DATA.exec(content)?.[0] : undefined;
  return prefix === undefined ? content : Buffer.from(content.slice(prefix.length), 'base64');
}

/** Removes what jobs of an agent that was killed left behind. @returns how many folders */
export async function sweepWorkFolder(workDir: string): Promise<number> {
  await mkdir(workDir, { recursive: true, mode: 0o700 });
  const left = await readdir(workDir);
  for (const name of left) await removeFolder(join(workDir, name));
  return left.length;
}
