import { mkdir, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { chmodSync, chownSync } from 'node:fs';
import { letJobsPass } from '../sandbox/index.ts';

const UNFINISHED = '.new';

/**
 * Makes a folder that every job may list and read. Open to everybody, below one that is not: for a job whose
 * user cannot list it the sandbox would take no user at all.
 */
export async function makeReadable(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  chmodSync(folder, 0o755);
}

/**
 * Files by name, the longest unused of which make room for others. They are the agent's own: jobs can change
 * none, and read one only where they are shown, and of which they are told.
 */
export class Shelf {
  readonly #folder: string;
  readonly #maxBytes: number;
  readonly #isShown: boolean;
  /** Files that a run uses now are not removed. */
  readonly #inUse = new Map<string, number>();
  #last = 0;

  constructor(folder: string, maxBytes: number, isShown: boolean) {
    this.#folder = folder;
    this.#maxBytes = maxBytes;
    this.#isShown = isShown;
  }

  /** Makes the folder, and removes what was left unfinished. */
  async prepare(): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    if (this.#isShown) letJobsPass(this.#folder);
    for (const name of await readdir(this.#folder)) {
      if (name.includes(UNFINISHED)) await rm(join(this.#folder, name), { force: true });
    }
  }

  /** The file's path, kept until `release`; undefined when it is not there. */
  async take(name: string): Promise<string | undefined> {
    const path = join(this.#folder, name);
    this.#inUse.set(name, (this.#inUse.get(name) ?? 0) + 1);
    const now = new Date();
    try {
      await utimes(path, now, now);
      return path;
    } catch {
      this.release(name);
      return undefined;
    }
  }

  release(name: string): void {
    const left = (this.#inUse.get(name) ?? 1) - 1;
    if (left > 0) this.#inUse.set(name, left);
    else this.#inUse.delete(name);
  }

  /** Where a new file may be written, on the same file system. */
  unfinished(name: string): string {
    return join(this.#folder, `${name}${UNFINISHED}${++this.#last}`);
  }

  /** Takes a file that is complete. */
  async put(name: string, from: string): Promise<void> {
    if (process.getuid?.() === 0) chownSync(from, 0, 0);
    chmodSync(from, this.#isShown ? 0o444 : 0o400);
    await rename(from, join(this.#folder, name));
    await this.#makeRoom(name);
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.#folder, name), { force: true });
  }

  async #makeRoom(newest: string): Promise<void> {
    const names = (await readdir(this.#folder)).filter((name) => !name.includes(UNFINISHED));
    const files = await Promise.all(
      names.map(async (name) => {
        const { size, mtimeMs } = await stat(join(this.#folder, name));
        return { name, size, mtimeMs };
      }),
    );
    let total = files.reduce((sum, { size }) => sum + size, 0);
    for (const { name, size } of files.toSorted((a, b) => a.mtimeMs - b.mtimeMs)) {
      if (total <= this.#maxBytes) return;
      if (name === newest || this.#inUse.has(name)) continue;
      await this.remove(name);
      total -= size;
    }
  }
}
