import type { FileHandle } from 'node:fs/promises';
import type { Pass, Scrubber } from '../scrub/index.ts';
import { contentOf, HEAD_BYTES } from './content.ts';
import type { FileSink } from './file-sink.ts';

export interface Source {
  source: FileHandle;
  size: number;
  /** Its extension counts. */
  name: string;
}

const CHUNK_BYTES = 256 * 1024;

/**
 * Copies a file without its secrets, a quarter of a megabyte at a time.
 *
 * @throws Refusal when it cannot be searched for them
 */
export async function copyScrubbed(file: Source, scrubber: Scrubber, sink: FileSink): Promise<void> {
  const { source, size, name } = file;
  const head = Buffer.alloc(HEAD_BYTES);
  await source.read(head, 0, HEAD_BYTES, 0);
  const content = scrubber.empty ? 'binary' : contentOf(head, name);
  const pass: Pass | undefined =
    content === 'binary' || content === 'archive' ? undefined : scrubber.pass({ isJson: content === 'json' });
  for await (const chunk of readRange(source, 0, size)) {
    await sink.write(pass === undefined ? chunk : pass.push(chunk));
  }
  if (pass !== undefined) await sink.write(pass.end());
}

/** The bytes of a range in chunks that are good until the next one. */
export async function* readRange(file: FileHandle, start: number, length: number): AsyncIterable<Buffer> {
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, length));
  for (let done = 0; done < length;) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, length - done), start + done);
    if (bytesRead === 0) return;
    done += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}
