/**
 * Blobs: the bytes of artifacts, which are too large for the database. Hides where they are, a folder or
 * a bucket of an S3-compatible store, and how a write survives a crash: `<UTC day>/<artifact id>/<n>` is
 * part n, whole. Replicas of the service share the place. Whose an artifact is and what it should hold
 * is in the store.
 *
 * Decisions
 * - Parts stay parts: putting them together would write every artifact twice. In a bucket each is an
 *   object, so that no multipart upload can be left half done and pay rent.
 * - A folder per day of the result, as the tables have partitions: retention removes whole days.
 * - Bytes cross the service also on their way to a bucket: agents need one address, and no key or clock
 *   of the bucket's. At 8 MiB a part and streaming, memory does not grow with it.
 * - aws4fetch signs and undici sends. @aws-sdk/client-s3 brings some 60 packages for five requests.
 */
import { ExitCode, FatalError } from '../../kit/errors.ts';
import type { BlobStore } from './blob.ts';
import { BlobFolder } from './folder.ts';
import { BlobBucket } from './object-store.ts';

export { bundleBlob } from './bundle-blob.ts';
export { PartRefusal, type Blob, type BlobStore } from './blob.ts';
export { createJanitor } from './janitor.ts';

/** What the address of a bucket leaves open. */
export interface BucketSettings {
  s3Endpoint?: string | undefined;
  s3Region?: string;
  s3AccessKeyId?: string | undefined;
  s3SecretAccessKey?: string | undefined;
  s3ForcePathStyle?: boolean | undefined;
}

/**
 * @param address `file:DIR` or `s3://BUCKET/PREFIX`
 * @throws FatalError when it names another kind of store, or the place cannot be used
 */
export async function openBlobs(address: string, settings: BucketSettings = {}): Promise<BlobStore> {
  const [, folder] = /^file:(.+)$/s.exec(address) ?? [];
  if (folder !== undefined) return BlobFolder.open(folder);
  const [, bucket, path = ''] =
    /^s3:\/\/([a-z0-9][a-z0-9.-]{1,62})((?:\/[\w-][\w.-]*)*)\/?$/.exec(address) ?? [];
  if (bucket === undefined) {
    throw usage(`BLOB_STORE=${address}: file:DIR or s3://BUCKET or s3://BUCKET/PREFIX is allowed`);
  }
  const { s3Endpoint: endpoint, s3Region: region = 'us-east-1', s3ForcePathStyle } = settings;
  const { s3AccessKeyId: accessKeyId, s3SecretAccessKey: secretAccessKey } = settings;
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    throw usage(`BLOB_STORE=${address}: S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY are needed with it`);
  }
  // Stores other than Amazon's seldom have a host name for each bucket; no certificate has one with dots.
  const pathStyle = s3ForcePathStyle ?? (endpoint !== undefined || bucket.includes('.'));
  const place = { bucket, endpoint, region, accessKeyId, secretAccessKey, pathStyle };
  return BlobBucket.open(place, path === '' ? '' : `${path.slice(1)}/`);
}

const usage = (message: string): FatalError => new FatalError(ExitCode.usage, message);
