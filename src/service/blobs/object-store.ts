import { PART_BYTES } from '../../contract/index.ts';
import { monoMs, sleep } from '../../kit/clock.ts';
import { ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import {
  assertPart,
  hashOf,
  isNameOfDay,
  nameOfDay,
  partCount,
  partNumbers,
  partSize,
  verified,
  type Blob,
  type BlobStore,
} from './blob.ts';
import { Bucket, BucketError, type BucketAddress } from './bucket.ts';

/** A store that starts beside us may need this long. */
const PATIENCE_MS = 30_000;
const REMOVED_AT_ONCE = 8;

/** Blobs in a bucket: `<prefix><UTC day>/<artifact id>/<n>` is part n. Replicas share it. */
export class BlobBucket implements BlobStore {
  readonly #bucket: Bucket;
  readonly #prefix: string;

  private constructor(bucket: Bucket, prefix: string) {
    this.#bucket = bucket;
    this.#prefix = prefix;
  }

  /**
   * @param prefix of all keys: empty, or ends in `/`
   * @throws FatalError when the bucket cannot be used
   */
  static async open(address: BucketAddress, prefix: string): Promise<BlobBucket> {
    const store = new BlobBucket(new Bucket(address), prefix);
    const until = monoMs() + PATIENCE_MS;
    for (;;) {
      try {
        await store.parts({ id: 'none', day: new Date(0), size: 1 });
        return store;
      } catch (error) {
        const isDown = !(error instanceof BucketError) || error.status >= 500;
        if (!isDown || monoMs() > until) throw unusable(address, error);
        await sleep(1000);
      }
    }
  }

  async parts(blob: Blob): Promise<number[]> {
    const folder = this.#folderOf(blob);
    const keys = await Array.fromAsync(this.#bucket.list(folder));
    return partNumbers(
      blob,
      keys.map((key) => key.slice(folder.length)),
    );
  }

  async putPart(blob: Blob, n: number, bytes: AsyncIterable<Uint8Array>, sha256: string): Promise<void> {
    assertPart(blob, n);
    const right = verified(bytes, blob, n, sha256);
    if ((await this.parts(blob)).includes(n)) {
      for await (const _chunk of right);
      return;
    }
    await this.#bucket.put(`${this.#folderOf(blob)}${n}`, right, partSize(blob, n), sha256);
  }

  async check(blob: Blob, sha256: string): Promise<'right' | 'incomplete' | 'wrong'> {
    if (!(await this.has(blob))) return 'incomplete';
    if ((await hashOf(this.read(blob, 0, blob.size))) === sha256) return 'right';
    await this.remove(blob);
    return 'wrong';
  }

  async *read(blob: Blob, start: number, end: number): AsyncGenerator<Buffer> {
    for (let at = start; at < end;) {
      const before = Math.floor(at / PART_BYTES) * PART_BYTES;
      const stop = Math.min(end, before + PART_BYTES);
      const key = `${this.#folderOf(blob)}${before / PART_BYTES + 1}`;
      yield* this.#bucket.get(key, at - before, stop - before);
      at = stop;
    }
  }

  async has(blob: Blob): Promise<boolean> {
    return (await this.parts(blob)).length === partCount(blob);
  }

  async remove(blob: Blob): Promise<void> {
    await this.#removeAll(this.#folderOf(blob));
  }

  async removeBefore(oldest: Date): Promise<number> {
    const folders = await Array.fromAsync(this.#bucket.list(this.#prefix, true));
    const days = folders
      .map((folder) => folder.slice(this.#prefix.length, -1))
      .filter((name) => isNameOfDay(name) && name < nameOfDay(oldest));
    for (const day of days) await this.#removeAll(`${this.#prefix}${day}/`);
    return days.length;
  }

  async #removeAll(prefix: string): Promise<void> {
    let batch: Promise<void>[] = [];
    for await (const key of this.#bucket.list(prefix)) {
      batch.push(this.#bucket.remove(key));
      if (batch.length < REMOVED_AT_ONCE) continue;
      await Promise.all(batch);
      batch = [];
    }
    await Promise.all(batch);
  }

  #folderOf({ id, day }: Blob): string {
    return `${this.#prefix}${nameOfDay(day)}/${id}/`;
  }
}

const CURES: Readonly<Record<string, string>> = {
  NoSuchBucket: 'create the bucket, or name another one in BLOB_STORE',
  InvalidAccessKeyId: 'set S3_ACCESS_KEY_ID to a key that the store knows',
  SignatureDoesNotMatch: 'set S3_SECRET_ACCESS_KEY to the secret of S3_ACCESS_KEY_ID',
  AccessDenied: 'allow the key to list, read, write and delete in the bucket',
};

function unusable({ bucket, endpoint }: BucketAddress, error: unknown): FatalError {
  const at = endpoint === undefined ? '' : ` at ${endpoint}`;
  const cure =
    error instanceof BucketError
      ? (CURES[error.code] ?? 'S3_ACCESS_KEY_ID, S3_REGION and S3_FORCE_PATH_STYLE have to fit the store')
      : 'check S3_ENDPOINT';
  const message = `BLOB_STORE=s3://${bucket}${at}: ${messageOf(error)}; ${cure}`;
  return new FatalError(ExitCode.storeRefused, message, { cause: error });
}
