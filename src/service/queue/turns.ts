import type { JobClass } from '../../checks/index.ts';
import type { Job } from '../../contract/index.ts';
import { monoMs } from '../../kit/clock.ts';
import type { LeasedAgent } from '../ports.ts';

/** Scheduled work that has waited this long gets every second place. */
const STARVED_AFTER_MS = 60_000;
/** The oldest wait of a location and class is looked up at most this often. */
const LOOK_EVERY_MS = 5_000;

type Waits = (agent: LeasedAgent, jobClass: JobClass, ms: number) => Promise<boolean>;

interface Turn {
  lookedAt: number;
  starved: boolean;
  /** Takes turns when one place is claimed at a time. */
  odd: boolean;
}

/**
 * The guard against starvation: on-demand runs go first, but not for ever. It looks only while on-demand
 * runs are being handed out at a location, since nothing else can starve the scheduled ones.
 */
export class Turns {
  readonly #waits: Waits;
  readonly #turns = new Map<string, Turn>();

  constructor(waits: Waits) {
    this.#waits = waits;
  }

  /** How many of the next `limit` places are kept for scheduled runs. */
  async reserved(agent: LeasedAgent, jobClass: JobClass, limit: number): Promise<number> {
    const turn = this.#turns.get(placeOf(agent, jobClass));
    if (turn === undefined) return 0;
    if (monoMs() - turn.lookedAt > LOOK_EVERY_MS) {
      turn.lookedAt = monoMs();
      turn.starved = await this.#waits(agent, jobClass, STARVED_AFTER_MS);
    }
    if (!turn.starved) return 0;
    turn.odd = !turn.odd;
    return turn.odd ? Math.ceil(limit / 2) : Math.floor(limit / 2);
  }

  /** Notes what was handed out in the order of the lanes. */
  took(agent: LeasedAgent, jobClass: JobClass, jobs: readonly Job[]): void {
    const place = placeOf(agent, jobClass);
    if (jobs.some(({ lane }) => lane === 0)) {
      if (!this.#turns.has(place))
        this.#turns.set(place, { lookedAt: -Infinity, starved: false, odd: false });
    } else if (this.#turns.get(place)?.starved === false) {
      this.#turns.delete(place);
    }
  }
}

const placeOf = ({ accountId, location }: LeasedAgent, jobClass: JobClass): string =>
  `${accountId}/${location}/${jobClass}`;
