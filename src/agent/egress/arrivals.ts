import type { Socket } from 'node:net';

/** A connection that has said nothing: it leads nowhere yet. */
export interface Arrival {
  readonly socket: Socket;
  readonly port: number;
  /** Aborts when its owner has given it up. */
  readonly gone: AbortSignal;
  /** From now on its bytes are for whoever took it. */
  hand(): Socket;
}

/** At times the question about a connection is read before the connection is seen. */
const WAIT_MS = 5_000;

/** Connections that wait to be told where they lead, by the port that they come from. */
export class Arrivals {
  readonly #here = new Map<number, Arrival>();
  readonly #awaited = new Map<number, (arrival: Arrival) => void>();

  add(arrival: Arrival): void {
    const waiting = this.#awaited.get(arrival.port);
    if (waiting !== undefined) return waiting(arrival);
    this.#here.set(arrival.port, arrival);
    arrival.gone.addEventListener('abort', () => this.remove(arrival), { once: true });
  }

  /** @returns false when it was taken before */
  remove(arrival: Arrival): boolean {
    return this.#here.get(arrival.port) === arrival && this.#here.delete(arrival.port);
  }

  /** Resolves with null when none comes from there. */
  take(port: number): Promise<Arrival | null> {
    const here = this.#here.get(port);
    if (here !== undefined) {
      this.remove(here);
      return Promise.resolve(here);
    }
    if (this.#awaited.has(port)) return Promise.resolve(null);
    return new Promise((resolve) => {
      const settle = (arrival: Arrival | null): void => {
        clearTimeout(timer);
        this.#awaited.delete(port);
        resolve(arrival);
      };
      const timer = setTimeout(() => settle(null), WAIT_MS);
      this.#awaited.set(port, settle);
    });
  }
}
