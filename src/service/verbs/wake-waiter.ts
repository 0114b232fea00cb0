import { sleep } from '../../kit/clock.ts';
import type { Topic } from '../ports.ts';
import type { Caller } from './caller.ts';

/** Wake-ups may be lost, so that whoever waits looks this often anyway. */
const POLL_MS = 1000;

/** Remembers a wake-up of a check session that comes between two waits, so that none is slept through. */
export class WakeWaiter {
  #controller = new AbortController();
  readonly stop: () => void;

  constructor({ store }: Caller, sessionIds: readonly string[]) {
    const topics = new Set<Topic>(sessionIds.map((id) => `session:${id.toLowerCase()}` as const));
    this.stop = store.onWake((topic) => {
      if (topics.has(topic)) this.#controller.abort();
    });
  }

  /** Until a wake-up, the signal, or so long; a second at most. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    const either = AbortSignal.any([signal, this.#controller.signal]);
    await sleep(Math.min(ms, POLL_MS), either).catch(() => undefined);
    this.#controller = new AbortController();
  }
}
