import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { rm } from 'node:fs/promises';
import { GetBundle, MAX_BUNDLE_BYTES } from '../../contract/index.ts';
import { backoffMs, sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import { ExecutorFault } from '../ports.ts';
import { Shelf } from './shelf.ts';

/** The service as the fetch of an archive sees it. */
export interface BundleSource {
  /** @throws on a network fault; `take` gets the body of a 200 */
  download(
    path: string,
    take: (chunk: Buffer) => Promise<void>,
    signal: AbortSignal,
  ): Promise<{ status: number }>;
}

const TRIES = 5;

/** Archives of projects, by their hash. */
export class Bundles {
  readonly #shelf: Shelf;
  readonly #source: BundleSource;
  readonly #underWay = new Map<string, Promise<void>>();

  constructor(folder: string, maxBytes: number, source: BundleSource) {
    this.#shelf = new Shelf(folder, maxBytes, true);
    this.#source = source;
  }

  prepare(): Promise<void> {
    return this.#shelf.prepare();
  }

  /**
   * The archive's path, kept until `release`.
   *
   * @throws ExecutorFault when the service does not give it, or the reason of `signal`
   */
  async take({ sha256, size }: { sha256: string; size: number }, signal: AbortSignal): Promise<string> {
    for (;;) {
      const path = await this.#shelf.take(sha256);
      if (path !== undefined) return path;
      const underWay = this.#underWay.get(sha256);
      if (underWay !== undefined) await underWay.catch(() => {});
      else await this.#fetchOnce(sha256, size, signal);
      signal.throwIfAborted();
    }
  }

  release(sha256: string): void {
    this.#shelf.release(sha256);
  }

  async #fetchOnce(sha256: string, size: number, signal: AbortSignal): Promise<void> {
    const fetching = this.#fetch(sha256, size, signal);
    this.#underWay.set(sha256, fetching);
    try {
      await fetching;
    } finally {
      this.#underWay.delete(sha256);
    }
  }

  async #fetch(sha256: string, size: number, signal: AbortSignal): Promise<void> {
    if (size > MAX_BUNDLE_BYTES) {
      throw new ExecutorFault(
        'BUNDLE_TOO_LARGE',
        `the project's archive has ${size} bytes, more than ${MAX_BUNDLE_BYTES}`,
      );
    }
    for (let tried = 1; ; tried++) {
      const into = this.#shelf.unfinished(sha256);
      try {
        const why = await this.#download(sha256, size, into, signal);
        if (why === undefined) return await this.#shelf.put(sha256, into);
        if (tried === TRIES || why.isFinal) {
          throw new ExecutorFault(
            'BUNDLE_UNAVAILABLE',
            `the project's archive could not be fetched: ${why.message}`,
          );
        }
      } finally {
        await rm(into, { force: true });
      }
      await sleep(Math.max(100, backoffMs(tried, 500)), signal);
    }
  }

  /** @returns why it failed */
  async #download(
    sha256: string,
    size: number,
    into: string,
    signal: AbortSignal,
  ): Promise<{ message: string; isFinal: boolean } | undefined> {
    const file = await open(into, 'wx', 0o600);
    const hash = createHash('sha256');
    let bytes = 0;
    try {
      const take = async (chunk: Buffer): Promise<void> => {
        bytes += chunk.length;
        if (bytes > size) throw new Error(`it has more than the ${size} bytes that it should have`);
        hash.update(chunk);
        await file.writeFile(chunk);
      };
      const { status } = await this.#source.download(GetBundle.path.replace(':sha256', sha256), take, signal);
      if (status === 404)
        return { message: 'the service does not have it any more; upload it again', isFinal: true };
      if (status !== 200) return { message: `the service answered ${status}`, isFinal: false };
    } catch (error) {
      signal.throwIfAborted();
      return { message: messageOf(error), isFinal: false };
    } finally {
      await file.close();
    }
    if (hash.digest('hex') === sha256) return undefined;
    return { message: 'what came is not what was uploaded', isFinal: false };
  }
}
