import { PostLog } from '../contract/index.ts';
import { checkTypes, type CheckType, type JobClass } from '../checks/index.ts';
import { monoMs, sleep, untilAborted } from '../kit/clock.ts';
import { ExitCode, FatalError } from '../kit/errors.ts';
import { supervise } from '../kit/supervise.ts';
import { Admission, readMachine, type Heavy, type LanePlan } from './admission/index.ts';
import { ArtifactUploader } from './artifacts/index.ts';
import type { Authorities } from './authorities/index.ts';
import { Connection, ServiceClient } from './connection/index.ts';
import { Dispatcher, LeaseClock } from './dispatch/index.ts';
import { EgressProxy } from './egress/index.ts';
import { AgentMetrics, type AgentStatus, type Readings } from './health/index.ts';
import { classOf, Lanes } from './lanes/index.ts';
import type { ProbePool } from './probes/index.ts';
import { sandboxReport } from './sandbox/index.ts';
import { findRuntimes } from './runtimes/index.ts';
import { ScriptRoom, type ScriptKind } from './scripts/index.ts';
import type { AgentSettings } from './settings.ts';
import type { AgentOptions } from './start.ts';
import { SuiteRoom } from './suites/index.ts';
import { Uploader, type Spool } from './spool/index.ts';

/** What a drain may take for sending the last results. */
const FLUSH_MS = 20_000;
const KILL_FLUSH_MS = 3_000;
const SAVE_MS = 1_000;
const READY_LOOK_MS = 20;
const IDLE_LOOK_MS = 250;

/** What startAgent prepared. */
export interface AgentParts {
  plan: LanePlan;
  pool: ProbePool;
  spool: Spool;
  dataDir: string;
  authorities: Authorities;
}

/** The rooms of one agent, wired together, and the order in which they end. */
export class Agent {
  readonly metrics: AgentMetrics;
  readonly ready: Promise<void>;
  readonly #settings: AgentSettings;
  readonly #options: AgentOptions;
  readonly #spool: Spool;
  readonly #authorities: Authorities;
  readonly #client: ServiceClient;
  readonly #pool: ProbePool;
  readonly #egress: EgressProxy | null;
  readonly #scripts: ScriptRoom;
  readonly #suites: SuiteRoom;
  readonly #admission: Admission;
  readonly #heavy: Heavy;
  readonly #dispatcher: Dispatcher;
  readonly #connection: Connection;
  readonly #uploader: Uploader;
  readonly #artifacts: ArtifactUploader;
  readonly #startedMs = monoMs();
  readonly #draining = new AbortController();
  readonly #killed = new AbortController();
  readonly #setReady: () => void;

