import { monoMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { ServiceContext } from '../ports.ts';
import { agents, type KeyHolder } from '../store/index.ts';
import { Gather } from './gather.ts';

/** Keys and locations show when they were used last to this precision. */
const TOUCH_EVERY_MS = 10_000;
const TOUCH_DELAY_MS = 50;
const PRUNE_AFTER_DAYS = 14;

/** What the store knows of agents being there, written for many agents at a time. */
export class Presence {
  readonly #context: ServiceContext;
  readonly #arrivals: Gather<agents.ArrivingAgent, number | undefined>;
  readonly #sightings: Gather<agents.SeenAgent, agents.Standing>;
  readonly #departures: Gather<string, void>;
  /** When each key was shown as used last, monotonic ms. */
  readonly #touched = new Map<string, number>();
  readonly #toTouch = new Map<string, KeyHolder>();

  constructor(context: ServiceContext, gatherMs: number) {
    const { db } = context.store;
    this.#context = context;
    this.#arrivals = new Gather(
      async (arriving) => {
        const epochs = await agents.welcomeAgents(db, arriving);
        return arriving.map(({ id }) => epochs.get(id));
      },
      ({ id }) => id,
      gatherMs,
    );
    this.#sightings = new Gather(
      async (seen) => {
        const standings = await agents.seeAgents(db, seen);
        return seen.map(({ id }) => standings.get(id) ?? 'revoked');
      },
      ({ id }) => id,
      gatherMs,
    );
    this.#departures = new Gather(
      async (sids) => {
        await agents.endSessions(db, sids);
        return sids.map(() => undefined);
      },
      (sid) => sid,
      gatherMs,
    );
  }

  /** @returns the agent's new epoch; undefined when its key is gone by now */
  async arrive(agent: agents.ArrivingAgent): Promise<number | undefined> {
    return this.#arrivals.call(agent);
  }

  async see(agent: agents.SeenAgent): Promise<agents.Standing> {
    return this.#sightings.call(agent);
  }

  /** Never throws: a session that could not be ended is cleared as silent later. */
  async depart(sid: string): Promise<void> {
    try {
      await this.#departures.call(sid);
    } catch (error) {
      this.#context.log.warn({ sid, error: messageOf(error) }, 'session end not stored');
    }
  }

  /** Notes that a key was used. Written soon, at most once per 10 s and key. */
  used(holder: KeyHolder): void {
    const now = monoMs();
    if (now - (this.#touched.get(holder.keyId) ?? -Infinity) < TOUCH_EVERY_MS) return;
    this.#touched.set(holder.keyId, now);
    this.#toTouch.set(holder.keyId, holder);
    if (this.#toTouch.size === 1) setTimeout(() => void this.#touch(), TOUCH_DELAY_MS).unref();
  }

  async #touch(): Promise<void> {
    const holders = [...this.#toTouch.values()];
    this.#toTouch.clear();
    const locations = new Set(holders.map(({ locationId }) => locationId));
    try {
      await agents.touchKeys(
        this.#context.store.db,
        holders.map(({ keyId }) => keyId),
        [...locations],
      );
    } catch (error) {
      this.#context.log.warn({ error: messageOf(error) }, 'last use of keys not stored');
    }
  }

  /** Clears what ended without saying so, here or in a process that died. */
  async sweep(): Promise<void> {
    const { db } = this.#context.store;
    await agents.clearSilentSessions(db, this.#context.timing.suspectMs * 1.5);
    const gone = await agents.pruneAgents(db, PRUNE_AFTER_DAYS);
    if (gone > 0) this.#context.log.info({ gone, days: PRUNE_AFTER_DAYS }, 'unseen agents removed');
    const old = monoMs() - TOUCH_EVERY_MS;
    for (const [keyId, at] of this.#touched) if (at < old) this.#touched.delete(keyId);
  }
}
