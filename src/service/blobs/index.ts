/**
 * Blobs: the bytes of artifacts, which are too large for the database. Hides where they are and how a
 * write survives a crash: `<folder>/<UTC day>/<artifact id>/<n>` is part n, whole and on the disk.
 * Replicas of the service share the folder. Whose an artifact is and what it should hold is in the store.
 *
 * Decisions
 * - Parts stay parts: putting them together would write every artifact twice.
 * - A folder per day of the result, as the tables have partitions: retention removes whole days.
 */
import { ExitCode, FatalError } from '../../kit/errors.ts';
import { BlobFolder } from './folder.ts';

export { bundleBlob } from './bundle-blob.ts';
export { BlobFolder, PartRefusal, type Blob } from './folder.ts';
export { createJanitor } from './janitor.ts';

/**
 * @param address `file:DIR`
 * @throws FatalError when it names another kind of store, or the folder cannot be used
 */
export async function openBlobs(address: string): Promise<BlobFolder> {
  const [, folder] = /^file:(.+)$/s.exec(address) ?? [];
  if (folder === undefined) {
    const why = address.startsWith('s3:')
      ? 'this version keeps artifacts in a folder'
      : 'the kind is unknown';
    throw new FatalError(ExitCode.usage, `BLOB_STORE=${address}: ${why}; file:DIR is allowed`);
  }
  return BlobFolder.open(folder);
}
