import type { FileHandle } from 'node:fs/promises';
import type { Scrubber } from '../scrub/index.ts';
import { copyArchive } from './archive.ts';
import { contentOf, HEAD_BYTES } from './content.ts';
import type { FileSink } from './file-sink.ts';
import { readRange } from './ranges.ts';

export interface Source {
  source: FileHandle;
  size: number;
  /** Its extension counts. */
  name: string;
}

/**
 * Copies a file without its secrets.
 *
 * @throws Refusal when it cannot be searched for them, or the reason of `signal`
 */
export async function copyScrubbed(
  file: Source,
  scrubber: Scrubber,
  sink: FileSink,
  signal?: AbortSignal,
): Promise<void> {
  const { source, size, name } = file;
  const head = Buffer.alloc(HEAD_BYTES);
  const { bytesRead } = await source.read(head, 0, HEAD_BYTES, 0);
  const content = scrubber.empty ? 'binary' : contentOf(head.subarray(0, bytesRead), name);
  if (content === 'archive') {
    await copyArchive({ source, size }, scrubber, sink, signal);
  } else if (content === 'binary') {
    for await (const chunk of readRange(source, 0, size)) await sink.write(chunk);
  } else {
    const pass = scrubber.pass({ isJson: content === 'json' });
    for await (const chunk of readRange(source, 0, size)) {
      signal?.throwIfAborted();
      await sink.write(pass.push(chunk));
    }
    await sink.write(pass.end());
  }
}
