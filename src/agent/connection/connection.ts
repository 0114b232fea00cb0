import { arch, platform } from 'node:os';
import { CloseCode, PROTOCOL, type FromAgent, type RunRef } from '../../contract/index.ts';
import { backoffMs, monoMs, sleep, wallMs } from '../../kit/clock.ts';
import { ExitCode, FatalError } from '../../kit/errors.ts';
import { maskSecret, newId } from '../../kit/ids.ts';
import { isOlder } from '../../kit/version.ts';
import type { Log } from '../../kit/log.ts';
import type { Recorder, ReleaseReason, RunHolder, ServiceLink } from '../ports.ts';
import { TransportChoice } from './choice.ts';
import { ClockOffset } from './clock-offset.ts';
import {
  BROKEN,
  isRefusal,
  LINK_TIMING,
  openError,
  type Closed,
  type Link,
  type LinkKind,
  type LinkTiming,
} from './link.ts';
import { openPoll } from './poll-link.ts';
import type { ServiceClient } from './service-client.ts';
import { Session, type WelcomeData } from './session.ts';
import { openSocket, trySocket } from './socket-link.ts';

export interface ConnectionOptions {
  client: ServiceClient;
  holder: RunHolder;
  recorder: Recorder;
  log: Log;
  agentId: () => string;
  /** Another live process uses our agentId: take a new one. */
  takeNewId: () => void;
  version: string;
  checkTypes: readonly string[];
  /** What else the agent says of itself in each hello. */
  abilities: () => { runtimes: string[]; sandbox: { state: string; missing: string[] } };
  apiKey: string;
  /** Called at each welcome. */
  onWelcome: () => void;
  linkTiming?: LinkTiming;
  /** How long the long poll is kept before a socket is tried again; ms. */
  pollForMs?: number;
}

export interface ConnectionState {
  status: 'connecting' | 'connected' | 'refused' | 'ended';
  transport: LinkKind | null;
  location: string | null;
  /** Why the last link ended or could not be opened. */
  lastError: string | null;
  clockOffsetMs: number | null;
  /** The service asks for a newer agent. */
  minAgentVersion: string | null;
}

const REFUSED_CAP_MS = 300_000;
const REFUSED_BASE_MS = 5_000;
const DEFAULT_BATCH = { maxItems: 100, maxBytes: 2 * 1024 * 1024, flushMs: 1000 };
/** With more than half of the places free the service has credit enough: its news can wait for company. */
const LAZY_CREDIT_MS = 25;

