import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { Pack } from 'tar';
import { ExitCode, FatalError } from '../../kit/errors.ts';
import { MAX_BUNDLE_BYTES } from '../../contract/index.ts';

/** Any instant, the same for all. */
const NO_TIME = new Date(0);

/**
 * The archive of a project. Equal files make equal archives, whoever packs them and when.
 *
 * @throws FatalError with exit code 2 when it is larger than the service takes
 */
export async function pack(root: string, files: readonly string[]): Promise<Buffer<ArrayBuffer>> {
  const archive = new Pack({
    cwd: root,
    gzip: { level: 9 },
    portable: true,
    mtime: NO_TIME,
    noDirRecurse: true,
    strict: true,
  });
  for (const file of files) archive.write(file);
  archive.end();
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of archive) {
    const part = Buffer.from(chunk);
    bytes += part.byteLength;
    if (bytes > MAX_BUNDLE_BYTES) throw await tooLarge(root, files);
    chunks.push(part);
  }
  return Buffer.concat(chunks);
}

async function tooLarge(root: string, files: readonly string[]): Promise<FatalError> {
  const sized = await Promise.all(
    files.map(async (path) => ({ path, bytes: (await lstat(join(root, path))).size })),
  );
  const total = sized.reduce((sum, { bytes }) => sum + bytes, 0);
  const largest = sized.toSorted((a, b) => b.bytes - a.bytes).slice(0, 3);
  const shown = largest.map(({ path, bytes }) => `${path} (${megabytes(bytes)})`).join(', ');
  return new FatalError(
    ExitCode.usage,
    `pw-test: the project has ${megabytes(total)} in ${files.length} files, and more than the ${megabytes(MAX_BUNDLE_BYTES)} that are taken when it is packed: let git ignore what the tests do not need; the largest: ${shown}`,
  );
}

export const megabytes = (bytes: number): string =>
  bytes < 1e6 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
