import type { JobClass } from '../../checks/index.ts';
import { monoMs, wallMs } from '../../kit/clock.ts';
import { CloseCode, type FromAgent, type Job, type ProtocolRange } from '../../contract/index.ts';
import { isOlder } from '../../kit/version.ts';
import type { LeasedAgent, ServiceContext } from '../ports.ts';
import { agents, type KeyHolder } from '../store/index.ts';
import { encode, type Carrier } from './carrier.ts';
import { Credit } from './credit.ts';
import type { AgentMetrics } from './metrics.ts';
import type { Presence } from './presence.ts';

/** Whom the service takes. */
export interface Terms {
  protocol: ProtocolRange;
  /** Agents of older versions get no work. */
  minAgentVersion: string | undefined;
}

/** What all sessions of the process share. */
export interface SessionHouse {
  context: ServiceContext;
  terms: Terms;
  presence: Presence;
  metrics: AgentMetrics;
  /** There is something to offer to, at `<accountId>/<slug>`. */
  wanted(place: string): void;
  /** Called once, when the session has ended; with `elsewhere` it may go on in another replica. */
  left(session: AgentSession, elsewhere: boolean): void;
}

/** Who the session is with, as its row says. */
export interface SessionIdentity {
  sid: string;
  agentId: string;
  epoch: number;
  version: string;
  checkTypes: string[];
  slots: number;
  holder: KeyHolder;
}

type After<T extends FromAgent['t']> = Extract<FromAgent, { t: T }>;

/** Reasons that hold for this agent and run for ever: it is not offered to this agent again. */
const EXCLUDING: ReadonlySet<string> = new Set(['unsupported', 'unreadable']);

/** One agent from its hello to its end, whatever carries it. */
export class AgentSession {
  readonly sid: string;
  readonly agentId: string;
  readonly epoch: number;
  readonly slots: number;
  readonly holder: KeyHolder;
  readonly carrier: Carrier;
  /** `<accountId>/<slug>`, as in the topic of its wake-ups. */
  readonly place: string;
  readonly leased: LeasedAgent;
  /** Equal for agents that can run the same types. */
  readonly skills: string;
  readonly #house: SessionHouse;
  readonly #credit: Credit;
  /** Why it gets no more work, and is closed once it has none; undefined for most. */
  readonly #outdated: string | undefined;
  #draining = false;
  #ended = false;
  #renewedAt = monoMs();

  constructor(house: SessionHouse, identity: SessionIdentity, carrier: Carrier) {
    this.#house = house;
    this.carrier = carrier;
    const { holder, checkTypes } = identity;
    ({ sid: this.sid, agentId: this.agentId, epoch: this.epoch, slots: this.slots } = identity);
    this.holder = holder;
    this.#credit = new Credit(this.slots);
    this.#outdated = tooOld(house.terms, identity.version);
    this.place = `${holder.accountId}/${holder.location}`;
    this.leased = {
      agentId: this.agentId,
      accountId: holder.accountId,
      location: holder.location,
      checkTypes,
    };
    this.skills = checkTypes.toSorted().join();
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** How many jobs of a class may be offered now. */
  room(jobClass: JobClass): number {
    const { timing } = this.#house.context;
    const suspect = monoMs() - this.#renewedAt > timing.suspectMs;
    const closed = this.#ended || this.#draining || this.#outdated !== undefined;
    if (closed || suspect || !this.carrier.ready()) return 0;
    this.#credit.forgetOffers(timing.acceptMs);
    return this.#credit.room(jobClass);
  }

  /** Takes over what another process knew of this session; its room for heavy runs comes with its next word. */
  resume(free: number, draining: boolean): void {
    this.#credit.said(free);
    this.#draining = draining;
  }

  /** Notes what is about to be offered. */
  offering(jobClass: JobClass, jobs: readonly Job[]): void {
    this.#credit.offered(jobClass, jobs);
  }

  /**
   * Handles one message other than hello; answers go to the carrier.
   *
   * @throws when the store fails; the agent then asks again by its next renewal
   */
  async handle(message: Exclude<FromAgent, { t: 'hello' }>): Promise<void> {
    if (message.ep !== undefined && message.ep !== this.epoch) {
      const detail = `epoch ${message.ep} has ended, the present one is ${this.epoch}`;
      return this.carrier.send(encode('refused', { why: 'stale_epoch', detail }, message.id));
    }
    switch (message.t) {
      case 'ready':
        return this.#setFree(message.d);
      case 'accept':
        return this.#accept(message);
      case 'decline':
        return this.#decline(message);
      case 'renew':
        return this.#renew(message);
      case 'release':
        return this.#release(message);
      case 'drain':
        return this.#drain(message);
      case 'bye':
        return this.#bye();
    }
  }

  /** Tells the agent to stop runs whose cancellation was asked for. */
  async pushCancels(graceMs: number): Promise<void> {
    const runs = await this.#house.context.queue.toCancel(this.agentId);
    if (runs.length > 0 && !this.#ended) this.carrier.send(encode('cancel', { runs, graceMs }));
  }

  /** Ends the session and closes its carrier. The agent's leases stay as they are. */
  close(code: number, reason: string): void {
    this.carrier.close(code, reason);
    this.end();
  }

  dismiss(standing: Exclude<agents.Standing, 'current'>): void {
    const [code, reason] = DISMISSALS[standing];
    this.close(code, reason);
  }

  /** Ends the session whose carrier is gone, or goes on with another session. */
  end(elsewhere = false): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#house.left(this, elsewhere);
  }

  #setFree({ free, freeByClass }: After<'ready'>['d']): void {
    this.#credit.said(free, freeByClass);
    if (this.#credit.any) this.#house.wanted(this.place);
  }

  async #accept({ id, d }: After<'accept'>): Promise<void> {
    const { queue, timing } = this.#house.context;
    const { ok, lost } = await queue.accept(this.agentId, d.runs);
    this.#credit.accepted(d.runs, ok);
    this.#count('accepted', ok.length);
    if (lost.length === 0) return;
    this.#count('lost', lost.length);
    const why = 'accepted too late, or cancelled';
    const kept = ok.map((run) => ({ ...run, leaseMs: timing.leaseMs }));
    this.carrier.send(
      encode('lease', { ok: kept, lost: lost.map((run) => ({ ...run, why })), cancel: [] }, id),
    );
  }

