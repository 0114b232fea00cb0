import { createHash } from 'node:crypto';
import { open, rm, type FileHandle } from 'node:fs/promises';
import { Refusal } from './refusal.ts';

/** A new file that is written once from its beginning to its end, hashed on the way. */
export class FileSink {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #maxBytes: number;
  readonly #hash = createHash('sha256');
  #size = 0;

  static async create(path: string, maxBytes: number): Promise<FileSink> {
    return new FileSink(path, await open(path, 'wx', 0o600), maxBytes);
  }

  constructor(path: string, file: FileHandle, maxBytes: number) {
    this.#path = path;
    this.#file = file;
    this.#maxBytes = maxBytes;
  }

  /** Bytes written so far. */
  get size(): number {
    return this.#size;
  }

  /** @throws Refusal beyond the limit: a mask may be longer than what it hides */
  async write(bytes: Buffer): Promise<void> {
    this.#size += bytes.length;
    if (this.#size > this.#maxBytes) {
      throw new Refusal(`without its secrets it has more than ${this.#maxBytes} bytes`, this.#size);
    }
    this.#hash.update(bytes);
    for (let done = 0; done < bytes.length;) {
      done += (await this.#file.write(bytes, done)).bytesWritten;
    }
  }

  /** Resolves when the file survives a crash. */
  async finish(): Promise<{ size: number; sha256: string }> {
    await this.#file.sync();
    await this.#file.close();
    return { size: this.#size, sha256: this.#hash.digest('hex') };
  }

  async discard(): Promise<void> {
    await this.#file.close().catch(() => {});
    await rm(this.#path, { force: true });
  }
}
