import { createHash, randomUUID, type Hash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { access, link, mkdir, open, readdir, rm, stat, unlink, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf, ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import { PART_BYTES } from '../../contract/index.ts';

/** Where the bytes of one artifact belong, and how many they are. */
export interface Blob {
  id: string;
  /** Any instant of the day that it belongs to. */
  day: Date;
  size: number;
}

/** What arrived is not the part that was announced. */
export class PartRefusal extends Error {
  readonly reason: 'unknown' | 'tooLong' | 'damaged';
  constructor(reason: PartRefusal['reason'], message: string) {
    super(message);
    this.name = 'PartRefusal';
    this.reason = reason;
  }
}

/** Bytes read at once while a blob is checked or sent. */
const CHUNK_BYTES = 256 * 1024;

export class BlobFolder {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** @throws FatalError when the folder cannot be made or written to */
  static async open(folder: string): Promise<BlobFolder> {
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    } catch (error) {
      const message = `BLOB_STORE=file:${folder}: the folder cannot be used: ${messageOf(error)}`;
      throw new FatalError(ExitCode.storeRefused, message, { cause: error });
    }
    return new BlobFolder(folder);
  }

  /** Numbers of the parts that are here, from 1. */
  async parts(blob: Blob): Promise<number[]> {
    const count = partCount(blob);
    return (await namesIn(this.#folderOf(blob)))
      .filter((name) => /^[1-9]\d{0,8}$/.test(name))
      .map(Number)
      .filter((n) => n <= count)
      .toSorted((a, b) => a - b);
  }

  /**
   * Takes one part; it survives a crash when this resolves. The first copy of a part stays: what was
   * checked once cannot change afterwards.
   *
   * @throws PartRefusal when it is not the part that the hash and the blob's size announce
   */
  async putPart(blob: Blob, n: number, bytes: AsyncIterable<Uint8Array>, sha256: string): Promise<void> {
    if (n < 1 || n > partCount(blob)) {
      throw new PartRefusal('unknown', `part ${n} does not exist; the artifact has ${partCount(blob)}`);
    }
    const folder = this.#folderOf(blob);
    await makeFolder(folder);
    const draft = join(folder, `${n}.${randomUUID()}.tmp`);
    try {
      await writeDraft(draft, bytes, { n, size: partSize(blob, n), sha256 });
      await keep(draft, join(folder, String(n)));
      await syncFolder(folder);
    } finally {
      await unlink(draft).catch(() => undefined);
    }
  }

  /** Whether the whole is here and is what it should be; what is `wrong` is removed. */
  async check(blob: Blob, sha256: string): Promise<'right' | 'incomplete' | 'wrong'> {
    if ((await this.parts(blob)).length < partCount(blob)) return 'incomplete';
    const hash = createHash('sha256');
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    for await (const chunk of this.read(blob, 0, blob.size, buffer)) hash.update(chunk);
    if (hash.digest('hex') === sha256) return 'right';
    await this.remove(blob);
    return 'wrong';
  }

  /**
   * Bytes from `start` to before `end`.
   *
   * @param buffer holds each chunk until the next one is asked for; without it each chunk has its own
   * @throws ENOENT when a part is not here
   */
  async *read(blob: Blob, start: number, end: number, buffer?: Buffer): AsyncGenerator<Buffer> {
    let before = 0;
    for (let n = 1; before < end; n++) {
      const handle = await open(join(this.#folderOf(blob), String(n)));
      try {
        const { size } = await handle.stat();
        if (size === 0) return;
        yield* readRange(handle, Math.max(0, start - before), Math.min(size, end - before), buffer);
        before += size;
      } finally {
        await handle.close();
      }
    }
  }

  /** True when all parts are here. */
  async has(blob: Blob): Promise<boolean> {
    return (await this.parts(blob)).length === partCount(blob);
  }

  async remove(blob: Blob): Promise<void> {
    await rm(this.#folderOf(blob), { recursive: true, force: true });
  }

  /** Removes the days before the one of `oldest`. @returns how many */
  async removeBefore(oldest: Date): Promise<number> {
    const days = (await namesIn(this.#folder)).filter(
      (name) => /^\d{8}$/.test(name) && name < nameOfDay(oldest),
    );
    for (const day of days) await rm(join(this.#folder, day), { recursive: true, force: true });
    return days.length;
  }

  #folderOf({ id, day }: Blob): string {
    return join(this.#folder, nameOfDay(day), id);
  }
}

const partCount = ({ size }: Blob): number => Math.ceil(size / PART_BYTES);

const partSize = (blob: Blob, n: number): number => Math.min(PART_BYTES, blob.size - (n - 1) * PART_BYTES);

const nameOfDay = (day: Date): string => day.toISOString().slice(0, 10).replaceAll('-', '');

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** Writes what arrives, at most what is expected, and leaves it on the disk. */
async function writeDraft(
  path: string,
  bytes: AsyncIterable<Uint8Array>,
  expected: { n: number; size: number; sha256: string },
): Promise<void> {
  const { n, size, sha256 } = expected;
  const handle = await open(path, 'wx', 0o600);
  try {
    const hash: Hash = createHash('sha256');
    let arrived = 0;
    for await (const chunk of bytes) {
      arrived += chunk.byteLength;
      if (arrived > size) throw new PartRefusal('tooLong', `part ${n} has more than its ${size} bytes`);
      hash.update(chunk);
      await writeAll(handle, chunk);
    }
    if (arrived < size) throw new PartRefusal('damaged', `part ${n} has ${arrived} of its ${size} bytes`);
    if (hash.digest('hex') !== sha256) {
      throw new PartRefusal('damaged', `part ${n} arrived damaged: its SHA-256 is another one`);
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function writeAll(handle: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let written = 0; written < chunk.byteLength;) {
    written += (await handle.write(chunk, written)).bytesWritten;
  }
}

async function keep(draft: string, path: string): Promise<void> {
  try {
    await link(draft, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

async function* readRange(
  handle: FileHandle,
  start: number,
  end: number,
  shared?: Buffer,
): AsyncGenerator<Buffer> {
  for (let at = start; at < end;) {
    const length = Math.min(CHUNK_BYTES, end - at);
    const buffer = shared ?? Buffer.allocUnsafe(length);
    const { bytesRead } = await handle.read({ buffer, length, position: at });
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
    at += bytesRead;
  }
}

/** The folder and its day, both entered on the disk. */
async function makeFolder(folder: string): Promise<void> {
  if (await isFolder(folder)) return;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await syncFolder(dirname(folder));
  await syncFolder(dirname(dirname(folder)));
}

async function isFolder(path: string): Promise<boolean> {
  const found: Stats | undefined = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true;
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
