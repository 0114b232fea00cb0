import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Artifact, HeldRun, RunResult } from '../../contract/index.ts';
import { monoMs, wallMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import { newId } from '../../kit/ids.ts';
import type { Log } from '../../kit/log.ts';
import type { CollectedFile, ResultSink } from '../ports.ts';
import { openDatabase } from './database.ts';
import { DueTimer } from './due-timer.ts';
import { Shelf, type SpooledFile } from './shelf.ts';

/**
 * Largest spool, bytes, files included. At four fifths of it files are given up, those of passed runs
 * first; when results alone need as much the agent stops taking work.
 */
const QUOTA_BYTES = 512 * 1024 * 1024;
const FULL_SHARE = 0.8;
/** Below the 2 MiB that a batch may have, in any encoding of most texts. */
const MAX_RESULT_CHARS = 1024 * 1024;
const DEAD_KEEP_MS = 7 * 24 * 3_600_000;
const RETRY_WRITE_MS = 1000;
/** A scheduled result may wait this long for others; one on demand does not. */
const GROUP_MS = 25;
const LONGEST_GROUP_MS = 100;
/** Removals wait for the next commit, or this long: after a crash the service calls the rest duplicates. */
const REMOVE_MS = 1000;

export interface SpoolState {
  results: number;
  /** Of results and files. */
  bytes: number;
  /** Files that the service does not have yet. */
  files: number;
  /** Results that the service will never take, kept for a week. */
  dead: number;
  /** Four fifths of the quota are used. */
  full: boolean;
  /** Why the last write failed; null while writing works. */
  writeError: string | null;
}

export interface SpooledResult {
  resultId: string;
  runId: number;
  token: number;
  lane: number;
  createdMs: number;
  bytes: number;
}

interface Unsaved extends SpooledResult {
  body: string;
  saved: () => void;
}

export function openSpool(dataDir: string, log: Log): Spool {
  return new Spool(openDatabase(dataDir, log), dataDir, log);
}

/** The results of this agent that the service does not have yet. */
export class Spool implements ResultSink {
  readonly #db: DatabaseSync;
  readonly #log: Log;
  readonly #shelf: Shelf;
  readonly #statements: Record<'insert' | 'remove' | 'read' | 'rewrite' | 'bury', StatementSync>;
  /** What is on disk, without the bodies. In order of arrival. */
  readonly #saved = new Map<string, SpooledResult>();
  /** Waits for the next commit, or for the disk to work again. */
  readonly #unsaved = new Map<string, Unsaved>();
  /** Corrected texts of results that are on disk. */
  readonly #rewritten = new Map<string, string>();
  /** Acknowledged, but not yet removed from a disk that takes no writes. */
  readonly #doomed = new Map<string, string | null>();
  readonly #listeners = new Set<() => void>();
  readonly #commits = new DueTimer(() => this.#commit());
  #lastCommitMs = 0;
  #bytes = 0;
  #dead = 0;
  #writeError: string | null = null;
  #agentId: string;

  constructor(db: DatabaseSync, dataDir: string, log: Log) {
    this.#db = db;
    this.#log = log;
    this.#shelf = new Shelf(db, dataDir);
    this.#statements = {
      insert: db.prepare('insert or ignore into result values (?, ?, ?, ?, ?, ?, ?)'),
      remove: db.prepare('delete from result where result_id = ?'),
      read: db.prepare('select body from result where result_id = ?'),
      rewrite: db.prepare('update result set body = ? where result_id = ?'),
      bury: db.prepare(
        `insert or replace into dead select result_id, ?, ?, body from result where result_id = ?`,
      ),
    };
    this.#load();
    this.#agentId = this.#meta('agent_id') ?? this.renameAgent();
  }

  get agentId(): string {
    return this.#agentId;
  }

  get state(): SpoolState {
    return {
      results: this.#saved.size + this.#unsaved.size,
      bytes: this.#bytes + this.#shelf.bytes,
      files: this.#shelf.count,
      dead: this.#dead,
      full: this.#isFull(),
      writeError: this.#writeError,
    };
  }

  /** Gives this agent a new identity: another process uses the present one from a copy of this folder. */
  renameAgent(): string {
    this.#agentId = newId();
    this.#db.prepare('insert or replace into meta values (?, ?)').run('agent_id', this.#agentId);
    return this.#agentId;
  }

  accept(result: RunResult, lane: number, files: readonly CollectedFile[] = []): Promise<void> {
    const body = this.#textOf(result);
    const { resultId, runId, token } = result;
    const bytes = Buffer.byteLength(body);
    this.#bytes += bytes;
    return new Promise((saved) => {
      this.#unsaved.set(resultId, { resultId, runId, token, lane, createdMs: wallMs(), bytes, body, saved });
      this.#shelf.add(resultId, result.flags.hasFailures || result.flags.hasErrors, files);
      this.#makeRoom();
      this.#commits.within(this.#groupMs(lane));
    });
  }

  /** Where the files of a result belong before they are accepted with it. */
  folderOf(resultId: string): string {
    return this.#shelf.folderOf(resultId);
  }

  /** Files whose result the service has, the most wanted first. */
  dueFiles(): Iterable<SpooledFile> {
    for (const resultId of this.#shelf.outdated()) this.#giveUp(resultId, 'they are a day old');
    return this.#shelf.due();
  }

  /** The service has this file, or will never take it. */
  settleFile(file: SpooledFile): void {
    this.#shelf.dropOne(file);
    this.#commits.within(REMOVE_MS);
  }

  /** Calls `listener` whenever there may be something new to send. @returns stops that */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Runs whose result is on disk: part of the inventory until the service has it. */
  held(): HeldRun[] {
    return Array.from(this.#saved.values(), ({ runId, token, createdMs }) => ({
      runId,
      token,
      phase: 'spooled' as const,
      startedAgoMs: Math.max(0, wallMs() - createdMs),
    }));
  }

  /** Everything to send, oldest first; on a disk that fails also what could not be written. */
  *pending(): Iterable<SpooledResult> {
    yield* this.#saved.values();
    if (this.#writeError !== null) yield* this.#unsaved.values();
  }

  /** The result as JSON text, or undefined when it is gone. */
  body(resultId: string): string | undefined {
    const waiting = this.#unsaved.get(resultId)?.body ?? this.#rewritten.get(resultId);
    if (waiting !== undefined) return waiting;
    const row = this.#statements.read.get(resultId);
    return typeof row?.['body'] === 'string' ? row['body'] : undefined;
  }

  /** The service answered for good: forget these, keeping what it will never take for a week. */
  settle(ids: readonly string[], rejected: ReadonlyMap<string, string> = new Map()): void {
    for (const id of ids) {
      const entry = this.#saved.get(id) ?? this.#unsaved.get(id);
      if (entry === undefined) continue;
      this.#bytes -= entry.bytes;
      this.#saved.delete(id);
      this.#unsaved.get(id)?.saved();
      this.#unsaved.delete(id);
      this.#doomed.set(id, rejected.get(id) ?? null);
      if (rejected.has(id)) this.#shelf.drop(id);
      else this.#shelf.setDue(id);
    }
    this.#dead += rejected.size;
    this.#commits.within(rejected.size > 0 ? GROUP_MS : REMOVE_MS);
    if (!this.#shelf.isEmpty) this.#notify();
  }

  /** Writes what waits and closes the file. */
  close(): void {
    if (this.#unsaved.size + this.#doomed.size > 0 || this.#shelf.hasChanges) this.#commit();
    this.#commits.cancel();
    this.#db.close();
  }

  /** A verdict without its detail is worth more than a result that no batch can carry. */
  #textOf(result: RunResult): string {
    const text = JSON.stringify(result);
    if (text.length <= MAX_RESULT_CHARS) return text;
    this.#log.warn(
      { runId: result.runId, chars: text.length },
      'a result is too long; its detail is left out',
    );
    const errors = result.errors.slice(0, 20).map((e) => ({ ...e, message: e.message.slice(0, 1000) }));
    return JSON.stringify({ ...result, errors, detail: {} });
  }

  #isFull(): boolean {
    return this.#bytes + this.#shelf.bytes > QUOTA_BYTES * FULL_SHARE;
  }

  /** Results are never given up for lack of room. */
  #makeRoom(): void {
    while (this.#isFull()) {
      const least = this.#shelf.leastWanted();
      if (least === undefined) return;
      this.#giveUp(least.resultId, 'the spool is full');
    }
  }

  /** A result that was not sent yet says so; of another the service finds out that its files never come. */
  #giveUp(resultId: string, why: string): void {
    this.#log.warn({ resultId, why }, 'the files of a result are given up');
    this.#shelf.drop(resultId);
    this.#commits.within(GROUP_MS);
    const body = this.body(resultId);
    if (body === undefined) return;
    const corrected = withoutFiles(body, why);
    const unsaved = this.#unsaved.get(resultId);
    if (unsaved !== undefined) unsaved.body = corrected;
    else this.#rewritten.set(resultId, corrected);
  }

  /** Commits take at most a third of the event loop, and share their fsync with what comes meanwhile. */
  #groupMs(lane: number): number {
    if (this.#writeError !== null) return RETRY_WRITE_MS;
    const least = lane === 0 ? 0 : GROUP_MS;
    return Math.max(least, Math.min(2 * this.#lastCommitMs, LONGEST_GROUP_MS));
  }

  #commit(): void {
    const startMs = monoMs();
    const batch = [...this.#unsaved.values()];
    const doomed = [...this.#doomed];
    try {
      this.#write(batch, doomed);
    } catch (error) {
      this.#failed(error);
      return;
    }
    this.#lastCommitMs = monoMs() - startMs;
    if (this.#writeError !== null) this.#log.info('the spool can be written again');
    this.#writeError = null;
    for (const [id] of doomed) this.#doomed.delete(id);
    for (const { body: _, saved, ...entry } of batch) {
      this.#unsaved.delete(entry.resultId);
      this.#saved.set(entry.resultId, entry);
      saved();
    }
    if (batch.length > 0) this.#notify();
  }

  #write(batch: readonly Unsaved[], doomed: readonly (readonly [string, string | null])[]): void {
    const { insert, remove, rewrite, bury } = this.#statements;
    this.#db.exec('begin immediate');
    try {
      for (const r of batch) insert.run(r.resultId, r.runId, r.token, r.lane, r.createdMs, r.bytes, r.body);
      for (const [id, reason] of doomed) {
        if (reason !== null) bury.run(wallMs(), reason, id);
        remove.run(id);
      }
      for (const [id, body] of this.#rewritten) rewrite.run(body, id);
      const written = this.#shelf.write();
      this.#db.exec('commit');
      written();
      this.#rewritten.clear();
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('rollback');
      throw error;
    }
  }

  /** A full or read-only disk: nothing is lost while we live, and sending goes on from memory. */
  #failed(error: unknown): void {
    if (this.#writeError === null) {
      this.#log.error({ detail: messageOf(error) }, 'the spool cannot be written; no new runs are taken');
    }
    this.#writeError = messageOf(error);
    this.#commits.within(RETRY_WRITE_MS);
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }

  #load(): void {
    this.#db.prepare('delete from dead where died_ms < ?').run(wallMs() - DEAD_KEEP_MS);
    this.#dead = Number(this.#db.prepare('select count(*) n from dead').get()?.['n'] ?? 0);
    const rows = this.#db.prepare(
      'select result_id, run_id, token, lane, created_ms, bytes from result order by created_ms, rowid',
    );
    for (const row of rows.iterate()) {
      const bytes = Number(row['bytes']);
      this.#bytes += bytes;
      this.#saved.set(String(row['result_id']), {
        resultId: String(row['result_id']),
        runId: Number(row['run_id']),
        token: Number(row['token']),
        lane: Number(row['lane']),
        createdMs: Number(row['created_ms']),
        bytes,
      });
    }
  }

  #meta(name: string): string | undefined {
    const value = this.#db.prepare('select value from meta where name = ?').get(name)?.['value'];
    return typeof value === 'string' ? value : undefined;
  }
}

function withoutFiles(body: string, why: string): string {
  const result = JSON.parse(body) as { artifacts?: Artifact[] };
  const artifacts = result.artifacts?.map((each) =>
    each.state === 'refused'
      ? each
      : { ...each, state: 'refused', sha256: null, reason: `it was given up, since ${why}` },
  );
  return JSON.stringify({ ...result, artifacts });
}
