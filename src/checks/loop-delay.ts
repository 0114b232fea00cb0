import { monoMs } from '../kit/clock.ts';

const TICK_MS = 5;
/** Timers are late by a millisecond or two in an idle process. */
const NOISE_MS = 2;
/** Longer than any try. */
const REMEMBERED_MS = 120_000;

export interface Delays {
  /** Longest single delay, ms. */
  maxMs: number;
  /** All of them together, ms: no measurement of the time can be wrong by more. */
  totalMs: number;
}

/**
 * How long the event loop of this process could not attend to sockets, told for any stretch of time.
 * A timer looks every 5 ms, only while somebody measures, and only delays are written down: thousands
 * of tries at once share one list that is short in good times. (perf_hooks has a histogram over all
 * time, which cannot say what happened during one try.)
 */
export class LoopDelay {
  #delays: { atMs: number; ms: number }[] = [];
  #measuring = 0;
  #timer: NodeJS.Timeout | undefined;
  #expectedMs = 0;

  /** Call the returned function once, at the end of the stretch. */
  measure(): () => Delays {
    if (this.#measuring++ === 0) this.#start();
    const startedMs = monoMs();
    return () => {
      const delays = this.#since(startedMs);
      if (--this.#measuring === 0) this.#stop();
      return delays;
    };
  }

  /** Like `measure`, for a stretch with parts that do not count. */
  stopwatch(): Stopwatch {
    return new Stopwatch(this);
  }

  #start(): void {
    this.#expectedMs = monoMs() + TICK_MS;
    this.#timer = setInterval(() => {
      this.#look();
      this.#expectedMs = monoMs() + TICK_MS;
    }, TICK_MS);
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#delays = [];
  }

  #look(): void {
    const now = monoMs();
    const ms = now - this.#expectedMs;
    if (ms <= NOISE_MS) return;
    this.#delays.push({ atMs: now, ms });
    const [oldest] = this.#delays;
    if (oldest && now - oldest.atMs > 2 * REMEMBERED_MS) {
      this.#delays = this.#delays.filter(({ atMs }) => now - atMs < REMEMBERED_MS);
    }
  }

  #since(startedMs: number): Delays {
    // The delay of this very moment is only written down when the timer's turn comes.
    const now = monoMs();
    const current = Math.min(now - this.#expectedMs, now - startedMs);
    const delays: Delays = { maxMs: 0, totalMs: 0 };
    if (current > NOISE_MS) add(delays, current);
    for (let index = this.#delays.length - 1; index >= 0; index--) {
      const delay = this.#delays[index];
      if (delay === undefined || delay.atMs < startedMs) break;
      add(delays, Math.min(delay.ms, delay.atMs - startedMs));
    }
    return delays;
  }
}

/** Delays of a stretch of time, without those of the parts in which something else is waited for. */
export class Stopwatch {
  readonly #loopDelay: LoopDelay;
  readonly #sum: Delays = { maxMs: 0, totalMs: 0 };
  #end: (() => Delays) | undefined;
  #stopped = false;

  constructor(loopDelay: LoopDelay) {
    this.#loopDelay = loopDelay;
    this.#end = loopDelay.measure();
  }

  async pausedWhile<T>(work: () => Promise<T>): Promise<T> {
    this.#pause();
    try {
      return await work();
    } finally {
      if (!this.#stopped) this.#end ??= this.#loopDelay.measure();
    }
  }

  stop(): Delays {
    this.#pause();
    this.#stopped = true;
    return this.#sum;
  }

  #pause(): void {
    const found = this.#end?.();
    this.#end = undefined;
    if (found === undefined) return;
    this.#sum.totalMs += found.totalMs;
    this.#sum.maxMs = Math.max(this.#sum.maxMs, found.maxMs);
  }
}

function add(delays: Delays, ms: number): void {
  // It may have begun just after the timer had looked.
  delays.totalMs += ms + TICK_MS;
  delays.maxMs = Math.max(delays.maxMs, ms);
}
