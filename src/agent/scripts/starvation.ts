import { monoMs } from '../../kit/clock.ts';
import type { Scheduling } from '../sandbox/index.ts';

const TICK_MS = 100;
/** Lateness that a busy but healthy machine shows. */
const NOISE_MS = 50;
/** A stretch in which this process stood still for so long says little about anybody else's time. */
const STOOD_STILL_SHARE = 0.2;
/** A script that could run and was not let for so much of its time was measured, and not its target. */
const WAITED_SHARE = 0.5;

/**
 * Whether this machine gave a process the time that it needed, told for any stretch. Two things show it: the
 * agent's own event loop stands still (a throttled control group, a machine that was suspended), or the
 * kernel counts that the process waited for a processor.
 */
export class Starvation {
  #watching = 0;
  #timer: NodeJS.Timeout | undefined;
  #expectedMs = 0;
  #lateMs = 0;
  #longestMs = 0;

  /** Call the returned function once, at the end of the stretch, while the process lives. */
  measure(process: { scheduling(): Scheduling }): () => { isStarved: boolean; longestMs: number } {
    if (this.#watching++ === 0) this.#start();
    const startedMs = monoMs();
    const before = this.#lateMs;
    const waitedBeforeMs = process.scheduling().waitedMs;
    return () => {
      this.#look();
      if (--this.#watching === 0) clearInterval(this.#timer);
      const tookMs = monoMs() - startedMs;
      const stoodStill = this.#lateMs - before >= STOOD_STILL_SHARE * tookMs;
      const waitedMs = process.scheduling().waitedMs - waitedBeforeMs;
      return { isStarved: stoodStill || waitedMs >= WAITED_SHARE * tookMs, longestMs: this.#longestMs };
    };
  }

  #start(): void {
    this.#longestMs = 0;
    this.#expectedMs = monoMs() + TICK_MS;
    this.#timer = setInterval(() => {
      this.#look();
      this.#expectedMs = monoMs() + TICK_MS;
    }, TICK_MS);
  }

  #look(): void {
    const lateMs = monoMs() - this.#expectedMs;
    if (lateMs < NOISE_MS) return;
    // What was counted is not counted again.
    this.#expectedMs += lateMs;
    this.#lateMs += lateMs;
    this.#longestMs = Math.max(this.#longestMs, lateMs);
  }
}
