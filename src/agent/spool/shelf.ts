import { readdirSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { wallMs } from '../../kit/clock.ts';
import { codeOf } from '../../kit/errors.ts';
import type { CollectedFile } from '../ports.ts';

const FOLDER = 'artifacts';
/** The service gives an upload up that was idle for a day. */
const MAX_AGE_MS = 24 * 3_600_000;

/** A file of a result, in the data folder until the service has it. */
export interface SpooledFile {
  resultId: string;
  name: string;
  path: string;
  size: number;
  sha256: string;
  contentType: string;
}

interface Bundle {
  resultId: string;
  isFailure: boolean;
  createdMs: number;
  bytes: number;
  /** The service has the result, so that it takes the files. */
  isDue: boolean;
  files: Map<string, SpooledFile>;
}

/**
 * The files of spooled results. Changes are kept in memory and written with the next commit of the spool;
 * a file whose row a crash has lost is removed at the next start, and a row without a file when it is sent.
 */
export class Shelf {
  readonly #root: string;
  readonly #bundles = new Map<string, Bundle>();
  readonly #statements: Record<'insert' | 'due' | 'remove' | 'removeOne', StatementSync>;
  /** Changes that are not written yet, in order. */
  readonly #changes: (() => void)[] = [];
  #bytes = 0;

  constructor(db: DatabaseSync, dataDir: string) {
    this.#root = join(dataDir, FOLDER);
    this.#statements = {
      insert: db.prepare('insert or ignore into file values (?, ?, ?, ?, ?, ?, ?, ?, 0)'),
      due: db.prepare('update file set is_due = 1 where result_id = ?'),
      remove: db.prepare('delete from file where result_id = ?'),
      removeOne: db.prepare('delete from file where result_id = ? and name = ?'),
    };
    this.#load(db);
    this.#sweep();
  }

  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#bundles.size === 0;
  }

  get count(): number {
    let count = 0;
    for (const { files } of this.#bundles.values()) count += files.size;
    return count;
  }

  get hasChanges(): boolean {
    return this.#changes.length > 0;
  }

  /** Where the files of a result belong before they are given to the spool. */
  folderOf(resultId: string): string {
    return join(this.#root, resultId);
  }

  add(resultId: string, isFailure: boolean, files: readonly CollectedFile[]): void {
    if (files.length === 0) return;
    const createdMs = wallMs();
    for (const file of files) {
      const { name, path, size, sha256, contentType } = file;
      this.#keep({ resultId, name, path, size, sha256, contentType }, { isFailure, createdMs, isDue: false });
      const row = [resultId, name, basename(path), size, sha256, contentType, Number(isFailure), createdMs];
      this.#changes.push(() => this.#statements.insert.run(...row));
    }
  }

  /** The service has the result. */
  setDue(resultId: string): void {
    const bundle = this.#bundles.get(resultId);
    if (bundle === undefined) return;
    bundle.isDue = true;
    this.#changes.push(() => this.#statements.due.run(resultId));
  }

  /** Forgets the files of a result. */
  drop(resultId: string): void {
    const bundle = this.#bundles.get(resultId);
    if (bundle === undefined) return;
    this.#bundles.delete(resultId);
    this.#bytes -= bundle.bytes;
    this.#changes.push(() => this.#statements.remove.run(resultId));
    this.#erase(this.folderOf(resultId));
  }

  /** The service has this file, or will never take it. */
  dropOne({ resultId, name }: SpooledFile): void {
    const bundle = this.#bundles.get(resultId);
    const file = bundle?.files.get(name);
    if (bundle === undefined || file === undefined) return;
    if (bundle.files.size === 1) {
      this.drop(resultId);
      return;
    }
    bundle.files.delete(name);
    bundle.bytes -= file.size;
    this.#bytes -= file.size;
    this.#changes.push(() => this.#statements.removeOne.run(resultId, name));
    this.#erase(file.path);
  }

  /** What may be sent: files of failures first, older before newer. */
  *due(): Iterable<SpooledFile> {
    for (const wantFailure of [true, false]) {
      for (const { isDue, isFailure, files } of this.#bundles.values()) {
        if (isDue && isFailure === wantFailure) yield* files.values();
      }
    }
  }

  /** Results whose files nobody will take any more. */
  outdated(): string[] {
    const before = wallMs() - MAX_AGE_MS;
    return [...this.#bundles.values()].filter((b) => b.createdMs < before).map((b) => b.resultId);
  }

  /** The result whose files are missed least: the oldest that passed, else the oldest. */
  leastWanted(): { resultId: string; files: number; bytes: number } | undefined {
    const [oldest] = this.#bundles.values();
    const bundle = this.#bundles.values().find(({ isFailure }) => !isFailure) ?? oldest;
    return bundle && { resultId: bundle.resultId, files: bundle.files.size, bytes: bundle.bytes };
  }

  /** Makes the changes, in a transaction of the caller. @returns to be called once it is committed */
  write(): () => void {
    const count = this.#changes.length;
    for (const change of this.#changes) change();
    return () => void this.#changes.splice(0, count);
  }

  #keep(file: SpooledFile, about: Pick<Bundle, 'isFailure' | 'createdMs' | 'isDue'>): void {
    const { resultId, name, size } = file;
    const bundle = this.#bundles.get(resultId) ?? { resultId, bytes: 0, files: new Map(), ...about };
    bundle.files.set(name, file);
    bundle.bytes += size;
    this.#bytes += size;
    this.#bundles.set(resultId, bundle);
  }

  #erase(path: string): void {
    // What stays is swept at the next start.
    rm(path, { recursive: true, force: true }).catch(() => {});
  }

  #load(db: DatabaseSync): void {
    const rows = db.prepare(
      `select *, is_due or not exists (select 1 from result r where r.result_id = file.result_id) as due
       from file order by created_ms, result_id`,
    );
    for (const row of rows.iterate()) {
      const resultId = String(row['result_id']);
      const file = {
        resultId,
        name: String(row['name']),
        path: join(this.folderOf(resultId), String(row['copy'])),
        size: Number(row['size']),
        sha256: String(row['sha256']),
        contentType: String(row['content_type']),
      };
      this.#keep(file, {
        isFailure: Number(row['is_failure']) === 1,
        createdMs: Number(row['created_ms']),
        isDue: Number(row['due']) === 1,
      });
    }
  }

  /** Removes what a crash left between the copying of files and their commit. */
  #sweep(): void {
    for (const name of foldersIn(this.#root)) {
      if (!this.#bundles.has(name)) rmSync(join(this.#root, name), { recursive: true, force: true });
    }
  }
}

function foldersIn(root: string): string[] {
  try {
    return readdirSync(root);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}
