import { checkTypes } from '../checks/index.ts';
import { sleep, monoMs } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { supervise } from '../kit/supervise.ts';
import { Admission, planLanes, readMachine } from './admission/index.ts';
import { ExtraAuthorities } from './authorities.ts';
import { Connection, ServiceClient, type LinkTiming } from './connection/index.ts';
import { chooseDataDir } from './data-dir.ts';
import { Dispatcher, LeaseClock } from './dispatch/index.ts';
import {
  AgentMetrics,
  startHealthServer,
  type AgentStatus,
  type HealthServer,
  type Readings,
} from './health/index.ts';
import { ProbePool } from './probes/index.ts';
import { missingWalls, requireWalls } from './sandbox/index.ts';
import type { AgentSettings } from './settings.ts';
import { openSpool, Uploader, type Spool } from './spool/index.ts';

export interface AgentOptions {
  log: Log;
  version: string;
  /** For tests: another program for the probe processes, and shorter times of the wire. */
  probeEntry?: URL;
  linkTiming?: LinkTiming;
  pollForMs?: number;
}

export interface RunningAgent {
  healthPort: number;
  agentId: string;
  /** Resolves when the agent is first ready to take work; never rejects. */
  ready: Promise<void>;
  /** Resolves when everything has ended. Rejects with what ended the agent, a FatalError for its user. */
  done: Promise<void>;
  /** Takes no more work, lets running checks finish, sends what is left and ends. Resolves with `done`. */
  drain(): Promise<void>;
  /** Gives running checks back now and ends. */
  kill(): void;
}

/** What a drain may take for sending the last results. */
const FLUSH_MS = 20_000;
const KILL_FLUSH_MS = 3_000;
const SAVE_MS = 1_000;
const READY_LOOK_MS = 50;

/**
 * Starts an agent in this process.
 *
 * @throws FatalError when it cannot start: settings that do not work here, a data folder in use
 */
export async function startAgent(settings: AgentSettings, options: AgentOptions): Promise<RunningAgent> {
  const { log } = options;
  requireWalls(settings.sandbox, log);
  const authorities =
    settings.extraCaCerts === undefined ? undefined : new ExtraAuthorities(settings.extraCaCerts);
  const spool = openSpool(chooseDataDir(settings.dataDir, log), log);
  const agent = new Agent(settings, options, spool, authorities);
  let health: HealthServer;
  try {
    health = await startHealthServer({
      host: settings.healthHost,
      port: settings.healthPort,
      status: () => agent.status(),
      metrics: () => agent.metrics.text(),
    });
  } catch (error) {
    spool.close();
    throw error;
  }
  const done = endWith(agent, health);
  done.catch(() => {});
  log.info({ version: options.version, agentId: spool.agentId, healthPort: health.port }, 'agent started');
  return {
    healthPort: health.port,
    agentId: spool.agentId,
    ready: agent.ready,
    done,
    drain: () => {
      agent.drain();
      return done;
    },
    kill: () => agent.kill(),
  };
}

async function endWith(agent: Agent, health: HealthServer): Promise<void> {
  try {
    await agent.run();
  } finally {
    await health.close();
  }
}

/** The rooms of one agent, wired together, and the order in which they end. */
class Agent {
  readonly metrics: AgentMetrics;
  readonly ready: Promise<void>;
  readonly #settings: AgentSettings;
  readonly #options: AgentOptions;
  readonly #spool: Spool;
  readonly #authorities: ExtraAuthorities | undefined;
  readonly #client: ServiceClient;
  readonly #pool: ProbePool;
  readonly #dispatcher: Dispatcher;
  readonly #connection: Connection;
  readonly #uploader: Uploader;
  readonly #startedMs = monoMs();
  readonly #draining = new AbortController();
  readonly #killed = new AbortController();
  readonly #setReady: () => void;

