/**
 * The service's end of the wire: everything that agents talk to. Hides the two carriers (WebSocket and
 * long poll), which a session cannot tell apart, the sessions with their epochs and credit, how runs
 * are shared out as offers, and how result batches and artifacts come in. Keys are the only identity: a message is
 * believed for the location whose key its carrier showed. Runs and results belong to the queue; this
 * room writes the agent rows alone. Wake-ups only hurry what polling and renewals find out anyway.
 */
import type { Server } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { jitter, sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import { supervise } from '../../kit/supervise.ts';
import { CloseCode, PROTOCOL, type ProtocolRange } from '../../contract/index.ts';
import type { ServiceContext, Topic } from '../ports.ts';
import { agents } from '../store/index.ts';
import { encode } from './carrier.ts';
import { Artifacts } from './artifacts.ts';
import { Bundles } from './bundles.ts';
import { Door } from './door.ts';
import { answerError } from './http-errors.ts';
import { LocationKeys } from './keys.ts';
import { GATEWAY_LIMITS, type GatewayLimits } from './limits.ts';
import { agentMetrics, type AgentMetrics } from './metrics.ts';
import { Offers } from './offers.ts';
import { Polls } from './poll.ts';
import { Presence } from './presence.ts';
import { Reception } from './reception.ts';
import { Sessions } from './registry.ts';
import { Results } from './results.ts';
import type { AgentSession, SessionHouse } from './session.ts';
import { Sockets } from './socket.ts';

export { agentMetrics, type AgentMetrics } from './metrics.ts';
export type { GatewayLimits } from './limits.ts';

export interface AgentGateway {
  /** Adds the routes of long poll, results and artifacts. */
  mount(app: FastifyInstance): void;
  /** Takes WebSocket upgrades of the server; every other upgrade is answered 404. */
  attach(server: Server): void;
  /** Offers, wake-ups and upkeep, until the signal aborts. */
  loop(signal: AbortSignal): Promise<void>;
  /** Rolling stop: lets nobody in, sends every agent away and waits for their sockets, 2 s at most. */
  goAway(): Promise<void>;
  connectedAgents(): number;
}

export interface GatewayOptions {
  /** Where the metrics are; without, they are counted for nobody. */
  metrics?: AgentMetrics;
  /** Agents of older versions are sent away; without it all are taken. */
  minAgentVersion?: string | undefined;
  /** For tests. */
  protocol?: ProtocolRange;
  limits?: Partial<GatewayLimits>;
}

/** A cancelled run gets this long to end before it is killed. */
const CANCEL_GRACE_MS = 10_000;
const SWEEP_EVERY_MS = 30_000;
/** Agents are sent away over 10 ms each, 30 s at most: one is back at once, 3,000 do not come together. */
const AWAY_MS_EACH = 10;
const AWAY_MOST_MS = 30_000;
const AWAY_WAIT_MS = 2000;

export function createAgentGateway(context: ServiceContext, options: GatewayOptions = {}): AgentGateway {
  return new Gateway(context, options);
}

class Gateway implements AgentGateway {
  readonly #context: ServiceContext;
  readonly #limits: GatewayLimits;
  readonly #sessions = new Sessions();
  readonly #keys: LocationKeys;
  readonly #metrics: AgentMetrics;
  readonly #presence: Presence;
  readonly #offers: Offers;
  readonly #reception: Reception;
  readonly #door: Door;
  readonly #sockets: Sockets;
  readonly #polls: Polls;
  readonly #results: Results;
  readonly #artifacts: Artifacts;
  readonly #bundles: Bundles;
  readonly #departing = new Set<Promise<void>>();

  constructor(context: ServiceContext, options: GatewayOptions) {
    const { metrics, limits, protocol = PROTOCOL, minAgentVersion } = options;
    this.#context = context;
    this.#limits = { ...GATEWAY_LIMITS, ...limits };
    this.#metrics = metrics ?? agentMetrics(new Registry());
    this.#keys = new LocationKeys(context.store, this.#limits.keyCacheMs);
    this.#presence = new Presence(context, this.#limits.gatherMs);
    this.#offers = new Offers(context, this.#sessions, this.#metrics);
    const house: SessionHouse = {
      context,
      terms: { protocol, minAgentVersion },
      presence: this.#presence,
      metrics: this.#metrics,
      wanted: (place) => this.#offers.wanted(place),
      left: (session, elsewhere) => this.#left(session, elsewhere),
    };
    this.#reception = new Reception(house, this.#sessions, this.#limits);
    this.#door = new Door(this.#keys, house, this.#reception, this.#limits);
    this.#sockets = new Sockets(this.#door, this.#limits);
    this.#polls = new Polls(this.#door, this.#limits);
    this.#results = new Results(this.#door, this.#limits);
    this.#artifacts = new Artifacts(this.#door, this.#limits);
    this.#bundles = new Bundles(this.#door, this.#limits);
  }

  mount(app: FastifyInstance): void {
    // Scopes of their own: other routes keep their parsers and their error bodies.
    for (const part of [this.#polls, this.#results, this.#artifacts, this.#bundles]) {
      void app.register(async (scope) => {
        scope.setErrorHandler(answerError);
        part.mount(scope);
      });
    }
  }

  attach(server: Server): void {
    this.#sockets.attach(server);
  }

  connectedAgents(): number {
    return this.#sessions.count;
  }

  async loop(signal: AbortSignal): Promise<void> {
    const stopListening = this.#context.store.onWake((topic) => {
      this.#wake(topic).catch((error: unknown) => {
        this.#context.log.warn({ topic, error: messageOf(error) }, 'wake-up not followed');
      });
    });
    try {
      await supervise(
        [
          async (stop) => this.#offers.loop(this.#limits.claimEveryMs, stop),
          async (stop) => this.#expirePolls(stop),
          async (stop) => this.#sweep(stop),
        ],
        signal,
      );
    } finally {
      stopListening();
    }
  }

  async goAway(): Promise<void> {
    this.#door.leave();
    const sessions = this.#sessions.all();
    const spreadMs = Math.min(AWAY_MOST_MS, sessions.length * AWAY_MS_EACH);
    for (const session of sessions) {
      const retryAfterMs = Math.round(Math.random() * spreadMs);
      session.carrier.send(encode('goaway', { retryAfterMs, why: 'the service is being restarted' }));
      session.close(CloseCode.goingAway, JSON.stringify({ retryAfterMs }));
    }
    await this.#sockets.closed(AWAY_WAIT_MS);
    await Promise.all(this.#departing);
  }

  #left(session: AgentSession, elsewhere: boolean): void {
    const { sid, agentId, carrier, holder } = session;
    this.#sessions.remove(session);
    this.#metrics.sessions.dec({ carrier: carrier.kind });
    this.#context.log.info({ agentId, location: holder.location, elsewhere }, 'agent disconnected');
    if (elsewhere && this.#context.store.kind === 'postgres') return;
    const departure = this.#presence.depart(sid).finally(() => this.#departing.delete(departure));
    this.#departing.add(departure);
  }

  async #wake(topic: Topic): Promise<void> {
    const [kind, name] = [topic.slice(0, topic.indexOf(':')), topic.slice(topic.indexOf(':') + 1)];
    if (kind === 'runs') this.#offers.wanted(name);
    if (kind === 'key') await this.#recheckKey(name);
    if (kind === 'agent') {
      await this.#reception.recheck(name);
      await this.#sessions.ofAgent(name)?.pushCancels(CANCEL_GRACE_MS);
    }
  }

  async #recheckKey(keyId: string): Promise<void> {
    this.#keys.forget();
    const sessions = this.#sessions.withKey(keyId);
    if (sessions.length === 0) return;
    const slug = await agents.locationOfKey(this.#context.store.db, keyId);
    for (const session of sessions) {
      if (slug === undefined) session.dismiss('revoked');
      else if (slug !== session.holder.location) session.dismiss('renamed');
    }
  }

  async #expirePolls(signal: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(this.#limits.pollSilenceMs / 10, signal);
      this.#polls.expire();
    }
  }

  async #sweep(signal: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(jitter(SWEEP_EVERY_MS, 0.5), signal);
      try {
        await this.#presence.sweep();
      } catch (error) {
        this.#context.log.warn({ error: messageOf(error) }, 'sweep of agents failed');
      }
    }
  }
}
