import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

/**
 * A hash of what decides about the dependencies of a project: its lock file, its package.json files without
 * their versions, and the settings of npm. Agents keep installed dependencies by it.
 *
 * @param files of the project, from its root
 */
export async function cacheHash(root: string, lockFile: string, files: readonly string[]): Promise<string> {
  const named = (name: string): string[] => files.filter((path) => basename(path) === name).toSorted();
  const hash = createHash('sha256');
  const record = (label: string, content: string): void => {
    for (const text of [label, content]) {
      const bytes = Buffer.from(text);
      const length = Buffer.alloc(8);
      length.writeBigUInt64BE(BigInt(bytes.byteLength));
      hash.update(length).update(bytes);
    }
  };
  record(`lockfile:${lockFile}`, await sha256(join(root, lockFile)));
  for (const path of named('package.json')) {
    record(`package.json:${path}`, canonical(await readFile(join(root, path), 'utf8')));
  }
  for (const path of named('.npmrc')) record(`npmrc:${path}`, await sha256(join(root, path)));
  return hash.digest('hex');
}

const sha256 = async (path: string): Promise<string> =>
  createHash('sha256')
    .update(await readFile(path))
    .digest('hex');

/** Without the version and with sorted names; what is no JSON counts as it is. */
function canonical(text: string): string {
  try {
    const manifest: unknown = JSON.parse(text);
    if (typeof manifest !== 'object' || manifest === null) return text;
    return JSON.stringify(sorted({ ...manifest, version: undefined }));
  } catch {
    return text;
  }
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => [name, sorted(each)]),
  );
}
