import type { Transform } from 'node:stream';
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import { messageOf } from '../../kit/errors.ts';
import { TargetFailure } from './failure.ts';

/** Bodies are read up to this size, encoded and decoded: 25 MB. */
export const BODY_LIMIT = 25 * 1024 * 1024;

export interface CollectedBody {
  bytes: Buffer;
  /** There was more than BODY_LIMIT. */
  truncated: boolean;
}

/** Collects a body chunk by chunk. `push` returns false when there is no use in reading on. */
export interface BodyCollector {
  push(chunk: Buffer): boolean;
  /** Bytes so far, as they came. */
  readonly received: number;
  /** @throws TargetFailure when the content is not what content-encoding says */
  finish(): Promise<CollectedBody>;
  /** Frees what is held; for a try that ends in the middle. */
  discard(): void;
}

/** The codings to undo, last applied first; empty when the body is as it is or is in an unknown coding. */
function codings(header: string | undefined): string[] {
  const names = (header ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  const known = names.filter((name) => name !== '' && name !== 'identity').toReversed();
  return known.every((name) => /^(x-)?gzip$|^deflate$|^br$|^zstd$/.test(name)) ? known : [];
}

export function bodyCollector(contentEncoding: string | undefined): BodyCollector {
  const names = codings(contentEncoding);
  return names.length === 0 ? new PlainBody() : new EncodedBody(names, contentEncoding ?? '');
}

/** So many chunks become one: a body of single bytes would cost a hundred times its size. */
const CHUNKS_MAX = 1024;

class PlainBody implements BodyCollector {
  #chunks: Buffer[] = [];
  /** Since the last time that chunks became one. */
  #loose: Buffer[] = [];
  #size = 0;
  #truncated = false;

  get received(): number {
    return this.#size;
  }

  push(chunk: Buffer): boolean {
    const room = BODY_LIMIT - this.#size;
    this.#truncated ||= chunk.length > room;
    this.#loose.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
    if (this.#loose.length === CHUNKS_MAX) this.#join();
    this.#size += Math.min(chunk.length, room);
    return !this.#truncated;
  }

  async finish(): Promise<CollectedBody> {
    const all = [...this.#chunks, ...this.#loose];
    const [first] = all;
    const bytes = all.length === 1 && first ? first : Buffer.concat(all, this.#size);
    return { bytes, truncated: this.#truncated };
  }

  discard(): void {
    this.#chunks = [];
    this.#loose = [];
  }

  #join(): void {
    this.#chunks.push(Buffer.concat(this.#loose));
    this.#loose = [];
  }
}

/** Decodes while the body arrives, so that a small body which unpacks to gigabytes stops at the limit. */
class EncodedBody implements BodyCollector {
  readonly #names: string[];
  readonly #header: string;
  readonly #plain = new PlainBody();
  readonly #decoders: Transform[] = [];
  #received = 0;
  #full = false;
  #done: Promise<void> = Promise.resolve();

  constructor(names: string[], header: string) {
    this.#names = names;
    this.#header = header;
  }

  get received(): number {
    return this.#received;
  }

  push(chunk: Buffer): boolean {
    if (chunk.length === 0) return true;
    if (this.#received === 0) this.#open(chunk);
    this.#received += chunk.length;
    if (!this.#full) this.#decoders[0]?.write(chunk);
    return !this.#full && this.#received <= BODY_LIMIT;
  }

  async finish(): Promise<CollectedBody> {
    if (this.#received > BODY_LIMIT) {
      this.#stop();
      return { ...(await this.#plain.finish()), truncated: true };
    }
    // An encoded nothing (HEAD, 304, an empty 200) is nothing.
    this.#decoders[0]?.end();
    try {
      await this.#done;
    } catch (error) {
      throw new TargetFailure(
        'BAD_CONTENT_ENCODING',
        `the body is not valid ${this.#header}, as its content-encoding says: ${messageOf(error)}`,
        false,
        { cause: error },
      );
    }
    return await this.#plain.finish();
  }

  discard(): void {
    this.#stop();
    this.#plain.discard();
  }

  #open(first: Buffer): void {
    for (const name of this.#names) this.#decoders.push(decoder(name, first));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#done = promise;
    // The failure is reported by finish(); until then nobody waits for it.
    promise.catch(() => {});
    this.#decoders.forEach((each, index) => {
      each.on('error', reject);
      const next = this.#decoders[index + 1];
      if (next) each.pipe(next);
      else {
        each.on('data', (decoded: Buffer) => {
          if (this.#plain.push(decoded)) return;
          this.#stop();
          resolve();
        });
        each.on('end', resolve);
      }
    });
  }

  #stop(): void {
    this.#full = true;
    for (const each of this.#decoders) each.destroy();
  }
}

/** @param first start of the body: some servers send "deflate" without its zlib frame */
function decoder(name: string, first: Buffer): Transform {
  switch (name) {
    case 'br':
      return createBrotliDecompress();
    case 'zstd':
      return createZstdDecompress();
    case 'deflate':
      return ((first[0] ?? 0) & 0x0f) === 8 ? createInflate() : createInflateRaw();
    default:
      return createGunzip();
  }
}
