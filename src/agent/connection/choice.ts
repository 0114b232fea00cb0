import { monoMs } from '../../kit/clock.ts';
import { BROKEN, ENDED, type Closed, type LinkKind } from './link.ts';

/** Failed upgrades in a row after which sockets are taken not to pass here. */
const MAX_FAILED_OPENS = 3;
/** So many sockets that die this young do not pass either. */
const MAX_SHORT_LIVES = 2;
const SHORT_LIFE_MS = 60_000;
/** How long the long poll is used before a socket is tried again. */
const POLL_FOR_MS = 600_000;

/** Socket first; the long poll where sockets do not pass (proxies that drop or cut them). */
export class TransportChoice {
  readonly #pollForMs: number;
  #failedOpens = 0;
  #shortLives = 0;
  #pollUntilMs: number | undefined;

  constructor(pollForMs = POLL_FOR_MS) {
    this.#pollForMs = pollForMs;
  }

  get kind(): LinkKind {
    return this.#pollUntilMs === undefined ? 'socket' : 'poll';
  }
  /** Milliseconds until a socket should be tried in the background; null while sockets are used. */
  get retrySocketMs(): number | null {
    return this.#pollUntilMs === undefined ? null : Math.max(0, this.#pollUntilMs - monoMs());
  }

  /** A link could not be opened although the service was reached. */
  openFailed(kind: LinkKind): void {
    if (kind === 'poll') this.useSocket();
    else if (++this.#failedOpens >= MAX_FAILED_OPENS) this.usePoll();
  }

  /** A link ended by itself. What the service says with a code of its own is not the transport's fault. */
  ended(kind: LinkKind, closed: Closed, livedMs: number): void {
    if (kind === 'poll' || closed.code !== BROKEN || livedMs > SHORT_LIFE_MS) {
      if (closed.code !== ENDED) this.#shortLives = 0;
      return;
    }
    if (++this.#shortLives >= MAX_SHORT_LIVES) this.usePoll();
  }

  opened(kind: LinkKind): void {
    if (kind === 'socket') this.#failedOpens = 0;
  }

  usePoll(): void {
    this.#pollUntilMs = monoMs() + this.#pollForMs;
  }

  useSocket(): void {
    this.#pollUntilMs = undefined;
    this.#failedOpens = 0;
    this.#shortLives = 0;
  }
}
