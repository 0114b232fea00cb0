import { monoMs } from '../../kit/clock.ts';

/** Runs `work` once, at the earliest of the times asked for. */
export class DueTimer {
  readonly #work: () => void;
  #timer: NodeJS.Timeout | undefined;
  #dueMs = Infinity;

  constructor(work: () => void) {
    this.#work = work;
  }

  within(ms: number): void {
    const dueMs = monoMs() + ms;
    if (dueMs >= this.#dueMs) return;
    this.cancel();
    this.#dueMs = dueMs;
    this.#timer = setTimeout(() => {
      this.cancel();
      this.#work();
    }, ms);
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#dueMs = Infinity;
  }
}
