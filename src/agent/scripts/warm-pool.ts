import { backoffMs, monoMs } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import { ExecutorFault } from '../ports.ts';
import type { Runtime } from '../runtimes/index.ts';
import type { ScriptKind } from './program.ts';
import type { ScriptChild } from './script-child.ts';

/** What a process is started for: `spare`, no job yet; `job`, one that waits; `full-browser`, one that wants the whole Chromium. */
export type Purpose = 'spare' | 'job' | 'full-browser';

export interface WarmPoolOptions {
  start(kind: ScriptKind, runtime: Runtime, purpose: Purpose): Promise<ScriptChild>;
  /** Jobs of a kind at once: more spare processes than that are never of use. */
  places: Readonly<Record<ScriptKind, number>>;
  /** The runtime of most jobs; undefined while none is installed. */
  usual(): Runtime | undefined;
  /** Whether memory allows another spare process. */
  mayWarm(kind: ScriptKind): boolean;
  log: Log;
  /** A process became ready, or ended. */
  onChange(): void;
}

const KINDS: readonly ScriptKind[] = ['browser', 'multistep', 'api'];
/** As many spares are kept as jobs ran at once within this time. */
const REMEMBERED_MS = 600_000;
/** A process that does not start is tried again by the next job at the latest. */
const MAX_STARTS = 2;

/**
 * A start costs more than most jobs. It would share the processors with the job that took the spare, which is
 * over by then or waits for its target; what ends a job earlier starts the next spare earlier.
 */
const REPLACE_AFTER_MS = 1_000;

/**
 * Processes that wait, warm, for a job: the second from a job's arrival to its first line is spent before
 * it arrives. One per kind, and as many as jobs ran at once lately, up to the places. Each serves one job
 * and is replaced in the background; only the usual runtime is kept warm, others start cold.
 */
