import { monoMs } from '../kit/clock.ts';

/**
 * The phases of an HTTP request, in order. wait: until a socket is there; dns: name to address; tcp:
 * connection, a proxy's answer included; tls: handshake; firstByte: request sent until the first byte
 * of the answer; download: the rest. No moment belongs to two of them: together they are the total.
 */
export const HTTP_PHASES = ['wait', 'dns', 'tcp', 'tls', 'firstByte', 'download'] as const;
export type HttpPhase = (typeof HTTP_PHASES)[number];

/** Durations in ms with three decimals. */
export type TimingPhases = Record<HttpPhase | 'total', number>;

/** Moments in ms since the start; with redirects, of all requests laid end to end. */
export interface Timings {
  socket: number;
  lookup: number;
  connect: number;
  /** Absent without TLS. */
  secureConnect?: number;
  response: number;
  end: number;
}

/** Adds up how long each phase lasts. The time for which it is paused belongs to no phase. */
export class PhaseClock {
  readonly #ms: Record<HttpPhase, number> = { wait: 0, dns: 0, tcp: 0, tls: 0, firstByte: 0, download: 0 };
  #current: HttpPhase = 'wait';
  #since = monoMs();
  #pausedMs = 0;
  #stopped = false;

  get current(): HttpPhase {
    return this.#current;
  }

  get pausedMs(): number {
    return this.#pausedMs;
  }

  enter(phase: HttpPhase): void {
    this.#settle();
    this.#current = phase;
  }

  /** Leaves the time until `work` is done out of every phase. */
  async pausedWhile<T>(work: Promise<T>): Promise<T> {
    this.#settle();
    try {
      return await work;
    } finally {
      const now = monoMs();
      this.#pausedMs += now - this.#since;
      this.#since = now;
    }
  }

  /** Ends the current phase; nothing is counted afterwards. */
  stop(): void {
    this.#settle();
    this.#stopped = true;
  }

  phases(): TimingPhases {
    if (!this.#stopped) this.#settle();
    const at = this.#moments();
    const span = (index: number): number => ((at[index] ?? 0) - (at[index - 1] ?? 0)) / 1000;
    return {
      wait: span(0),
      dns: span(1),
      tcp: span(2),
      tls: span(3),
      firstByte: span(4),
      download: span(5),
      total: (at[5] ?? 0) / 1000,
    };
  }

  timings(): Timings {
    const [socket = 0, lookup = 0, connect = 0, secureConnect = 0, response = 0, end = 0] = this.#moments();
    return {
      socket: socket / 1000,
      lookup: lookup / 1000,
      connect: connect / 1000,
      ...(this.#ms.tls > 0 ? { secureConnect: secureConnect / 1000 } : {}),
      response: response / 1000,
      end: end / 1000,
    };
  }

  /** Ends of the phases in whole µs, so that the rounded parts still add up to the rounded total. */
  #moments(): number[] {
    let sum = 0;
    return HTTP_PHASES.map((phase) => Math.round((sum += this.#ms[phase]) * 1000));
  }

  #settle(): void {
    if (this.#stopped) return;
    const now = monoMs();
    this.#ms[this.#current] += now - this.#since;
    this.#since = now;
  }
}
