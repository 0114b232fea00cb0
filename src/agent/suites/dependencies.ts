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
  readonly folder: string;
  readonly isOff: boolean;
  readonly #shelf: Shelf;

  constructor(folder: string, { isOff, maxBytes }: { isOff: boolean; maxBytes: number }) {
    this.folder = folder;
    this.isOff = isOff;
    this.#shelf = new Shelf(folder, maxBytes);
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
      await (await openAtRest(folder, path)).close();
      // A file that a process of the job may still have open is copied, so that it is nobody else's.
      await copyFile(join(folder, path), into);
      await rm(join(folder, path));
      await this.#shelf.put(key + ENDING, into);
    } catch (error) {
      await rm(into, { force: true });
      if (!(error instanceof Refusal) && codeOf(error) !== 'ENOENT') throw error;
    }
  }
}
