interface Sample {
  offsetMs: number;
  roundTripMs: number;
}

const KEEP = 8;

/** Service clock minus agent clock, by the sample with the shortest round trip of the last eight. */
export class ClockOffset {
  readonly #samples: Sample[] = [];

  /** @param clock t0 our sending, t1 their receipt, t2 their answer; @param t3Ms our receipt */
  add({ t0, t1, t2 }: { t0: number; t1: number; t2: number }, t3Ms: number): void {
    this.#samples.push({ offsetMs: (t1 - t0 + (t2 - t3Ms)) / 2, roundTripMs: t3Ms - t0 - (t2 - t1) });
    if (this.#samples.length > KEEP) this.#samples.shift();
  }

  /** ms, or null before the first exchange. */
  get offsetMs(): number | null {
    let best: Sample | undefined;
    for (const sample of this.#samples) {
      // Below zero: a clock was set between sending and receipt.
      if (sample.roundTripMs >= 0 && (best === undefined || sample.roundTripMs < best.roundTripMs))
        best = sample;
    }
    return best?.offsetMs ?? null;
  }
}
