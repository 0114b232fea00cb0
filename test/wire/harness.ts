import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fastify, { type FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import {
  DEFAULT_TIMING,
  type Job,
  type ProtocolRange,
  type RunResult,
  type Timing,
} from '../../src/contract/index.ts';
import { derivedId, hashSecret, maskSecret, newId, newSecret } from '../../src/kit/ids.ts';
import {
  agentMetrics,
  createAgentGateway,
  type AgentGateway,
  type GatewayLimits,
} from '../../src/service/agents/index.ts';
import { openBlobs } from '../../src/service/blobs/index.ts';
import type { NewSession, Queue, ServiceContext, Store } from '../../src/service/ports.ts';
import { createQueue } from '../../src/service/queue/index.ts';
import { silentLog } from '../support/databases.ts';

/** One replica of the agents' end of the service, on a port of its own. */
export interface Replica {
  readonly url: string;
  readonly gateway: AgentGateway;
  readonly queue: Queue;
  readonly app: FastifyInstance;
  /** Value of a counter or gauge; 0 when it has none of these labels. */
  metric(name: string, labels?: Record<string, string>): Promise<number>;
  stop(): Promise<void>;
}

export async function startReplica(
  store: Store,
  options: {
    timing?: Partial<Timing>;
    limits?: Partial<GatewayLimits>;
    protocol?: ProtocolRange;
    minAgentVersion?: string;
    queue?: (queue: Queue) => Queue;
    /** Folder of artifacts, which replicas share; one of its own without. */
    blobDir?: string;
  } = {},
): Promise<Replica> {
  const timing: Timing = { ...DEFAULT_TIMING, ...options.timing };
  const own = createQueue({ store, timing, log: silentLog });
  const queue = options.queue?.(own) ?? own;
  const blobDir = options.blobDir ?? mkdtempSync(join(tmpdir(), 'vedette-blobs-'));
  const blobs = await openBlobs(`file:${blobDir}`);
  const context: ServiceContext = { store, queue, blobs, timing, log: silentLog, publicUrl: '' };
  const registry = new Registry();
  const gateway = createAgentGateway(context, {
    metrics: agentMetrics(registry),
    minAgentVersion: options.minAgentVersion,
    ...(options.protocol && { protocol: options.protocol }),
    limits: { claimEveryMs: 200, ...options.limits },
  });
  const app = fastify();
  gateway.mount(app);
  gateway.attach(app.server);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const address = app.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const stop = new AbortController();
  const loops = Promise.all([gateway.loop(stop.signal), queue.loop(stop.signal)]);
  return {
    url: `http://127.0.0.1:${port}`,
    gateway,
    queue,
    app,
    metric: async (name, labels = {}) => {
      const values = (await registry.getSingleMetric(name)?.get())?.values ?? [];
      const found = values.find((value) =>
        Object.entries(labels).every(([label, wanted]) => String(value.labels[label]) === wanted),
      );
      return found?.value ?? 0;
    },
    stop: async () => {
      stop.abort(new Error('test over'));
      await loops;
      await gateway.goAway();
      app.server.closeAllConnections();
      await app.close();
      if (options.blobDir === undefined) rmSync(blobDir, { recursive: true });
    },
  };
}

/** The queue with some of its functions replaced. */
export function changed(queue: Queue, change: Partial<Queue>): Queue {
  return new Proxy(queue, {
    get: (target, name) => {
      const value: unknown = Reflect.get(Object.hasOwn(change, name) ? change : target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** A passed result of the job. */
export function resultOf(
  { runId, token, attempt, sequenceId }: Job,
  change: Partial<RunResult> = {},
): RunResult {
  const now = new Date().toISOString();
  return {
    resultId: derivedId(sequenceId, attempt, token),
    runId,
    sequenceId,
    token,
    attempt,
    startedAt: now,
    stoppedAt: now,
    responseTimeMs: 12.5,
    errors: [],
    phases: { total: 12.5 },
    flags: {
      hasFailures: false,
      hasErrors: false,
      isDegraded: false,
      isCancelled: false,
      overMaxResponseTime: false,
    },
    statusCode: 200,
    measured: { eventLoopDelayMs: 1, resolvedAddress: '127.0.0.1' },
    detail: { apiCheckResult: { status: 200 } },
    ...change,
  };
}

/** A private location with one key, in an account of its own. */
export class Place {
  readonly store: Store;
  readonly accountId = newId();
  readonly locationId = newId();
  readonly slug = `place-${this.locationId.slice(0, 8)}`;
  readonly key = newSecret('pl');
  readonly keyId = newId();

  private constructor(store: Store) {
    this.store = store;
  }

  static async create(store: Store): Promise<Place> {
    const place = new Place(store);
    await store.db.insertInto('account').values({ id: place.accountId, name: 'test' }).execute();
    await store.db
      .insertInto('private_location')
      .values({
        id: place.locationId,
        account_id: place.accountId,
        name: 'Test',
        slug: place.slug,
        icon: 'pin',
      })
      .execute();
    await place.addKey(place.keyId, place.key);
    return place;
  }

  async addKey(id: string, key: string): Promise<void> {
    const hidden = { hash: hashSecret(key), masked: maskSecret(key) };
    await this.store.db
      .insertInto('private_location_key')
      .values({ id, location_id: this.locationId, ...hidden })
      .execute();
  }

  /** As the REST interface does it: the row first, then the hint. */
  async revoke(options = { wake: true }): Promise<void> {
    await this.store.db.deleteFrom('private_location_key').where('id', '=', this.keyId).execute();
    if (options.wake) this.store.wake(`key:${this.keyId}`);
  }

  /** Starts `count` checks here, one run each. @returns the ids of their sessions */
  async start(queue: Queue, count = 1, change: Partial<NewSession> = {}): Promise<string[]> {
    const sessions = Array.from({ length: count }, (_, index) => this.session(index, change));
    const started = await queue.start(sessions);
    this.store.wake(`runs:${this.accountId}/${this.slug}`);
    return started.map(({ sessionId }) => sessionId);
  }

  session(index: number, change: Partial<NewSession>): NewSession {
    return {
      accountId: this.accountId,
      checkId: newId(),
      checkType: 'URL',
      name: `check ${index}`,
      runSource: 'TRIGGER_API',
      lane: 0,
      scheduledAt: new Date(),
      locations: [this.slug],
      definition: { name: `check ${index}`, request: { url: 'http://127.0.0.1/' } },
      jobClass: 'light',
      timeoutMs: 30_000,
      ...change,
    };
  }

  async agentRows(): Promise<{ id: string; epoch: number; session_id: string | null; draining: boolean }[]> {
    return this.store.db
      .selectFrom('agent')
      .select(['id', 'epoch', 'session_id', 'draining'])
      .where('location_id', '=', this.locationId)
      .execute();
  }

  async runs(): Promise<{ id: number; state: number; token: number; agent_id: string | null }[]> {
    return this.store.db
      .selectFrom('run')
      .select(['id', 'state', 'token', 'agent_id'])
      .where('account_id', '=', this.accountId)
      .orderBy('id')
      .execute();
  }
}

/** Resolves with what `emitter` emits, or fails after `ms`. */
export async function within<T>(ms: number, promise: Promise<T>, what: string): Promise<T> {
  const late = new AbortController();
  const timeout = once(AbortSignal.any([late.signal, AbortSignal.timeout(ms)]), 'abort').then(() => {
    throw new Error(`${what}: not within ${ms} ms`);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    timeout.catch(() => undefined);
    late.abort();
  }
}