/** Keeps one session with the service alive, whatever happens in between. */
export class Connection implements ServiceLink {
  readonly #options: ConnectionOptions;
  readonly #instanceId = newId();
  readonly #offset = new ClockOffset();
  readonly #choice: TransportChoice;
  #session: Session | undefined;
  #state: ConnectionState = {
    status: 'connecting',
    transport: null,
    location: null,
    lastError: null,
    clockOffsetMs: null,
    minAgentVersion: null,
  };
  #batch = DEFAULT_BATCH;
  #everWelcomed = false;
  #drainUntilMs: number | undefined;
  #creditTimer: NodeJS.Timeout | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#choice = new TransportChoice(options.pollForMs);
  }

  get state(): ConnectionState {
    return { ...this.#state, clockOffsetMs: this.#offset.offsetMs };
  }
  get batch(): typeof DEFAULT_BATCH {
    return this.#batch;
  }

  /**
   * Connects, and connects again, until `signal` aborts.
   *
   * @throws FatalError exit 4 when the service refuses the key before it ever accepted it
   */
  async run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      const closed = await this.#connectOnce(signal);
      if (signal.aborted) break;
      const wasWelcomed = this.#state.status === 'connected';
      if (wasWelcomed) failures = 0;
      this.#noteEnd(closed, wasWelcomed);
      const waitMs = isRefusal(closed.code)
        ? backoffMs(failures, REFUSED_BASE_MS, REFUSED_CAP_MS)
        : (closed.retryAfterMs ?? backoffMs(failures));
      failures++;
      await sleep(waitMs, signal).catch(() => {});
    }
    this.#state = { ...this.#state, status: 'ended', transport: null };
  }

  creditChanged(): void {
    const { holder } = this.#options;
    if (this.#creditTimer !== undefined) return;
    const wait = holder.free('light') * 2 > holder.total() ? LAZY_CREDIT_MS : 0;
    this.#creditTimer = setTimeout(() => {
      this.#creditTimer = undefined;
      this.#session?.sendCredit();
    }, wait);
  }

  release(runs: readonly RunRef[], reason: ReleaseReason): void {
    this.#session?.sendRelease(runs, reason);
  }

  renewNow(): void {
    this.#session?.renewNow();
  }

  /** Tells the service that no more runs are wanted; the session and its renewals go on. */
  drain(forMs: number): void {
    this.#drainUntilMs = monoMs() + forMs;
    this.#session?.sendDrain(forMs);
    this.#session?.sendCredit();
  }

  /** The last word; the caller ends `run` afterwards. */
  async bye(reason: string): Promise<void> {
    clearTimeout(this.#creditTimer);
    this.#session?.sendBye(reason);
    // One turn lets a long poll's request leave before its link is closed.
    await sleep(0);
  }

  async #connectOnce(signal: AbortSignal): Promise<Closed> {
    const kind = this.#choice.kind;
    const session = this.#newSession();
    let link: Link;
    try {
      link = await this.#open(kind, session, signal);
    } catch (error) {
      if (signal.aborted) return { code: BROKEN, reason: 'stopped' };
      return this.#openFailed(kind, error);
    }
    this.#choice.opened(kind);
    const bornMs = monoMs();
    this.#state = { ...this.#state, transport: kind };
    this.#session = session;
    const over = new AbortController();
    const inner = AbortSignal.any([signal, over.signal]);
    if (kind === 'poll') void this.#tryForSocket(inner, over);
    const closed = await session.live(link, inner);
    const toSocket = over.signal.aborted;
    over.abort(new Error('session over'));
    this.#session = undefined;
    this.#choice.ended(kind, closed, monoMs() - bornMs);
    await this.#settled(link, signal);
    return toSocket ? { ...closed, reason: 'a socket passes again', retryAfterMs: 0 } : closed;
  }

  /** Gives a closing link a moment to carry out what was sent. */
  async #settled(link: Link, signal: AbortSignal): Promise<void> {
    const waitMs = signal.aborted ? 1000 : 100;
    await Promise.race([link.closed, sleep(waitMs)]);
  }

  #newSession(): Session {
    const { holder, recorder, log } = this.#options;
    return new Session({
      holder,
      recorder,
      log,
      offset: this.#offset,
      drainLeftMs: () =>
        this.#drainUntilMs === undefined ? null : Math.max(0, this.#drainUntilMs - monoMs()),
      onWelcome: (welcome) => this.#onWelcome(welcome),
      onUpgrade: (minAgentVersion) => this.#noteMinVersion(minAgentVersion),
    });
  }

  #open(kind: LinkKind, session: Session, signal: AbortSignal): Promise<Link> {
    const { client, linkTiming = LINK_TIMING } = this.#options;
    const receive = (raw: unknown): void => session.receive(raw);
    return kind === 'socket'
      ? openSocket(client, linkTiming, this.#hello(), receive, signal)
      : openPoll(client, linkTiming, this.#hello(), receive, signal);
  }

  #openFailed(kind: LinkKind, error: unknown): Closed {
    const fault = openError(error);
    if (!fault.unreachable && fault.closed.code === BROKEN) this.#choice.openFailed(kind);
    return fault.closed;
  }

  #hello(): FromAgent {
    const { holder, version, checkTypes, agentId, abilities } = this.#options;
    return {
      v: 1,
      t: 'hello',
      id: newId(),
      d: {
        agentId: agentId(),
        instanceId: this.#instanceId,
        agentVersion: version,
        protocol: PROTOCOL,
        features: [],
        capabilities: { checkTypes: [...checkTypes], os: platform(), arch: arch(), ...abilities() },
        slots: { total: holder.total() },
        running: holder.held(),
        clock: { t0: wallMs() },
      },
    };
  }

  #onWelcome(welcome: WelcomeData): void {
    const { log, onWelcome } = this.#options;
    this.#everWelcomed = true;
    this.#batch = welcome.resultBatch;
    this.#state = { ...this.#state, status: 'connected', location: welcome.location, lastError: null };
    log.info(
      { location: welcome.location, transport: this.#state.transport, epoch: welcome.epoch },
      'connected to the service',
    );
    if (welcome.minAgentVersion !== null) this.#noteMinVersion(welcome.minAgentVersion);
    onWelcome();
  }

  #noteMinVersion(minAgentVersion: string): void {
    if (!isOlder(this.#options.version, minAgentVersion)) return;
    this.#state = { ...this.#state, minAgentVersion };
    this.#options.log.warn(
      { minAgentVersion, version: this.#options.version },
      'the service asks for a newer agent',
    );
  }

  #noteEnd(closed: Closed, wasWelcomed: boolean): void {
    const { log, apiKey, takeNewId } = this.#options;
    const refused = isRefusal(closed.code);
    if (closed.code === CloseCode.badKey && !this.#everWelcomed) {
      throw new FatalError(
        ExitCode.keyRefused,
        `the service refuses API_KEY ${maskSecret(apiKey)}: ${closed.reason}. Use a live key of the private location`,
      );
    }
    if (closed.code === CloseCode.replaced && wasWelcomed) {
      log.warn('another agent runs with a copy of this data folder; this one takes a new identity');
      takeNewId();
    }
    const isNews = wasWelcomed || this.#state.lastError !== closed.reason;
    const fields = { code: closed.code, reason: closed.reason };
    if (isNews) log.warn(fields, refused ? 'the service refuses this agent' : 'not connected to the service');
    else log.debug(fields, 'still not connected to the service');
    this.#state = {
      ...this.#state,
      status: refused ? 'refused' : 'connecting',
      transport: null,
      lastError: closed.reason,
    };
  }

  /** On the long poll: tries a socket when it is time, and ends the poll once one opens. */
  async #tryForSocket(signal: AbortSignal, over: AbortController): Promise<void> {
    const { client, linkTiming = LINK_TIMING } = this.#options;
    while (!signal.aborted) {
      await sleep(this.#choice.retrySocketMs ?? 0, signal).catch(() => {});
      if (signal.aborted) return;
      if ((await trySocket(client, linkTiming, signal)) === null) {
        this.#choice.useSocket();
        over.abort(new Error('a socket passes again'));
        return;
      }
      this.#choice.usePoll();
    }
  }
}
