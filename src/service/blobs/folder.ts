import { randomUUID } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { access, link, mkdir, open, readdir, rm, stat, unlink, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf, ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import {
  assertPart,
  hashOf,
  isNameOfDay,
  nameOfDay,
  partCount,
  partNumbers,
  verified,
  type Blob,
  type BlobStore,
} from './blob.ts';

/** Bytes read at once while a blob is checked or sent. */
const CHUNK_BYTES = 256 * 1024;

/** Blobs below a folder, which replicas share. */
export class BlobFolder implements BlobStore {
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

  async parts(blob: Blob): Promise<number[]> {
    return partNumbers(blob, await namesIn(this.#folderOf(blob)));
  }

  async putPart(blob: Blob, n: number, bytes: AsyncIterable<Uint8Array>, sha256: string): Promise<void> {
    assertPart(blob, n);
    const folder = this.#folderOf(blob);
    await makeFolder(folder);
    const draft = join(folder, `${n}.${randomUUID()}.tmp`);
    try {
      await writeDraft(draft, verified(bytes, blob, n, sha256));
      await keep(draft, join(folder, String(n)));
      await syncFolder(folder);
    } finally {
      await unlink(draft).catch(() => undefined);
    }
  }

  async check(blob: Blob, sha256: string): Promise<'right' | 'incomplete' | 'wrong'> {
    if ((await this.parts(blob)).length < partCount(blob)) return 'incomplete';
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    if ((await hashOf(this.read(blob, 0, blob.size, buffer))) === sha256) return 'right';
    await this.remove(blob);
    return 'wrong';
  }

  /**
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

  async has(blob: Blob): Promise<boolean> {
    return (await this.parts(blob)).length === partCount(blob);
  }

  async remove(blob: Blob): Promise<void> {
    await rm(this.#folderOf(blob), { recursive: true, force: true });
  }

  async removeBefore(oldest: Date): Promise<number> {
    const days = (await namesIn(this.#folder)).filter(
      (name) => isNameOfDay(name) && name < nameOfDay(oldest),
    );
    for (const day of days) await rm(join(this.#folder, day), { recursive: true, force: true });
    return days.length;
  }

  #folderOf({ id, day }: Blob): string {
    return join(this.#folder, nameOfDay(day), id);
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

async function writeDraft(path: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  const handle = await open(path, 'wx', 0o600);
  try {
    for await (const chunk of bytes) await writeAll(handle, chunk);
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
