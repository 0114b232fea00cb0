import type { Scheduling } from '../sandbox/index.ts';

/** Below that, chance decides. */
const LEAST_MS = 100;

/** How much of the processor time that jobs could have used they did not get. */
export class Pressure {
  #before = new Map<{ scheduling(): Scheduling }, Scheduling>();

  /**
   * @param jobs the processes of the jobs under way
   * @returns since it was asked last, 0 to 1
   */
  since(jobs: Iterable<{ scheduling(): Scheduling }>): number {
    const now = new Map(Array.from(jobs, (job) => [job, job.scheduling()]));
    let [ranMs, waitedMs] = [0, 0];
    for (const [job, found] of now) {
      const before = this.#before.get(job);
      if (before === undefined) continue;
      ranMs += Math.max(0, found.ranMs - before.ranMs);
      waitedMs += Math.max(0, found.waitedMs - before.waitedMs);
    }
    this.#before = now;
    const wantedMs = ranMs + waitedMs;
    return wantedMs < LEAST_MS ? 0 : waitedMs / wantedMs;
  }
}
