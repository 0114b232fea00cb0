import type { JobClass } from '../../checks/index.ts';
import { monoMs } from '../../kit/clock.ts';
import type { RunRef } from '../../contract/index.ts';

/** An offer takes no longer than this to reach the agent, nearly always; if it does, the agent declines. */
const SEEN_AFTER_MS = 1000;

/** In the order in which an agent's places are filled: light runs wait for nobody. */
export const CLASSES: readonly JobClass[] = ['light', 'script', 'browser', 'suite'];

/** Agents that do not know suites have no room for them. */
interface HeavyRoom {
  script: number;
  browser: number;
  suite?: number | undefined;
}

/**
 * How many runs of each class an agent has room for: what it said last minus what was offered since and
 * not yet answered. The agent's word is absolute and comes with each renewal, so a wrong count heals
 * within one. An agent that says nothing of heavy runs has no room for any.
 */
export class Credit {
  readonly #slots: number;
  readonly #free: Record<JobClass, number> = { light: 0, script: 0, browser: 0, suite: 0 };
  /** Offered and not answered, with the time of the offer, monotonic ms. */
  readonly #unanswered = new Map<string, { jobClass: JobClass; at: number }>();

  constructor(slots: number) {
    this.#slots = slots;
  }

  room(jobClass: JobClass): number {
    const offered = [...this.#unanswered.values()].filter((offer) => offer.jobClass === jobClass);
    return Math.max(0, this.#free[jobClass] - offered.length);
  }

  /** The agent's own word. It had seen by then what was offered a while ago. */
  said(light: number, heavy: HeavyRoom = { script: 0, browser: 0 }): void {
    for (const jobClass of CLASSES) {
      this.#free[jobClass] = Math.min({ light, suite: 0, ...heavy }[jobClass], this.#slots);
    }
    this.forgetOffers(SEEN_AFTER_MS);
  }

  get any(): boolean {
    return CLASSES.some((jobClass) => this.#free[jobClass] > 0);
  }

  offered(jobClass: JobClass, runs: readonly RunRef[]): void {
    const at = monoMs();
    for (const run of runs) this.#unanswered.set(keyOf(run), { jobClass, at });
  }

  /** @param asked what the agent accepted, @param ok what it got */
  accepted(asked: readonly RunRef[], ok: readonly RunRef[]): void {
    for (const run of ok) {
      const jobClass = this.#classOf(run);
      this.#free[jobClass] = Math.max(0, this.#free[jobClass] - 1);
    }
    this.answered(asked);
  }

  /** The agent has less room than it said; it says a new word when it has room again. */
  overestimated(run: RunRef): void {
    this.#free[this.#classOf(run)] = 0;
  }

  answered(runs: readonly RunRef[]): void {
    for (const run of runs) this.#unanswered.delete(keyOf(run));
  }

  forgetOffers(olderThanMs: number): void {
    const latest = monoMs() - olderThanMs;
    for (const [run, { at }] of this.#unanswered) if (at < latest) this.#unanswered.delete(run);
  }

  /** The answer to an offer may come to another replica than the one that made it. */
  #classOf(run: RunRef): JobClass {
    return this.#unanswered.get(keyOf(run))?.jobClass ?? 'light';
  }
}

const keyOf = ({ runId, token }: RunRef): string => `${runId}:${token}`;
