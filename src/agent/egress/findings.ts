import type { Refusal } from './channel.ts';
import type { BrowserFailure } from './gate-protocol.ts';

const MAX_REFUSALS = 50;
const MAX_FAILURES = 500;
const MAX_NAMES = 1_000;
const MAX_ADDRESSES = 100;

/** Code of what the policy keeps. */
export const BLOCKED = 'TARGET_BLOCKED';

export interface Found {
  latest: readonly string[];
  /** Other questions may have been answered meanwhile. */
  ever: ReadonlySet<string>;
}

/** What a gate has come to know of its process: all of it bounded, since user code decides how much. */
export class Findings {
  readonly #onRefused: (refusal: Refusal) => void;
  readonly #refusals = new Set<string>();
  readonly #names = new Map<string, Found>();
  readonly #failures = new Set<string>();
  readonly #listeners = new Set<(failure: BrowserFailure) => void>();

  constructor(onRefused: (refusal: Refusal) => void) {
    this.#onRefused = onRefused;
  }

  refused(code: string, sentence: string, by: Refusal['by']): void {
    const key = `${by} ${sentence}`;
    if (this.#refusals.has(key) || this.#refusals.size >= MAX_REFUSALS) return;
    this.#refusals.add(key);
    this.#onRefused({ code, sentence, by });
  }

  found(host: string, addresses: readonly { address: string }[]): void {
    const latest = addresses.map(({ address }) => address);
    const ever = new Set([...latest, ...(this.#names.get(host)?.ever ?? [])].slice(0, MAX_ADDRESSES));
    this.#names.delete(host);
    this.#names.set(host, { latest, ever });
    const oldest = this.#names.keys().next();
    if (this.#names.size > MAX_NAMES && oldest.done !== true) this.#names.delete(oldest.value);
  }

  /** What was found for the name; undefined when it was not asked for here. */
  addressesOf(host: string): Found | undefined {
    return this.#names.get(host);
  }

  failed(failure: BrowserFailure): void {
    const key = JSON.stringify(failure);
    if (this.#failures.has(key) || this.#failures.size >= MAX_FAILURES) return;
    this.#failures.add(key);
    for (const listener of this.#listeners) listener(failure);
  }

  /** @returns how to stop */
  onFailed(listener: (failure: BrowserFailure) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
