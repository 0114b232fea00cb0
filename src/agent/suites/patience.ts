import type { Job } from '../../contract/index.ts';
import { monoMs } from '../../kit/clock.ts';
import { problem, tooBusy, type Cut, type Stage } from './verdict.ts';

/** Of the whole time of a run, for what comes after the tests. */
const COLLECT_MS = 20_000;

/** A run was ended from outside its own commands. */
export class Stopped extends Error {
  readonly cut: Cut;
  constructor(cut: Cut) {
    super(cut.message);
    this.cut = cut;
  }
}

/** A limit of one piece of work, and what is to be said when it is reached. */
export interface Limit {
  ms: number;
  cut: () => Cut;
}

interface PatienceOptions {
  job: Job;
  signal: AbortSignal;
  stage: () => Stage;
  /** Whether this machine withheld the processors since then (monotonic clock). */
  isStarvedSince: (startedMs: number) => boolean;
}

/** How long a run waits for its own work: until it is cancelled, and never longer than its job may take. */
export class Patience {
  readonly #options: PatienceOptions;
  readonly #startedMs = monoMs();

  constructor(options: PatienceOptions) {
    this.#options = options;
  }

  /** For all work that is left. */
  get leftMs(): number {
    return this.#options.job.timeoutMs - COLLECT_MS - (monoMs() - this.#startedMs);
  }

  get signal(): AbortSignal {
    return this.#options.signal;
  }

  /** @throws Stopped when the run is stopped, or its time is over, before `work` is done */
  async within<T>(work: Promise<T>, limit: Limit = this.#whole()): Promise<T> {
    work.catch(() => {});
    const { signal } = this.#options;
    const nearest = limit.ms <= this.leftMs ? limit : this.#whole();
    const startedMs = monoMs();
    const done = new AbortController();
    const stopped = new Promise<never>((_resolve, reject) => {
      const onAbort = (): void =>
        reject(new Stopped(problem(this.#options.stage(), 'CANCELLED', 'the run was cancelled')));
      if (signal.aborted) return onAbort();
      signal.addEventListener('abort', onAbort, { once: true, signal: done.signal });
      const timer = setTimeout(
        () => reject(new Stopped(this.#fair(nearest.cut(), startedMs))),
        Math.max(0, nearest.ms),
      );
      done.signal.addEventListener('abort', () => clearTimeout(timer));
    });
    try {
      return await Promise.race([work, stopped]);
    } finally {
      done.abort();
    }
  }

  #whole(): Limit {
    const { job, stage } = this.#options;
    const message = `the run was not finished within ${job.timeoutMs / 1000} s`;
    return { ms: this.leftMs, cut: () => problem(stage(), 'TIME_LIMIT', message) };
  }

  /** A time that ran out proves nothing when this machine had other things to do. */
  #fair(cut: Cut, startedMs: number): Cut {
    return this.#options.isStarvedSince(startedMs) ? tooBusy(cut.stage) : cut;
  }
}
