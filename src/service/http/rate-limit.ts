import { monoMs } from '../../kit/clock.ts';
import { Refusal } from '../verbs/index.ts';

const WINDOW_MS = 60_000;

/** Counts requests per account in windows of a minute. */
export class RateLimit {
  readonly #perMinute: number;
  #counts = new Map<string, number>();
  #windowEnds = 0;

  /** @param perMinute 0 sets no limit */
  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  /** @throws Refusal `tooMany` */
  count(accountId: string): void {
    if (this.#perMinute === 0) return;
    const now = monoMs();
    if (now >= this.#windowEnds) {
      this.#counts = new Map();
      this.#windowEnds = now + WINDOW_MS;
    }
    const count = (this.#counts.get(accountId) ?? 0) + 1;
    this.#counts.set(accountId, count);
    if (count <= this.#perMinute) return;
    const seconds = Math.ceil((this.#windowEnds - now) / 1000);
    throw new Refusal('tooMany', `${this.#perMinute} requests a minute are allowed; wait ${seconds} s`);
  }
}
