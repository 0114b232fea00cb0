import { sleep, untilAborted } from '../../kit/clock.ts';

/** How long one that wants to be alone waits for the others to end. */
const WAIT_MS = 30_000;
/** How long others wait for one that is alone; afterwards they begin beside it. */
const HOLD_MS = 30_000;

/** Jobs run side by side here, and now and then one without the others. */
export class Quiet {
  #inside = 0;
  #closed: Promise<void> | undefined;
  #emptied = Promise.withResolvers<void>();

  /** Whether somebody is alone, or waits for it. */
  get isAsked(): boolean {
    return this.#closed !== undefined;
  }

  /** Runs `work` beside others: waits while one is alone, unless `signal` aborts. */
  async beside<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const aborted = untilAborted(signal);
    while (this.#closed !== undefined && !signal.aborted) await Promise.race([this.#closed, aborted]);
    return this.#within(work);
  }

  /** Runs `work` when no other does. @returns undefined when the others did not end in time, or `signal` aborts */
  async alone<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    const enough = AbortSignal.any([signal, AbortSignal.timeout(WAIT_MS)]);
    const tooLate = untilAborted(enough);
    while (this.#closed !== undefined && !enough.aborted) await Promise.race([this.#closed, tooLate]);
    if (enough.aborted) return undefined;
    const closed = Promise.withResolvers<void>();
    const open = (): void => {
      if (this.#closed === closed.promise) this.#closed = undefined;
      closed.resolve();
    };
    this.#closed = closed.promise;
    const held = new AbortController();
    try {
      while (this.#inside > 0 && !enough.aborted) await Promise.race([this.#emptied.promise, tooLate]);
      if (this.#inside > 0 || signal.aborted) return undefined;
      void sleep(HOLD_MS, held.signal).then(open, () => {});
      return await this.#within(work);
    } finally {
      held.abort();
      open();
    }
  }

  async #within<T>(work: () => Promise<T>): Promise<T> {
    this.#inside++;
    try {
      return await work();
    } finally {
      if (--this.#inside === 0) {
        this.#emptied.resolve();
        this.#emptied = Promise.withResolvers();
      }
    }
  }
}
