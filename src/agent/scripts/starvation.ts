import { monoMs } from '../../kit/clock.ts';

const TICK_MS = 100;
/** Lateness that a busy but healthy machine shows. */
const NOISE_MS = 50;
/** A stretch in which this process stood still for so long says little about anybody else's time. */
const STARVED_SHARE = 0.2;

/**
 * Whether this machine gave its processes the time that they needed, told for any stretch. Watched from
 * the agent's own event loop: what keeps it waiting (too few processors, a throttled control group, a
 * machine that was suspended) keeps a script waiting too.
 */
export class Starvation {
  #watching = 0;
  #timer: NodeJS.Timeout | undefined;
  #expectedMs = 0;
  #lateMs = 0;
  #longestMs = 0;

  /** Call the returned function once, at the end of the stretch. */
  measure(): () => { isStarved: boolean; longestMs: number } {
    if (this.#watching++ === 0) this.#start();
    const startedMs = monoMs();
    const before = this.#lateMs;
    return () => {
      this.#look();
      if (--this.#watching === 0) clearInterval(this.#timer);
      const isStarved = this.#lateMs - before >= STARVED_SHARE * (monoMs() - startedMs);
      return { isStarved, longestMs: this.#longestMs };
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
