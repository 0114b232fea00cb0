import type { Kysely, Transaction } from 'kysely';
import type { JobClass } from '../checks/index.ts';
import type { RunResult, ResultReceipt, RunRef, Job, HeldRun, Timing } from '../contract/index.ts';
import type { Log } from '../kit/log.ts';
import type { BlobStore } from './blobs/index.ts';
import type { Database } from './store/schema.ts';

/** How the rooms of the service know one another. Only service/index.ts constructs them. */

export type Db = Kysely<Database>;
export type Trx = Transaction<Database>;

/**
 * Something may have changed: look again. Wake-ups are hints, may be lost or doubled, and are sent
 * outside the write transaction (NOTIFY inside it halves the commit rate). Polling is the truth.
 */
export type Topic =
  | `runs:${string}` // runs:<accountId>/<location slug>: something to claim
  | `session:${string}` // session:<check session id>: its status changed
  | `agent:${string}` // agent:<agentId>: a cancel, or its session was replaced
  | `key:${string}`; // key:<location key id>: revoked

export interface Store {
  readonly db: Db;
  readonly kind: 'postgres' | 'embedded';
  wake(topic: Topic): void;
  /** @returns stops listening */
  onWake(listener: (topic: Topic) => void): () => void;
  /** True while a trivial query answers; for /-/readiness. */
  ping(): Promise<boolean>;
  close(): Promise<void>;
}

/** What a trigger starts for one check. */
export interface NewSession {
  accountId: string;
  checkId: string;
  checkType: string;
  name: string;
  runSource:
    | 'SCHEDULER'
    | 'SCHEDULE_NOW'
    | 'TRIGGER_API'
    | 'LEGACY_TRIGGER'
    | 'TRIGGER_RECORD'
    | 'TRIGGER_NO_RECORD'
    | 'TEST_RECORD'
    | 'TEST_NO_RECORD';
  /** The test session that it belongs to, and the stored check that is tested; `checkId` is no check's then. */
  testSession?: { id: string; checkId: string | null };
  /** 0 on demand, 1 scheduled, 2 catch-up. */
  lane: 0 | 1 | 2;
  scheduledAt: Date;
  /** Tells sessions apart that were asked for in one instant; absent where the instant is unique. */
  request?: string;
  /** Where to run: one run each, or one for each of the definition's `shards`. */
  locations: string[];
  definition: Record<string, unknown>;
  /** What its runs need of an agent's machine. */
  jobClass: JobClass;
  timeoutMs: number;
}

export interface LeasedAgent {
  /** Id of the agent's row, which is not the agentId that the agent calls itself. */
  agentId: string;
  accountId: string;
  location: string;
  checkTypes: string[];
}

/** The queue: the only room that writes run, check_session, check_result and result_late, and that enters artifacts. */
export interface Queue {
  /**
   * One session with its runs. Idempotent: the same check, location, instant, source and request make the same ids.
   * With `trx` agents are not woken (nothing is committed yet); they find the runs at their next poll.
   */
  start(sessions: readonly NewSession[], trx?: Trx): Promise<{ sessionId: string; sequenceIds: string[] }[]>;
  /**
   * Offers up to `limit` runs of one class to the agent; each lease is `acceptMs` until accepted. The
   * classes are queues of their own: what waits for a browser keeps nothing light waiting.
   */
  claim(agent: LeasedAgent, jobClass: JobClass, limit: number): Promise<Job[]>;
  accept(agentId: string, runs: readonly RunRef[]): Promise<{ ok: RunRef[]; lost: RunRef[] }>;
  /** Back to the queue now. `exclude`: never offer it to this agent again. */
  decline(agentId: string, runs: readonly RunRef[], exclude: boolean): Promise<void>;
  /** A run that is to be cancelled is in `ok` (its lease goes on until its result is in) and in `cancel`. */
  renew(
    agentId: string,
    runs: readonly HeldRun[],
  ): Promise<{ ok: RunRef[]; lost: RunRef[]; cancel: RunRef[] }>;
  /** Runs that this agent holds and whose cancellation was asked for. */
  toCancel(agentId: string): Promise<RunRef[]>;
  /**
   * Gives runs back un-finished; they are due again at once. Only with `crashed` does the delivery
   * count against the run: three rolling restarts of agents must not poison it.
   */
  release(agentId: string, runs: readonly RunRef[], crashed: boolean): Promise<void>;
  /**
   * Squares the service's view with the agent's inventory at hello: runs leased to this agent that it
   * does not hold go back to the queue; runs it holds but does not own are returned to be stopped.
   */
  reconcile(agentId: string, held: readonly HeldRun[]): Promise<{ drop: RunRef[] }>;
  /** Stores a batch; each receipt is true only after its commit. Exactly one FINAL per run is counted. */
  record(
    location: { accountId: string; slug: string },
    results: readonly RunResult[],
  ): Promise<ResultReceipt[]>;
  /** Cancels what is not finished; false when the session is unknown. */
  cancelSession(accountId: string, sessionId: string, sequenceIds?: readonly string[]): Promise<boolean>;
  /** Drops queued runs of a deleted or deactivated check. */
  forgetCheck(checkId: string, trx?: Trx): Promise<void>;
  /** Reaper and expiry; runs until the signal aborts. */
  loop(signal: AbortSignal): Promise<void>;
}

export interface ServiceContext {
  store: Store;
  queue: Queue;
  /** The bytes of artifacts. */
  blobs: BlobStore;
  timing: Timing;
  log: Log;
  /** Address under which clients reach the service, for links in answers; no trailing slash. */
  publicUrl: string;
}