  constructor(
    settings: AgentSettings,
    options: AgentOptions,
    spool: Spool,
    authorities: ExtraAuthorities | undefined,
  ) {
    const { log, version } = options;
    const types = checkTypes().filter(({ lane }) => lane === 'probe');
    const plan = planLanes(readMachine(), settings.jobConcurrency);
    const admission = new Admission(readMachine);
    this.#settings = settings;
    this.#options = options;
    this.#spool = spool;
    this.#authorities = authorities;
    ({ promise: this.ready, resolve: this.#setReady } = Promise.withResolvers<void>());
    this.metrics = new AgentMetrics(version, () => this.#readings());
    this.#client = new ServiceClient({ ...settings, version, proxies: settings });
    this.#pool = new ProbePool({
      size: plan.probes,
      perProbe: plan.perProbe,
      heapMb: plan.heapMb,
      setup: { useOsResolver: settings.useOsResolver },
      extraCaCerts: settings.extraCaCerts,
      log,
      recorder: this.metrics,
      onReady: () => this.#connection.creditChanged(),
      ...(options.probeEntry === undefined ? {} : { entry: options.probeEntry }),
    });
    this.#dispatcher = new Dispatcher({
      executor: this.#pool,
      sink: spool,
      clock: new LeaseClock(),
      log,
      recorder: this.metrics,
      total: plan.total,
      checkTypes: new Set(types.map(({ name }) => name)),
      admit: (wanted) => this.#admit(admission, wanted),
    });
    this.#connection = new Connection({
      client: this.#client,
      holder: this.#dispatcher,
      recorder: this.metrics,
      log,
      agentId: () => spool.agentId,
      takeNewId: () => spool.renameAgent(),
      version,
      checkTypes: types.map(({ name }) => name),
      apiKey: settings.apiKey,
      onWelcome: () => this.#uploader.welcomed(),
      ...(options.linkTiming === undefined ? {} : { linkTiming: options.linkTiming }),
      ...(options.pollForMs === undefined ? {} : { pollForMs: options.pollForMs }),
    });
    this.#dispatcher.attach(this.#connection);
    this.#uploader = new Uploader(
      spool,
      {
        post: (...request) => this.#client.post(...request),
        batch: () => this.#connection.batch,
        clockOffsetMs: () => this.#connection.state.clockOffsetMs,
        slots: () => plan.total,
      },
      log,
      this.metrics,
    );
  }

  drain(): void {
    this.#draining.abort();
  }

  kill(): void {
    this.#draining.abort();
    this.#killed.abort();
  }

  /** Runs until drained, killed, or broken by the failure of one part. */
  async run(): Promise<void> {
    const stop = new AbortController();
    const { log } = this.#options;
    try {
      await supervise(
        [
          (signal) => this.#pool.keep(signal),
          (signal) => this.#connection.run(signal),
          (signal) => this.#dispatcher.watch(signal),
          (signal) => this.#uploader.run(signal),
          (signal) => this.#watchReadiness(signal),
          (signal) =>
            this.#authorities?.watch(signal, () => this.#pool.renewAll(), log) ?? untilAborted(signal),
          async (signal) => {
            await Promise.race([untilAborted(this.#draining.signal), untilAborted(signal)]);
            if (!signal.aborted) await this.#windDown();
            stop.abort(new Error('drained'));
          },
        ],
        stop.signal,
      );
    } finally {
      this.#client.close();
      this.#spool.close();
    }
    log.info({ resultsLeft: this.#spool.state.results }, 'agent ended');
  }

  /** Readiness 503 → no more work → running tries end or are given back → results leave → bye. */
  async #windDown(): Promise<void> {
    const { drainTimeoutMs } = this.#settings;
    const { log } = this.#options;
    log.info({ running: this.#dispatcher.running, drainTimeoutMs }, 'draining');
    const deadline = AbortSignal.any([this.#killed.signal, AbortSignal.timeout(drainTimeoutMs)]);
    const idle = this.#dispatcher.drain();
    this.#connection.drain(drainTimeoutMs);
    await Promise.race([idle, untilAborted(deadline)]);
    if (this.#dispatcher.running > 0) {
      log.warn({ running: this.#dispatcher.running }, 'running checks are given back to the service');
      this.#dispatcher.giveBack('interrupted');
      // A disk that fails keeps results from being saved; they are sent from memory below.
      await Promise.race([idle, sleep(SAVE_MS)]);
    }
    const flushMs = this.#killed.signal.aborted ? KILL_FLUSH_MS : FLUSH_MS;
    await this.#uploader.flush(AbortSignal.timeout(flushMs));
    await this.#connection.bye('drained');
  }

  async #watchReadiness(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.status().ready) await sleep(READY_LOOK_MS, signal).catch(() => {});
    if (signal.aborted) return;
    this.#setReady();
    await untilAborted(signal);
  }

  /** How many of `wanted` more runs may start, and what stands against more. */
  #admit(admission: Admission, wanted: number): { runs: number; short: string | null } {
    const { full, writeError } = this.#spool.state;
    if (full || writeError !== null) return { runs: 0, short: 'spool' };
    if (!this.#pool.ready) return { runs: 0, short: 'probes' };
    return admission.allow(wanted);
  }

  status(): AgentStatus {
    const connection = this.#connection.state;
    const reason = this.#reasonAgainst();
    return {
      ready: reason === null,
      reason,
      version: this.#options.version,
      agentId: this.#spool.agentId,
      location: connection.location,
      connection,
      runs: {
        total: this.#dispatcher.total(),
        free: this.#dispatcher.free(),
        running: this.#dispatcher.running,
        waiting: this.#pool.waiting,
      },
      spool: this.#spool.state,
      probes: this.#pool.processes,
      sandbox: { mode: this.#settings.sandbox, missing: missingWalls() },
      uptimeSeconds: Math.round((monoMs() - this.#startedMs) / 1000),
    };
  }

  #reasonAgainst(): string | null {
    const { status, lastError } = this.#connection.state;
    if (this.#draining.signal.aborted) return 'draining';
    if (status === 'refused') return `the service refuses this agent: ${lastError}`;
    if (status !== 'connected') {
      return lastError === null ? 'starting' : `not connected to the service: ${lastError}`;
    }
    const { writeError } = this.#spool.state;
    if (writeError !== null) return `the spool cannot be written: ${writeError}`;
    if (!this.#pool.ready) return `no probe process: ${this.#pool.startError ?? 'starting'}`;
    const { blocked } = this.#dispatcher;
    return blocked === null ? null : `no work is taken: ${blocked}`;
  }

  #readings(): Readings {
    const { status, transport } = this.#connection.state;
    const { results, bytes, dead } = this.#spool.state;
    const { processes } = this.#pool;
    return {
      connected: status === 'connected',
      transport,
      slotsTotal: this.#dispatcher.total(),
      slotsFree: this.#dispatcher.free(),
      running: this.#dispatcher.running,
      waiting: this.#pool.waiting,
      spoolResults: results,
      spoolBytes: bytes,
      spoolDead: dead,
      probes: processes.length,
      probesRssBytes: processes.reduce((sum, { rssBytes }) => sum + rssBytes, 0),
    };
  }
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
