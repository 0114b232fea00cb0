import { monoMs, wallMs } from '../../kit/clock.ts';
import { derivedId, newId } from '../../kit/ids.ts';
import {
  CloseCode,
  MAX_BATCH_ITEMS,
  PROTOCOL,
  type FromAgent,
  type HeldRun,
  type RunRef,
} from '../../contract/index.ts';
import { agents, type KeyHolder } from '../store/index.ts';
import { encode, type Carrier } from './carrier.ts';
import type { GatewayLimits } from './limits.ts';
import type { Sessions } from './registry.ts';
import { AgentSession, DISMISSALS, type SessionHouse } from './session.ts';

type Hello = Extract<FromAgent, { t: 'hello' }>;

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
    const refused = this.#refusal(hello, holder, present);
    if (refused !== undefined) return this.#turnAway(carrier, refused.code, refused.reason);
    const { context, presence, metrics } = this.#house;
    // By location: an agent that moves to another location or account starts there with nothing.
    const agentId = derivedId(holder.locationId, hello.d.agentId);
    const sid = newId();
    const epoch = await presence.arrive(rowOf(hello, { agentId, sid, holder }));
    if (epoch === undefined) return this.#turnAway(carrier, ...DISMISSALS.revoked);
    const { slots, capabilities, running } = hello.d;
    const identity = { sid, agentId, epoch, slots: slots.total, checkTypes: capabilities.checkTypes, holder };
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
          protocol: Math.min(hello.d.protocol.max, PROTOCOL.max),
          features: [],
          location: holder.location,
          clock: { t0: hello.d.clock.t0, t1, t2: wallMs() },
          renewEveryMs: context.timing.renewEveryMs,
          leaseMs: context.timing.leaseMs,
          acceptMs: context.timing.acceptMs,
          resultBatch: RESULT_BATCH,
          minAgentVersion: null,
          drop: drop.map((run) => ({ ...run, why: 'it is not leased to this agent' })),
        },
        hello.id,
      ),
    );
    presence.used(holder);
    metrics.hellos.inc({ outcome: 'welcome' });
    metrics.helloSeconds.observe((monoMs() - started) / 1000);
    context.log.info(
      { agentId, location: holder.location, epoch, carrier: carrier.kind, version: hello.d.agentVersion },
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

  #refusal(
    { d }: Hello,
    holder: KeyHolder,
    present: AgentSession | undefined,
  ): { code: number; reason: string } | undefined {
    const { min, max } = d.protocol;
    if (min > PROTOCOL.max || max < PROTOCOL.min || min > max) {
      const ours = `this service speaks protocol ${PROTOCOL.min} to ${PROTOCOL.max}`;
      return { code: CloseCode.upgradeRequired, reason: `${ours}, the agent ${min} to ${max}` };
    }
    const place = `${holder.accountId}/${holder.location}`;
    if (present === undefined && this.#sessions.countAt(place) >= this.#limits.sessionsPerLocation) {
      const reason = `location ${holder.location} has ${this.#limits.sessionsPerLocation} agents, the most allowed`;
      return { code: CloseCode.tooMany, reason };
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