export class WarmPool {
  readonly #options: WarmPoolOptions;
  readonly #spares: Record<ScriptKind, Set<ScriptChild>> = {
    browser: new Set(),
    multistep: new Set(),
    api: new Set(),
  };
  readonly #starting: Record<ScriptKind, number> = { browser: 0, multistep: 0, api: 0 };
  readonly #ready = new WeakSet<ScriptChild>();
  readonly #peaks: Record<ScriptKind, { jobs: number; atMs: number }> = {
    browser: { jobs: 1, atMs: 0 },
    multistep: { jobs: 1, atMs: 0 },
    api: { jobs: 1, atMs: 0 },
  };
  readonly #inUse: Record<ScriptKind, number> = { browser: 0, multistep: 0, api: 0 };
  /** After processes that did not start: none is begun in the background before then. */
  readonly #pauses: Record<ScriptKind, { failures: number; untilMs: number }> = {
    browser: { failures: 0, untilMs: 0 },
    multistep: { failures: 0, untilMs: 0 },
    api: { failures: 0, untilMs: 0 },
  };
  readonly #timers = new Set<NodeJS.Timeout>();
  #isRunning = false;
  /** How often all were replaced: what began to start before is of the old kind. */
  #renewals = 0;
  /** Why the last process did not start; undefined while they do. */
  startError: string | undefined;

  constructor(options: WarmPoolOptions) {
    this.#options = options;
  }

  /** Spare processes that a job could have now, by kind. */
  get ready(): Record<ScriptKind, number> {
    const count = (kind: ScriptKind): number =>
      [...this.#spares[kind]].filter((child) => this.#ready.has(child)).length;
    return { browser: count('browser'), multistep: count('multistep'), api: count('api') };
  }

  /** Begins to keep spares. */
  start(): void {
    this.#isRunning = true;
    this.look();
  }

  /** Ends the spares. Resolves when they are gone. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    for (const timer of this.#timers) clearTimeout(timer);
    await this.renew();
  }

  /** Replaces every spare: what they were started with has changed. */
  async renew(): Promise<void> {
    this.#renewals++;
    const old = KINDS.flatMap((kind) => [...this.#spares[kind]]);
    for (const kind of KINDS) this.#spares[kind].clear();
    await Promise.all(old.map((child) => this.#discard(child)));
    this.look();
  }

  /**
   * A process that is ready for its one job; the caller discards it and then calls `gaveBack`.
   *
   * @returns undefined when `signal` aborts first
   * @throws ExecutorFault when none starts
   */
  async take(
    kind: ScriptKind,
    runtime: Runtime,
    signal: AbortSignal,
    purpose: Exclude<Purpose, 'spare'> = 'job',
  ): Promise<ScriptChild | undefined> {
    this.#noteUse(kind);
    for (let starts = 0; starts < MAX_STARTS && !signal.aborted; starts++) {
      const spare = purpose === 'job' ? this.#takeSpare(kind, runtime) : undefined;
      const child = spare ?? (await this.#startNow(kind, runtime, purpose));
      this.#lookIn(REPLACE_AFTER_MS);
      if ((await untilReady(child, signal)) && !signal.aborted) return child;
      if (!signal.aborted) this.#noteFailure(kind, child);
      await this.#discard(child);
    }
    this.gaveBack(kind);
    if (signal.aborted) return undefined;
    throw new ExecutorFault('SCRIPT_START', `the process for the script did not start: ${this.startError}`);
  }

  async #startNow(kind: ScriptKind, runtime: Runtime, purpose: Purpose): Promise<ScriptChild> {
    try {
      return await this.#options.start(kind, runtime, purpose);
    } catch (error) {
      this.gaveBack(kind);
      throw error;
    }
  }

  gaveBack(kind: ScriptKind): void {
    this.#inUse[kind]--;
    this.look();
  }

  /** Starts what is missing and ends what is too much. */
  look(): void {
    if (!this.#isRunning) return;
    const runtime = this.#options.usual();
    for (const kind of KINDS) {
      const spares = this.#spares[kind];
      const wanted = runtime === undefined ? 0 : this.#wanted(kind);
      for (const child of spares) {
        if (spares.size <= wanted && child.runtime.modules === runtime?.modules) continue;
        spares.delete(child);
        void this.#discard(child);
      }
      if (runtime === undefined || monoMs() < this.#pauses[kind].untilMs) continue;
      while (spares.size + this.#starting[kind] < wanted && this.#options.mayWarm(kind)) {
        void this.#startSpare(kind, runtime);
      }
    }
  }

  #wanted(kind: ScriptKind): number {
    const { jobs, atMs } = this.#peaks[kind];
    const lately = monoMs() - atMs < REMEMBERED_MS ? jobs : 1;
    return Math.min(lately, this.#options.places[kind]);
  }

  #noteUse(kind: ScriptKind): void {
    const jobs = ++this.#inUse[kind];
    const peak = this.#peaks[kind];
    if (jobs >= peak.jobs || monoMs() - peak.atMs > REMEMBERED_MS) {
      this.#peaks[kind] = { jobs, atMs: monoMs() };
    }
  }

  /** A ready one, or one that is further on than a new one would be. */
  #takeSpare(kind: ScriptKind, runtime: Runtime): ScriptChild | undefined {
    const fit = [...this.#spares[kind]].filter((child) => child.runtime.modules === runtime.modules);
    const found = fit.find((child) => this.#ready.has(child)) ?? fit[0];
    if (found !== undefined) this.#spares[kind].delete(found);
    return found;
  }

  async #startSpare(kind: ScriptKind, runtime: Runtime): Promise<void> {
    this.#starting[kind]++;
    const begun = this.#renewals;
    const child = await this.#options.start(kind, runtime, 'spare').catch((error: unknown) => {
      this.startError = String(error);
      return undefined;
    });
    this.#starting[kind]--;
    if (child === undefined) return this.#retryLater(kind);
    if (!this.#isRunning || begun !== this.#renewals) {
      this.look();
      return this.#discard(child);
    }
    this.#spares[kind].add(child);
    void child.ended.then(() => this.#lost(kind, child));
    if (!(await child.ready)) return this.#lost(kind, child);
    this.#pauses[kind] = { failures: 0, untilMs: 0 };
    this.startError = undefined;
    this.#ready.add(child);
    this.#options.onChange();
  }

  /** A spare ended by itself, or did not become ready. */
  async #lost(kind: ScriptKind, child: ScriptChild): Promise<void> {
    if (!this.#spares[kind].delete(child)) return;
    this.#noteFailure(kind, child);
    await this.#discard(child);
    this.#retryLater(kind);
  }

  #noteFailure(kind: ScriptKind, child: ScriptChild): void {
    this.startError = child.startError() || 'it said nothing';
    this.#options.log.error(
      { kind, pid: child.pid, detail: this.startError },
      'a script process ended before it had a job',
    );
    this.#options.onChange();
  }

  #retryLater(kind: ScriptKind): void {
    const pause = this.#pauses[kind];
    const waitMs = 250 + backoffMs(pause.failures++);
    pause.untilMs = monoMs() + waitMs;
    this.#lookIn(waitMs + 1);
  }

  #lookIn(ms: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.look();
    }, ms);
    this.#timers.add(timer);
  }

  async #discard(child: ScriptChild): Promise<void> {
    await child.discard().catch((error: unknown) => {
      this.#options.log.error(
        { pid: child.pid, detail: String(error) },
        'a script process could not be ended',
      );
    });
  }
}

function untilReady(child: ScriptChild, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const giveUp = (): void => resolve(false);
    signal.addEventListener('abort', giveUp, { once: true });
    void child.ready.then((isReady) => {
      signal.removeEventListener('abort', giveUp);
      resolve(isReady);
    });
  });
}