  async #decline({ d }: After<'decline'>): Promise<void> {
    for (const run of d.runs) {
      this.#count(run.reason, 1);
      if (!EXCLUDING.has(run.reason)) this.#credit.overestimated(run);
    }
    this.#credit.answered(d.runs);
    const { queue } = this.#house.context;
    for (const exclude of [false, true]) {
      const runs = d.runs.filter(({ reason }) => EXCLUDING.has(reason) === exclude);
      if (runs.length > 0) await queue.decline(this.agentId, runs, exclude);
    }
    this.#house.wanted(this.place);
  }

  async #renew({ id, d }: After<'renew'>): Promise<void> {
    const t1 = wallMs();
    const { queue, timing } = this.#house.context;
    const { agentId, sid, epoch } = this;
    const free = Math.min(d.free, this.slots);
    const { location } = this.holder;
    const standing = await this.#house.presence.see({ id: agentId, sid, epoch, free, location });
    if (standing !== 'current') return this.dismiss(standing);
    this.#renewedAt = monoMs();
    this.#house.presence.used(this.holder);
    const { ok, lost, cancel } = await queue.renew(agentId, d.running);
    const lease = {
      ok: ok.map((run) => ({ ...run, leaseMs: timing.leaseMs })),
      lost: lost.map((run) => ({ ...run, why: 'the lease has ended' })),
      cancel,
      clock: { t0: d.clock.t0, t1, t2: wallMs() },
    };
    this.#count('lost', lost.length);
    this.carrier.send(encode('lease', lease, id));
    const busy = d.running.some(({ phase }) => phase === 'running');
    if (this.#outdated !== undefined && !busy) return this.close(CloseCode.upgradeRequired, this.#outdated);
    this.#setFree(d);
  }

  async #release({ id, d }: After<'release'>): Promise<void> {
    await this.#house.context.queue.release(this.agentId, d.runs, d.reason === 'crashed_previously');
    this.#count('released', d.runs.length);
    this.carrier.send(encode('ok', {}, id));
  }

  async #drain({ id }: After<'drain'>): Promise<void> {
    this.#draining = true;
    await agents.setDraining(this.#house.context.store.db, this.sid);
    this.carrier.send(encode('ok', {}, id));
  }

  async #bye(): Promise<void> {
    // Whatever it still held is due again: it says bye after its last result.
    await this.#house.context.queue.reconcile(this.agentId, []);
    this.close(1000, 'bye');
  }

  #count(event: string, n: number): void {
    if (n > 0) this.#house.metrics.jobs.inc({ event }, n);
  }
}

/** Why an agent of this version gets no work; undefined when it may have some. */
export function tooOld({ minAgentVersion }: Terms, version: string): string | undefined {
  if (minAgentVersion === undefined || !isOlder(version, minAgentVersion)) return undefined;
  // A socket's close has room for 120 characters, and a version may have 100.
  const shown = version.length > 30 ? `${version.slice(0, 30)}…` : version;
  return `agent ${shown} is too old for this service: upgrade it to ${minAgentVersion} or newer`;
}

/** Why a session is closed while its carrier is fine. `renamed`: its next hello has the new slug. */
export const DISMISSALS: Readonly<Record<Exclude<agents.Standing, 'current'>, readonly [number, string]>> = {
  replaced: [CloseCode.replaced, 'another instance of this agent has connected'],
  revoked: [CloseCode.badKey, 'the key of this location was revoked'],
  renamed: [CloseCode.goingAway, 'the location was renamed: connect again'],
};
