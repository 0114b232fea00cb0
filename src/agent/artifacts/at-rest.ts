import { constants, type Stats } from 'node:fs';
import { lstat, open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from '../../kit/errors.ts';
import { Refusal } from './refusal.ts';

const MAX_DEPTH = 12;
const MAX_PART_BYTES = 255;

/**
 * Opens a plain file below a folder that nothing changes any more, and that a hostile run has filled.
 * Every folder on the way is looked at, so that no link leads out; a file with two names may be anyone's.
 *
 * @throws Refusal
 */
export async function openAtRest(folder: string, path: string): Promise<FileHandle> {
  const parts = path.split('/');
  if (parts.length > MAX_DEPTH) throw new Refusal(`it lies more than ${MAX_DEPTH} folders deep`);
  if (!parts.every(isName)) throw new Refusal('its path is not allowed');
  const root = await lstat(folder);
  let at = folder;
  for (const part of parts.slice(0, -1)) {
    at = join(at, part);
    const found = await look(at);
    if (!found.isDirectory()) throw new Refusal('its path leads over a link or a file');
    if (found.dev !== root.dev) throw new Refusal('it lies on another device');
  }
  const file = join(at, parts.at(-1)!);
  const found = await look(file);
  const problem = problemOf(found, root);
  if (problem !== undefined) throw new Refusal(problem, found.size);
  return await openSame(file, found);
}

const isName = (part: string): boolean =>
  part !== '' &&
  part !== '.' &&
  part !== '..' &&
  part.isWellFormed() &&
  !/\p{Cc}/u.test(part) &&
  Buffer.byteLength(part) <= MAX_PART_BYTES;

async function look(path: string): Promise<Stats> {
  try {
    return await lstat(path);
  } catch (error) {
    throw unreadable(error);
  }
}

function problemOf(found: Stats, root: Stats): string | undefined {
  if (found.isSymbolicLink()) return 'it is a link';
  if (!found.isFile()) return 'it is no file';
  if (found.nlink !== 1) return 'it has several names (hard links)';
  return found.dev === root.dev ? undefined : 'it lies on another device';
}

async function openSame(path: string, found: Stats): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    (error: unknown) => {
      throw unreadable(error);
    },
  );
  const opened = await handle.stat();
  if (opened.isFile() && opened.ino === found.ino && opened.dev === found.dev && opened.nlink === 1)
    return handle;
  await handle.close();
  throw new Refusal('it was replaced while it was looked at');
}

function unreadable(error: unknown): Refusal {
  const code = codeOf(error) ?? 'unknown error';
  return new Refusal(
    code === 'ENOENT' ? 'it was not there when the run had ended' : `it cannot be read (${code})`,
  );
}
