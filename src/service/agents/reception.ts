import { monoMs, wallMs } from '../../kit/clock.ts';
import { derivedId, newId } from '../../kit/ids.ts';
import {
  CloseCode,
  commonProtocol,
  MAX_BATCH_ITEMS,
  type FromAgent,
  type HeldRun,
  type RunRef,
} from '../../contract/index.ts';
import { agents, type KeyHolder } from '../store/index.ts';
import { encode, type Carrier } from './carrier.ts';
import type { GatewayLimits } from './limits.ts';
import type { Sessions } from './registry.ts';
import { AgentSession, DISMISSALS, tooOld, type SessionHouse } from './session.ts';

type Hello = Extract<FromAgent, { t: 'hello' }>;
/** A close code and its reason. */
type Refusal = readonly [number, string];

/** A batch that an agent sends holds at most this much before compression: a quarter of what is taken. */
const RESULT_BATCH = { maxItems: MAX_BATCH_ITEMS, maxBytes: 2 * 1024 * 1024, flushMs: 1000 };

/** Turns hellos into sessions. */
export class Reception {
  readonly #house: SessionHouse;
  readonly #sessions: Sessions;
  readonly #limits: GatewayLimits;

  constructor(house: SessionHouse, sessions: Sessions, limits: GatewayLimits) {
    this.#house = house;
    this.#sessions = sessions;
    this.#limits = limits;
  }

  /**
   * Welcomes the agent on its carrier, or closes the carrier with the reason.
   *
   * @param present the session that this carrier carried so far
   * @throws when the store fails
   */
  async welcome(
    hello: Hello,
    holder: KeyHolder,
    carrier: Carrier,
    present: AgentSession | undefined,
  ): Promise<AgentSession | undefined> {
    const [started, t1] = [monoMs(), wallMs()];
    const { context, presence, metrics, terms } = this.#house;
    const protocol = commonProtocol(hello.d.protocol, terms.protocol);
    if (protocol === undefined) return this.#turnAway(carrier, ...this.#noCommonProtocol(hello));
    const refused = this.#refusal(hello, holder, present);
    if (refused !== undefined) return this.#turnAway(carrier, ...refused);
    // By location: an agent that moves to another location or account starts there with nothing.
    const agentId = derivedId(holder.locationId, hello.d.agentId);
    const sid = newId();
    const epoch = await presence.arrive(rowOf(hello, { agentId, sid, holder }));
    if (epoch === undefined) return this.#turnAway(carrier, ...DISMISSALS.revoked);
    const { slots, capabilities, running, agentVersion: version } = hello.d;
    const { checkTypes } = capabilities;
    const identity = { sid, agentId, epoch, version, slots: slots.total, checkTypes, holder };
    const session = new AgentSession(this.#house, identity, carrier);
    if (!this.enter(session, present)) return this.#turnAway(carrier, ...DISMISSALS.replaced);
    // Other replicas may carry an older session of the same agent.
    context.store.wake(`agent:${agentId}`);
    const isNew = epoch === 1 && running.length === 0;
    const drop = isNew ? [] : await this.#reconcile(session, running);
    carrier.send(
      encode(
        'welcome',
        {
          sid,
          epoch,
          protocol,
          features: [],
          location: holder.location,
          clock: { t0: hello.d.clock.t0, t1, t2: wallMs() },
          renewEveryMs: context.timing.renewEveryMs,
          leaseMs: context.timing.leaseMs,
          acceptMs: context.timing.acceptMs,
          resultBatch: RESULT_BATCH,
          minAgentVersion: terms.minAgentVersion ?? null,
          drop: drop.map((run) => ({ ...run, why: 'it is not leased to this agent' })),
        },
        hello.id,
      ),
    );
    presence.used(holder);
    metrics.hellos.inc({ outcome: 'welcome' });
    metrics.helloSeconds.observe((monoMs() - started) / 1000);
    context.log.info(
      { agentId, location: holder.location, epoch, carrier: carrier.kind, version, protocol },
      'agent connected',
    );
    return session;
  }

  /**
   * Makes the session the agent's present one here, and closes its older one.
   *
   * @param present the session that the same carrier carried so far
   * @returns false when a later hello of the same agent came before it
   */
  enter(session: AgentSession, present?: AgentSession): boolean {
    const other = this.#sessions.ofAgent(session.agentId);
    if (other !== undefined && other.epoch > session.epoch) return false;
    present?.end();
    if (other !== present) other?.dismiss('replaced');
    this.#sessions.add(session);
    this.#house.metrics.sessions.inc({ carrier: session.carrier.kind });
    return true;
  }

  async #reconcile(session: AgentSession, running: readonly HeldRun[]): Promise<RunRef[]> {
    try {
      const { drop } = await this.#house.context.queue.reconcile(session.agentId, running);
      return drop;
    } catch (error) {
      session.end();
      throw error;
    }
  }

  #noCommonProtocol({ d }: Hello): Refusal {
    const { min, max } = this.#house.terms.protocol;
    const older = d.protocol.max < min ? 'agent' : 'service';
    const ours = `this service speaks protocol ${min} to ${max}, the agent ${d.protocol.min} to ${d.protocol.max}`;
    return [CloseCode.upgradeRequired, `${ours}: upgrade the ${older}`];
  }

  #refusal({ d }: Hello, holder: KeyHolder, present: AgentSession | undefined): Refusal | undefined {
    // An agent that is busy may end what it has: its session takes care of the rest.
    const busy = d.running.some(({ phase }) => phase === 'running');
    const old = tooOld(this.#house.terms, d.agentVersion);
    if (old !== undefined && !busy) return [CloseCode.upgradeRequired, old];
    const place = `${holder.accountId}/${holder.location}`;
    if (present === undefined && this.#sessions.countAt(place) >= this.#limits.sessionsPerLocation) {
      const reason = `location ${holder.location} has ${this.#limits.sessionsPerLocation} agents, the most allowed`;
      return [CloseCode.tooMany, reason];
    }
    return undefined;
  }

  #turnAway(carrier: Carrier, code: number, reason: string): undefined {
    this.#house.metrics.hellos.inc({ outcome: String(code) });
    carrier.close(code, reason);
  }

  /** Closes the agent's session here if a later hello, anywhere, has replaced it. */
  async recheck(agentId: string): Promise<void> {
    const session = this.#sessions.ofAgent(agentId);
    if (session === undefined) return;
    const epoch = await agents.currentEpoch(this.#house.context.store.db, agentId);
    if (epoch === undefined) session.dismiss('revoked');
    else if (epoch > session.epoch) session.dismiss('replaced');
  }
}

function rowOf(
  { d }: Hello,
  { agentId, sid, holder }: { agentId: string; sid: string; holder: KeyHolder },
): agents.ArrivingAgent {
  return {
    id: agentId,
    locationId: holder.locationId,
    keyId: holder.keyId,
    instanceId: d.instanceId,
    sid,
    version: d.agentVersion,
    checkTypes: d.capabilities.checkTypes,
    slots: d.slots.total,
  };
}
