import { lstatSync, readdirSync, type Dirent } from 'node:fs';
import { codeOf } from '../../kit/errors.ts';

/** More files than any run leaves; a bomb of empty ones is a bomb too. */
const MOST_FILES = 100_000;

/**
 * Space that a folder takes while a job still writes there: blocks, so that a sparse file counts with
 * what it has. Infinity as soon as it is more than `limit`, has too many files, or hides what it has.
 */
export function diskUse(folder: string, limit: number, mostFiles = MOST_FILES): number {
  let bytes = 0;
  let files = 0;
  for (const folders = [folder]; folders.length > 0;) {
    const path = folders.pop()!;
    const entries = entriesOf(path);
    if (entries === undefined) return Infinity;
    for (const entry of entries) {
      const below = `${path}/${entry.name}`;
      if (entry.isDirectory()) folders.push(below);
      bytes += blocksOf(below);
      if (++files > mostFiles || bytes > limit) return Infinity;
    }
  }
  return bytes;
}

/** Undefined when the folder may not be read, or lies deeper than a path can say. */
function entriesOf(path: string): Dirent[] | undefined {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(codeOf(error) ?? '') ? [] : undefined;
  }
}

function blocksOf(path: string): number {
  // Undefined: removed in the meantime, or its name is no text and cannot be asked for: one block then.
  const found = lstatSync(path, { throwIfNoEntry: false });
  return (found?.blocks ?? 8) * 512;
}
