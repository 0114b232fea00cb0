import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { HeldRun, RunResult } from '../../contract/index.ts';
import { monoMs, wallMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import { newId } from '../../kit/ids.ts';
import type { Log } from '../../kit/log.ts';
import type { ResultSink } from '../ports.ts';
import { openDatabase } from './database.ts';
import { DueTimer } from './due-timer.ts';

/** Largest spool, bytes; at four fifths of it the agent stops taking work. */
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
  bytes: number;
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
  return new Spool(openDatabase(dataDir, log), log);
}

/** The results of this agent that the service does not have yet. */
export class Spool implements ResultSink {
  readonly #db: DatabaseSync;
  readonly #log: Log;
  readonly #statements: Record<'insert' | 'remove' | 'read' | 'bury', StatementSync>;
  /** What is on disk, without the bodies. In order of arrival. */
  readonly #saved = new Map<string, SpooledResult>();
  /** Waits for the next commit, or for the disk to work again. */
  readonly #unsaved = new Map<string, Unsaved>();
  /** Acknowledged, but not yet removed from a disk that takes no writes. */
  readonly #doomed = new Map<string, string | null>();
  readonly #listeners = new Set<() => void>();
  readonly #commits = new DueTimer(() => this.#commit());
  #lastCommitMs = 0;
  #bytes = 0;
  #dead = 0;
  #writeError: string | null = null;
  #agentId: string;

  constructor(db: DatabaseSync, log: Log) {
    this.#db = db;
    this.#log = log;
    this.#statements = {
      insert: db.prepare('insert or ignore into result values (?, ?, ?, ?, ?, ?, ?)'),
      remove: db.prepare('delete from result where result_id = ?'),
      read: db.prepare('select body from result where result_id = ?'),
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
      bytes: this.#bytes,
      dead: this.#dead,
      full: this.#bytes > QUOTA_BYTES * FULL_SHARE,
      writeError: this.#writeError,
    };
  }

  /** Gives this agent a new identity: another process uses the present one from a copy of this folder. */
  renameAgent(): string {
    this.#agentId = newId();
    this.#db.prepare('insert or replace into meta values (?, ?)').run('agent_id', this.#agentId);
    return this.#agentId;
  }

  accept(result: RunResult, lane: number): Promise<void> {
    const body = this.#textOf(result);
    const { resultId, runId, token } = result;
    const bytes = Buffer.byteLength(body);
    this.#bytes += bytes;
    return new Promise((saved) => {
      this.#unsaved.set(resultId, { resultId, runId, token, lane, createdMs: wallMs(), bytes, body, saved });
      this.#commits.within(this.#groupMs(lane));
    });
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
    const waiting = this.#unsaved.get(resultId);
    if (waiting !== undefined) return waiting.body;
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
    }
    this.#dead += rejected.size;
    this.#commits.within(rejected.size > 0 ? GROUP_MS : REMOVE_MS);
  }

  /** Writes what waits and closes the file. */
  close(): void {
    if (this.#unsaved.size + this.#doomed.size > 0) this.#commit();
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
    const { insert, remove, bury } = this.#statements;
    this.#db.exec('begin immediate');
    try {
      for (const r of batch) insert.run(r.resultId, r.runId, r.token, r.lane, r.createdMs, r.bytes, r.body);
      for (const [id, reason] of doomed) {
        if (reason !== null) bury.run(wallMs(), reason, id);
        remove.run(id);
      }
      this.#db.exec('commit');
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
