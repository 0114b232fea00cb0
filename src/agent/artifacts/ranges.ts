import type { FileHandle } from 'node:fs/promises';

const CHUNK_BYTES = 1024 * 1024;

/** The bytes of a range in chunks that are good until the next one. */
export async function* readRange(
  file: FileHandle,
  start: number,
  length: number,
  chunkBytes = CHUNK_BYTES,
): AsyncIterable<Buffer> {
  const buffer = Buffer.allocUnsafe(Math.min(chunkBytes, length));
  for (let done = 0; done < length;) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, length - done), start + done);
    if (bytesRead === 0) return;
    done += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}
