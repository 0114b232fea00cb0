import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from '../../kit/errors.ts';
import { openAtRest, Refusal } from '../artifacts/index.ts';
import { Shelf } from './shelf.ts';

const ENDING = '.tar';

/**
 * What installations made, by what decides it. An archive is taken from a job before any of its tests has
 * run, and is the agent's own from then on: a job gets its content and never the file.
 */
export class Dependencies {
  readonly isOff: boolean;
  readonly #shelf: Shelf;

  constructor(folder: string, { isOff, maxBytes }: { isOff: boolean; maxBytes: number }) {
    this.isOff = isOff;
    this.#shelf = new Shelf(folder, maxBytes, false);
  }

  prepare(): Promise<void> {
    return this.#shelf.prepare();
  }

  /** The archive's path, kept until `release`. */
  async take(key: string): Promise<string | undefined> {
    return this.isOff ? undefined : this.#shelf.take(key + ENDING);
  }

  release(key: string): void {
    this.#shelf.release(key + ENDING);
  }

  remove(key: string): Promise<void> {
    return this.#shelf.remove(key + ENDING);
  }

  /** Takes a file out of a job's folder. A job that makes it something else loses it, and nothing more. */
  async keep(key: string, folder: string, path: string): Promise<void> {
    const into = this.#shelf.unfinished(key + ENDING);
    try {
      const file = await openAtRest(folder, path);
      try {
        // By what was opened and not by its name, which a process of the job may give to something else
        // meanwhile; and as a copy, since it may still have the file open.
        await copyFile(`/dev/fd/${file.fd}`, into);
      } finally {
        await file.close();
        // What is no file any more goes with the job.
        await rm(join(folder, path), { force: true }).catch(() => {});
      }
      await this.#shelf.put(key + ENDING, into);
    } catch (error) {
      await rm(into, { force: true });
      if (!(error instanceof Refusal) && codeOf(error) !== 'ENOENT') throw error;
    }
  }
}