  constructor(settings: AgentSettings, options: AgentOptions, parts: AgentParts) {
    const { log, version } = options;
    const { plan, pool, spool, authorities } = parts;
    const types = checkTypes().filter((type) => canRun(type, plan));
    this.#admission = new Admission(readMachine, plan);
    this.#settings = settings;
    this.#options = options;
    this.#spool = spool;
    this.#authorities = authorities;
    this.#pool = pool;
    ({ promise: this.ready, resolve: this.#setReady } = Promise.withResolvers<void>());
    this.metrics = new AgentMetrics(version, () => this.#readings());
    this.#client = new ServiceClient({ ...settings, version, proxies: settings });
    pool.pingTypes = new Set(types.filter(({ needs }) => needs === 'ping').map(({ name }) => name));
    pool.events.onReady = () => this.#connection.creditChanged();
    pool.events.onEnded = (cause) => this.metrics.probeEnded(cause);
    this.#egress = settings.scriptEgress === 'open' ? null : this.#egressProxy();
    this.#scripts = this.#scriptRoom(parts);
    this.#suites = this.#suiteRoom(parts);
    this.#dispatcher = new Dispatcher({
      executor: new Lanes(pool, this.#scripts, this.#suites),
      sink: spool,
      clock: new LeaseClock(),
      log,
      recorder: this.metrics,
      total: plan.total,
      ...(options.once === undefined ? {} : { most: options.once.runs }),
      // After the offer that brought it has been answered.
      onMost: () => void setImmediate(() => this.drain()),
      places: plan.places,
      checkTypes: new Set(types.map(({ name }) => name)),
      classOf,
      admit: (kind, wanted) => this.#admit(kind, wanted),
    });
    const dispatcher = this.#dispatcher;
    this.#heavy = {
      get running() {
        return dispatcher.runningByClass;
      },
      usedBytes: () =>
        [...this.#scripts.jobs, ...this.#suites.jobs].reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
      waitShare: () => this.#scripts.waitShare(),
    };
    this.#connection = new Connection({
      client: this.#client,
      holder: this.#dispatcher,
      recorder: this.metrics,
      log,
      agentId: () => spool.agentId,
      takeNewId: () => spool.renameAgent(),
      version,
      checkTypes: types.map(({ name }) => name),
      abilities: () => ({ runtimes: this.#scripts.runtimes, sandbox: shownSandbox() }),
      apiKey: settings.apiKey,
      onWelcome: () => {
        this.#uploader.welcomed();
        this.#artifacts.welcomed();
      },
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
    this.#artifacts = new ArtifactUploader(spool, this.#client, log);
  }

  #egressProxy(): EgressProxy {
    const { useOsResolver, blockedTargets, allowedTargets, noProxy } = this.#settings;
    return new EgressProxy({
      setup: { useOsResolver, policy: { blocked: blockedTargets, allowed: allowedTargets }, noProxy },
      log: this.#options.log,
      onLost: () => this.#scripts.renewAll(),
      extraCaCerts: this.#authorities.file,
    });
  }

  /** No script may reach the port that tells about this agent. */
  protectHealthPort(port: number): void {
    this.#egress?.protect([port]);
  }

  #scriptRoom({ plan, spool, dataDir, authorities }: AgentParts): ScriptRoom {
    const { log, scriptEntry, findRuntimes, runtimesEveryMs } = this.#options;
    const { apiKey } = this.#settings;
    return new ScriptRoom({
      dataDir,
      places: { browser: plan.places.browser, multistep: plan.places.script, api: plan.places.script },
      memoryOf: (kind) => plan.limitBytes[heavyOf(kind)],
      mayWarm: (kind) => this.#admission.allowSpare(heavyOf(kind), this.#heavy),
      egress: this.#egress,
      extraCaCerts: authorities.file,
      browserAuthorities: () => authorities.browserDatabase(),
      ownSecrets: [apiKey],
      folderOf: (resultId) => spool.folderOf(resultId),
      log,
      events: {
        onChange: () => this.#connection.creditChanged(),
        onEnded: (kind, cause) => this.metrics.scriptEnded(kind, cause),
      },
      ...(scriptEntry === undefined ? {} : { entry: scriptEntry }),
      ...(findRuntimes === undefined ? {} : { findRuntimes }),
      ...(runtimesEveryMs === undefined ? {} : { runtimesEveryMs }),
    });
  }

  #suiteRoom({ plan, spool, dataDir, authorities }: AgentParts): SuiteRoom {
    const { log, findRuntimes: find = findRuntimes, suiteLimits: limits } = this.#options;
    const { apiKey, packageVariables, installScripts, dependencyCache } = this.#settings;
    return new SuiteRoom({
      dataDir,
      memoryBytes: plan.limitBytes.suite,
      ...(limits === undefined ? {} : { limits }),
      egress: this.#egress,
      extraCaCerts: authorities.file,
      browserAuthorities: () => authorities.browserDatabase(),
      ownSecrets: [apiKey],
      network: this.#settings,
      packageVariables,
      runsInstallScripts: installScripts,
      dependencyCache: { isOff: dependencyCache === 'off', maxBytes: this.#settings.dependencyCacheBytes },
      bundleCacheBytes: this.#settings.bundleCacheBytes,
      runtimes: () => find(),
      bundles: this.#client,
      postLog: (body, signal) =>
        this.#client.post(PostLog.path, body, { 'content-type': 'application/json' }, signal),
      folderOf: (resultId) => spool.folderOf(resultId),
      log,
    });
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
          (signal) => this.#scripts.keep(signal),
          (signal) => this.#suites.keep(signal),
          (signal) => this.#egress?.keep(signal) ?? untilAborted(signal),
          (signal) => this.#connection.run(signal),
          (signal) => this.#dispatcher.watch(signal),
          (signal) => this.#uploader.run(signal),
          (signal) => this.#artifacts.run(signal),
          (signal) => this.#watchReadiness(signal),
          (signal) => this.#endWithoutWork(signal),
          (signal) =>
            this.#authorities.watch(signal, () => this.#renewAll(), log, this.#options.authoritiesEveryMs),
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
    const flushed = AbortSignal.timeout(flushMs);
    await this.#uploader.flush(flushed);
    // A video takes longer than a result: it may have what is left of the time to drain.
    await this.#artifacts.flush(deadline.aborted ? flushed : deadline);
    await this.#connection.bye('drained');
  }

  async #watchReadiness(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.#reasonAgainst() !== null) {
      await sleep(READY_LOOK_MS, signal).catch(() => {});
    }
    if (signal.aborted) return;
    this.#setReady();
    await untilAborted(signal);
  }

