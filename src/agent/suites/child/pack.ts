import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { create } from 'tar';
import type { Question } from '../protocol.ts';
import { given } from './unpack.ts';

/**
 * What an installation added to the project, as an archive: without compression, which takes longer than it
 * saves. Zero bytes when nothing was added.
 */
export async function pack({ root, into }: Extract<Question, { do: 'pack' }>): Promise<{ bytes: number }> {
  const added = await addedBelow(root, '');
  if (added.length === 0) return { bytes: 0 };
  // A name that begins with @ would be read as an archive.
  const paths = added.map((path) => `./${path}`);
  const options = { cwd: root, file: into, portable: true, noMtime: true, strict: true };
  await create({ ...options, linkCache: new EachByItself() }, paths);
  return { bytes: (await stat(into)).size };
}

/**
 * What pnpm and Bun link from their stores is packed as a file of its own. Without, the packer waits for ever
 * for the first name of a file of which it gets only the second.
 */
class EachByItself extends Map<`${number}:${number}`, string> {
  override get(): string {
    return 'none of its names lies below the root';
  }
}

/** The highest of what the project did not bring. */
async function addedBelow(root: string, folder: string): Promise<string[]> {
  const entries = await readdir(join(root, folder), { withFileTypes: true });
  const found = await Promise.all(
    entries.map(async (entry) => {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (!given.has(path)) return [path];
      return entry.isDirectory() ? addedBelow(root, path) : [];
    }),
  );
  return found.flat();
}
