/**
 * How busy private locations are: now, for /metrics and for whatever scales agents, and minute by
 * minute, for the interface. Hides that `current` asks the store at most once a second however
 * often it is called, that of several replicas one writes each minute, and how long samples are kept.
 * All numbers come from the store, so every replica tells the same.
 */
import { monoMs, sleep, wallMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { ServiceContext } from '../ports.ts';
import { loads, type LocationLoad } from '../store/index.ts';

/** Well below any interval at which metrics are scraped. */
const FRESH_MS = 1000;
const MINUTE_MS = 60_000;
/** The interface shows windows below 15 days. */
const KEPT_DAYS = 15;
const REMOVED_AT_ONCE = 5000;

export interface Loads {
  /** All locations, at most a second old. */
  current(): Promise<readonly LocationLoad[]>;
  /** Writes the minutes and removes old ones, until the signal aborts. */
  loop(signal: AbortSignal): Promise<void>;
}

export function createLoads({ store, log }: Pick<ServiceContext, 'store' | 'log'>): Loads {
  let asked = { at: -Infinity, answer: Promise.resolve<readonly LocationLoad[]>([]) };
  const record = async (signal: AbortSignal): Promise<void> => {
    await loads.recordSamples(store.db);
    while (!signal.aborted) {
      if ((await loads.removeSamples(store.db, KEPT_DAYS, REMOVED_AT_ONCE)) < REMOVED_AT_ONCE) return;
    }
  };
  return {
    current: async () => {
      if (monoMs() - asked.at > FRESH_MS) {
        const answer = loads.loadsNow(store.db);
        asked = { at: monoMs(), answer };
        // A failure is told to those who wait for it, not kept.
        answer.catch(() => (asked.at = -Infinity));
      }
      return asked.answer;
    },
    loop: async (signal) => {
      while (!signal.aborted) {
        await record(signal).catch((error: unknown) => {
          log.warn({ reason: messageOf(error) }, 'queue lengths not written');
        });
        // Soon after the minute has begun; replicas do not all come at once.
        const rest = MINUTE_MS - (wallMs() % MINUTE_MS);
        await sleep(rest + 3000 * Math.random(), signal).catch(() => undefined);
      }
    },
  };
}