  /** With `once`: nothing has come for so long that nothing will. */
  async #endWithoutWork(signal: AbortSignal): Promise<void> {
    const waitMs = this.#options.once?.waitMs ?? null;
    let [begun, sinceMs] = [0, monoMs()];
    while (waitMs !== null && !signal.aborted && !this.#draining.signal.aborted) {
      const isBusy = this.#dispatcher.running > 0 || this.#dispatcher.begun > begun;
      if (isBusy) [begun, sinceMs] = [this.#dispatcher.begun, monoMs()];
      if (monoMs() - sinceMs > waitMs) {
        this.#assertReached(waitMs);
        this.drain();
      }
      await sleep(Math.min(waitMs, IDLE_LOOK_MS), signal).catch(() => {});
    }
    await untilAborted(signal);
  }

  #assertReached(waitMs: number): void {
    const { status, lastError } = this.#connection.state;
    if (status === 'connected') return;
    const problem = `the service was not reached within ${waitMs / 1000} s: ${lastError ?? 'it did not answer'}`;
    throw new FatalError(ExitCode.serviceUnreachable, `${problem}; 'vedette doctor' says more`);
  }

  #renewAll(): void {
    this.#pool.renewAll();
    this.#egress?.trust(this.#authorities.extra);
    this.#scripts.renewAll();
  }

  /** How many of `wanted` more runs may start, and what stands against more. */
  #admit(kind: JobClass, wanted: number): { runs: number; short: string | null } {
    const { full, writeError } = this.#spool.state;
    if (full || writeError !== null) return { runs: 0, short: 'spool' };
    if (kind === 'light' && !this.#pool.ready) return { runs: 0, short: 'probes' };
    const { blocked } = this.#scripts;
    if (kind !== 'light' && kind !== 'suite' && blocked !== null) return { runs: 0, short: blocked };
    return this.#admission.allow(kind, wanted, this.#heavy);
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
        free: this.#dispatcher.free('light'),
        running: this.#dispatcher.running,
        waiting: this.#pool.waiting,
      },
      scripts: {
        runtimes: this.#scripts.runtimes,
        free: { script: this.#dispatcher.free('script'), browser: this.#dispatcher.free('browser') },
        blocked: this.#dispatcher.blocked('browser') ?? this.#dispatcher.blocked('script'),
        warm: this.#scripts.spares,
        running: this.#scripts.jobs,
      },
      suites: {
        free: this.#dispatcher.free('suite'),
        blocked: this.#dispatcher.blocked('suite'),
        running: this.#suites.jobs.map(({ pid, memoryBytes }) => ({ pid, memoryBytes })),
      },
      spool: this.#spool.state,
      probes: this.#pool.processes,
      sandbox: { mode: this.#settings.sandbox, ...sandboxReport() },
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
    const blocked = this.#dispatcher.blocked('light');
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
      slotsFree: this.#dispatcher.free('light'),
      running: this.#dispatcher.running,
      waiting: this.#pool.waiting,
      spoolResults: results,
      spoolBytes: bytes,
      spoolDead: dead,
      probes: processes.length,
      probesRssBytes: processes.reduce((sum, { rssBytes }) => sum + rssBytes, 0),
      runningByClass: this.#dispatcher.runningByClass,
      spares: this.#scripts.spares,
      sandbox: sandboxReport().state,
    };
  }
}

/** The service takes sentences of 100 characters. */
function shownSandbox(): { state: string; missing: string[] } {
  const { state, missing } = sandboxReport();
  return { state, missing: missing.slice(0, 100).map((text) => text.slice(0, 100)) };
}

/** Types whose runs this machine is too small for are not offered. */
function canRun(type: CheckType, { places }: LanePlan): boolean {
  if (type.lane === 'probe') return true;
  if (type.lane === 'suite') return places.suite > 0;
  return places[type.name === 'BROWSER' ? 'browser' : 'script'] > 0;
}

const heavyOf = (kind: ScriptKind): 'script' | 'browser' => (kind === 'browser' ? 'browser' : 'script');
