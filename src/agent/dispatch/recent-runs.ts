import type { RunRef } from '../../contract/index.ts';

/** A delayed copy of an offer arrives within seconds; 4,096 runs are minutes even of a busy agent. */
const KEEP = 4096;

/** The runs that ended last here: an offer of one of them is an old copy. */
export class RecentRuns {
  readonly #keys = new Set<string>();

  add(ref: RunRef): void {
    this.#keys.add(keyOf(ref));
    if (this.#keys.size > KEEP) this.#keys.delete(this.#keys.values().next().value ?? '');
  }

  has(ref: RunRef): boolean {
    return this.#keys.has(keyOf(ref));
  }
}

const keyOf = ({ runId, token }: RunRef): string => `${runId}/${token}`;
