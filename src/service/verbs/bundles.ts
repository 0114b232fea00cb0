import { createHash, type Hash } from 'node:crypto';
import { Readable } from 'node:stream';
import { BUNDLE_KEY } from '../../checks/index.ts';
import { MAX_BUNDLE_BYTES, PART_BYTES } from '../../contract/index.ts';
import { messageOf } from '../../kit/errors.ts';
import { newId } from '../../kit/ids.ts';
import { bundleBlob } from '../blobs/index.ts';
import { bundleKey, bundles, transact } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { notFound, Refusal } from './refusal.ts';

/** Each holds one part of 8 MiB in memory. */
const MAX_UPLOADS = 8;
/** An upload of which no byte arrives for so long is given up. */
const SILENCE_MS = 60_000;

const FORMATS = [
  { format: 'gz', magic: Buffer.from([0x1f, 0x8b]) },
  { format: 'zst', magic: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]) },
] as const;
type Format = (typeof FORMATS)[number]['format'];

interface Archive {
  sha256: string;
  size: number;
  format: Format;
}

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
  // Whoever reads it is told; before somebody does, a client that has gone is no reason to fall.
  body.once('error', () => undefined);
  const silence = new Silence(body);
  const blobId = newId();
  try {
    await bundles.openUpload(caller.store.db, blobId);
    const archive = await take(caller, blobId, body, silence).catch(async (error: unknown) => {
      await drop(caller, blobId);
      if (body.errored === null || error instanceof Refusal) throw error;
      throw new Refusal('invalid', 'body: the upload stopped before its end', { cause: error });
    });
    return await keep(caller, { account_id: caller.accountId, blob_id: blobId, ...archive });
  } finally {
    silence.stop();
    underWay.set(blobs, underWay.get(blobs)! - 1);
  }
}

/** The bytes of an archive that was uploaded. */
export interface BundleBytes {
  size: number;
  sha256: string;
  read: (start: number, end: number) => AsyncIterable<Buffer>;
}

export async function openBundle(caller: Caller, key: string): Promise<BundleBytes> {
  const sha256 = BUNDLE_KEY.exec(key)?.[1];
  const found =
    sha256 === undefined ? [] : await bundles.findBundles(caller.store.db, [caller.accountId], [sha256]);
  const row = found.find((each) => bundleKey(each) === key);
  const blob = row && bundleBlob(row);
  if (row === undefined || blob === undefined || !(await caller.blobs.has(blob))) {
    throw notFound('archive', key);
  }
  return { size: row.size, sha256: row.sha256, read: (start, end) => caller.blobs.read(blob, start, end) };
}

async function take(caller: Caller, blobId: string, body: Readable, silence: Silence): Promise<Archive> {
  const upload = new Upload(caller, blobId);
  // What is refused early is still answered: the request is not destroyed with the reading.
  for await (const chunk of body.iterator({ destroyOnReturn: false })) {
    await silence.during(upload.add(chunk as Buffer));
  }
  return upload.end();
}

/** Ends a body of which nothing arrives for too long. It may be kept waiting by us, for as long as that takes. */
class Silence {
  readonly #timer: NodeJS.Timeout;
  #isOurs = false;

  constructor(body: Readable) {
    this.#timer = setTimeout(() => {
      if (this.#isOurs) this.#timer.refresh();
      else body.destroy(new Error('silent'));
    }, SILENCE_MS);
  }

  async during(work: Promise<void>): Promise<void> {
    this.#isOurs = true;
    await work;
    this.#isOurs = false;
    this.#timer.refresh();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** Of what the account has already the new bytes go, unless the old ones are lost. */
async function keep(
  caller: Caller,
  row: Archive & { account_id: string; blob_id: string },
): Promise<{ key: string }> {
  const { db } = caller.store;
  const answer = { key: bundleKey(row) };
  const kept = await transact(db, (trx) => bundles.insertBundle(trx, row));
  if (kept === row.blob_id) return answer;
  const isThere = await caller.blobs.has(bundleBlob({ ...row, blob_id: kept }));
  if (!isThere && (await transact(db, (trx) => bundles.replaceBytes(trx, row, kept)))) return answer;
  await drop(caller, row.blob_id);
  return answer;
}

/** What cannot be removed now is removed by the janitor. */
async function drop({ store: { db }, blobs, log }: Caller, blobId: string): Promise<void> {
  try {
    await blobs.remove(bundleBlob({ blob_id: blobId, size: 0 }));
    await bundles.forgetLoose(db, blobId);
  } catch (error) {
    log.warn({ blobId, reason: messageOf(error) }, 'an upload was not removed yet');
  }
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
      throw new Refusal('tooLarge', `body: has more than the ${MAX_BUNDLE_BYTES} bytes that are allowed`);
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

  async end(): Promise<Archive> {
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
