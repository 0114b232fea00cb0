import { monoMs, wallMs } from '../../kit/clock.ts';
import type { Load } from '../sandbox/index.ts';

const TICK_MS = 500;
/** Lateness that a busy but healthy machine shows. */
const NOISE_MS = 50;
/** As for scripts: who waited for so much of its time was measured, and not its target. */
const WAITED_SHARE = 0.5;
/** The agent itself stood still: a throttled control group, a machine that was suspended. */
const STOOD_STILL_SHARE = 0.2;
/** A job that has so much of the machine waits for itself: tests that compute beside one another. */
const OWN_SHARE = 0.5;

/** Below that, chance decides. */
const LEAST_MS = 2_000;

interface Tick {
  fromMs: number;
  toMs: number;
  waitedMs: number;
  stoodStillMs: number;
}

/**
 * Whether others kept the processors from a job, told for any stretch of its time. A suite is many processes,
 * so what counts is which part of the time that they wanted a processor they waited for one.
 */
export class Shortage {
  readonly #processors: number;
  readonly #ticks: Tick[] = [];
  #timer: NodeJS.Timeout | undefined;
  #before = new Map<number, Load>();
  #lookedMs = monoMs();

  /** @param processors that this machine has for the agent */
  constructor(processors: number) {
    this.#processors = processors;
  }

  watch(job: { loads(): Map<number, Load> }): void {
    this.#before = job.loads();
    this.#lookedMs = monoMs();
    this.#timer = setInterval(() => this.#look(job.loads()), TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** @param fromMs of the monotonic clock, as `toMs` */
  isStarved(fromMs: number, toMs = monoMs()): boolean {
    let [waitedMs, stoodStillMs] = [0, 0];
    for (const tick of this.#ticks) {
      const overlapMs = Math.min(toMs, tick.toMs) - Math.max(fromMs, tick.fromMs);
      const part = Math.max(0, overlapMs) / (tick.toMs - tick.fromMs);
      waitedMs += part * tick.waitedMs;
      stoodStillMs += part * tick.stoodStillMs;
    }
    const tookMs = Math.max(1, toMs - fromMs);
    return waitedMs >= WAITED_SHARE * tookMs || stoodStillMs >= STOOD_STILL_SHARE * tookMs;
  }

  /** The same for a stretch that the job itself tells of; a short one with what was around it. */
  wasStarved(fromWallMs: number, durationMs: number): boolean {
    const fromMs = fromWallMs - wallMs() + monoMs();
    const aroundMs = Math.max(0, (LEAST_MS - durationMs) / 2);
    return this.isStarved(fromMs - aroundMs, fromMs + durationMs + aroundMs);
  }

  #look(loads: Map<number, Load>): void {
    const [fromMs, toMs] = [this.#lookedMs, monoMs()];
    const tookMs = toMs - fromMs;
    if (tookMs <= 0) return;
    const lateMs = tookMs - TICK_MS;
    this.#ticks.push({
      fromMs,
      toMs,
      waitedMs: waitedMsIn(this.#before, loads, tookMs, this.#processors),
      stoodStillMs: lateMs > NOISE_MS ? lateMs : 0,
    });
    this.#before = loads;
    this.#lookedMs = toMs;
  }
}

/** Of the stretch between two looks at the same job. */
export function waitedMsIn(
  before: ReadonlyMap<number, Load>,
  now: ReadonlyMap<number, Load>,
  tookMs: number,
  processors: number,
): number {
  let [ranMs, waitedMs, cpuMs] = [0, 0, 0];
  for (const [pid, load] of now) {
    const earlier = before.get(pid);
    if (earlier === undefined) continue;
    const gained = (of: keyof Load): number => Math.max(0, load[of] - earlier[of]);
    ranMs += Math.min(tookMs, gained('ranMs'));
    waitedMs += Math.min(tookMs, gained('waitedMs'));
    cpuMs += gained('cpuMs');
  }
  const wantedMs = ranMs + waitedMs;
  if (wantedMs === 0 || cpuMs >= OWN_SHARE * processors * tookMs) return 0;
  return (waitedMs / wantedMs) * Math.min(wantedMs, tookMs);
}
