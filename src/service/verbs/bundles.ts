import { createHash, type Hash } from 'node:crypto';
import { Readable } from 'node:stream';
import { MAX_BUNDLE_BYTES, PART_BYTES } from '../../contract/index.ts';
import { newId } from '../../kit/ids.ts';
import { bundleBlob } from '../blobs/index.ts';
import { bundleKey, bundles } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { Refusal } from './refusal.ts';

/** Each holds one part of 8 MiB in memory. */
const MAX_UPLOADS = 8;
/** An upload of which no byte arrives for so long is given up. */
const SILENCE_MS = 60_000;

const FORMATS = [
  { format: 'gz', magic: Buffer.from([0x1f, 0x8b]) },
  { format: 'zst', magic: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]) },
] as const;
type Format = (typeof FORMATS)[number]['format'];

/** Uploads under way, by the store that they go to. */
const underWay = new WeakMap<Caller['blobs'], number>();

/**
 * Keeps the archive of a project, and only one copy of it. What is in it is looked at by the agents that
 * unpack it, each time.
 *
 * @returns what checks call it
 */
export async function storeBundle(caller: Caller, body: Readable): Promise<{ key: string }> {
  const { blobs } = caller;
  const uploads = underWay.get(blobs) ?? 0;
  if (uploads >= MAX_UPLOADS) {
    throw new Refusal('tooMany', `${MAX_UPLOADS} uploads are under way; try again in a few seconds`);
  }
  underWay.set(blobs, uploads + 1);
  const timer = setTimeout(() => body.destroy(new Error('silent')), SILENCE_MS);
  const blobId = newId();
  try {
    return await store(caller, blobId, body, timer);
  } catch (error) {
    await blobs.remove(bundleBlob({ blob_id: blobId, size: 0 }));
    if (body.errored === null || error instanceof Refusal) throw error;
    throw new Refusal('invalid', 'body: the upload stopped before its end', { cause: error });
  } finally {
    clearTimeout(timer);
    underWay.set(blobs, underWay.get(blobs)! - 1);
  }
}

async function store(
  caller: Caller,
  blobId: string,
  body: Readable,
  silence: NodeJS.Timeout,
): Promise<{ key: string }> {
  const upload = new Upload(caller, blobId);
  // What is refused early is still answered: the request is not destroyed with the reading.
  for await (const chunk of body.iterator({ destroyOnReturn: false })) {
    silence.refresh();
    await upload.add(chunk as Buffer);
  }
  const { sha256, size, format } = await upload.end();
  const row = { account_id: caller.accountId, sha256, format, size, blob_id: blobId };
  const isNew = await bundles.insertBundle(caller.store.db, row);
  if (!isNew) await caller.blobs.remove(bundleBlob(row));
  return { key: bundleKey(row) };
}

/** Puts a body of unknown length into the blob store, part by part. */
class Upload {
  readonly #caller: Caller;
  readonly #blobId: string;
  readonly #hash: Hash = createHash('sha256');
  #format: Format | undefined;
  #part: Buffer[] = [];
  #partBytes = 0;
  #parts = 0;
  #size = 0;

  constructor(caller: Caller, blobId: string) {
    this.#caller = caller;
    this.#blobId = blobId;
  }

  async add(chunk: Buffer): Promise<void> {
    this.#size += chunk.byteLength;
    if (this.#size > MAX_BUNDLE_BYTES) {
      throw new Refusal('tooLarge', `body: has more than the ${MAX_BUNDLE_BYTES} bytes that an archive may`);
    }
    this.#hash.update(chunk);
    for (let rest = chunk; rest.byteLength > 0;) {
      const taken = rest.subarray(0, PART_BYTES - this.#partBytes);
      this.#part.push(taken);
      this.#partBytes += taken.byteLength;
      rest = rest.subarray(taken.byteLength);
      if (this.#partBytes === PART_BYTES) await this.#put();
    }
  }

  async end(): Promise<{ sha256: string; size: number; format: Format }> {
    if (this.#partBytes > 0) await this.#put();
    return { sha256: this.#hash.digest('hex'), size: this.#size, format: this.#format ?? formatOf([]) };
  }

  async #put(): Promise<void> {
    this.#format ??= formatOf(this.#part);
    const bytes = Buffer.concat(this.#part);
    this.#parts += 1;
    const size = (this.#parts - 1) * PART_BYTES + bytes.byteLength;
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const blob = bundleBlob({ blob_id: this.#blobId, size });
    await this.#caller.blobs.putPart(blob, this.#parts, Readable.from([bytes]), sha256);
    this.#part = [];
    this.#partBytes = 0;
  }
}

/** @throws Refusal `invalid` */
function formatOf(chunks: readonly Buffer[]): Format {
  const start = Buffer.concat(chunks.slice(0, 4)).subarray(0, 4);
  const found = FORMATS.find(({ magic }) => start.subarray(0, magic.byteLength).equals(magic));
  if (found === undefined)
    throw new Refusal('invalid', 'body: must be a tar archive, packed by gzip or zstd');
  return found.format;
}
