import { monoMs } from '../../kit/clock.ts';
import { hashSecret } from '../../kit/ids.ts';
import type { Store } from '../ports.ts';
import { agents, type KeyHolder } from '../store/index.ts';

const BEARER = /^Bearer +(pl_[0-9A-Za-z_]{1,200})$/i;
/** More keys than this within a second are not cached but looked up. */
const MAX_CACHED = 10_000;
/** Keys being looked up at once: whoever guesses keys must not keep the store from its work. */
const MAX_LOOKUPS = 100;

/**
 * Finds whose location key a request carries. Found keys are believed for a second, so that 5,000
 * agents that return at once ask the store once per key; unknown keys are asked for every time.
 */
export class LocationKeys {
  readonly #store: Store;
  readonly #cacheMs: number;
  readonly #found = new Map<string, { holder: Promise<KeyHolder | undefined>; until: number }>();
  #lookups = 0;

  constructor(store: Store, cacheMs: number) {
    this.#store = store;
    this.#cacheMs = cacheMs;
  }

  /**
   * @param authorization the header
   * @returns undefined for anything but a living key
   * @throws when the store fails or is asked for too many keys at once
   */
  async holderOf(authorization: string | undefined): Promise<KeyHolder | undefined> {
    const key = BEARER.exec(authorization ?? '')?.[1];
    if (key === undefined) return undefined;
    const hash = hashSecret(key);
    const id = hash.toString('base64');
    const known = this.#found.get(id);
    if (known !== undefined && known.until > monoMs()) return known.holder;
    if (this.#lookups >= MAX_LOOKUPS) throw new Error('too many keys are being looked up');
    const holder = this.#lookUp(hash);
    this.#remember(id, holder);
    return holder;
  }

  async #lookUp(hash: Buffer): Promise<KeyHolder | undefined> {
    this.#lookups += 1;
    try {
      return await agents.findKeyHolder(this.#store.db, hash);
    } finally {
      this.#lookups -= 1;
    }
  }

  /** A key may have been revoked: nothing found before now is believed. */
  forget(): void {
    this.#found.clear();
  }

  #remember(id: string, holder: Promise<KeyHolder | undefined>): void {
    if (this.#found.size >= MAX_CACHED) this.#found.clear();
    const entry = { holder, until: monoMs() + this.#cacheMs };
    this.#found.set(id, entry);
    const drop = (): void => {
      if (this.#found.get(id) === entry) this.#found.delete(id);
    };
    holder.then((found) => (found === undefined ? drop() : undefined), drop);
  }
}
