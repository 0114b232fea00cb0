import { backoffMs, sleep } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import { startChild, type Child } from '../sandbox/index.ts';
import { openChannel, type EgressSetup, type FromEgress, type Refusal, type ToEgress } from './channel.ts';
import { egressProgram } from './program.ts';

export interface EgressOptions {
  setup: EgressSetup;
  log: Log;
  /** A gate could not be opened again at its port: what was started with it reaches nothing. */
  onLost(): void;
  /** PEM file of further authorities: proxies may speak TLS themselves. */
  extraCaCerts?: string | undefined;
}

/** The way of one script process to its targets, until it is closed. */
export interface OpenGate {
  readonly port: number;
  /** What the policy refused so far, each once. */
  readonly refusals: readonly Refusal[];
  /** The egress process ended meanwhile, and connections with it. */
  readonly wasInterrupted: boolean;
  /**
   * From now on it leads through this proxy, or directly; resolves when it does.
   *
   * @param direct in the form of NO_PROXY, besides the agent's own
   */
  lead(proxyUrl: string | null, direct?: string): Promise<void>;
  close(): void;
}

interface Gate {
  n: number;
  allowed: string;
  /** 0 before the first time. */
  port: number;
  refusals: Refusal[];
  wasInterrupted: boolean;
  opened: PromiseWithResolvers<void>;
  proxyUrl: string | null;
  direct: string;
  led: PromiseWithResolvers<void>;
}

type Send = (message: ToEgress) => void;

/** A cold start on a busy machine with one slow core. */
const START_MS = 60_000;

/** The egress process of an agent: started with the first gate, and again when it ends. */
export class EgressProxy {
  readonly #options: EgressOptions;
  readonly #gates = new Map<number, Gate>();
  readonly #stopped = new AbortController();
  #ownPorts: readonly number[] = [];
  /** Undefined while they are those of the start. */
  #authorities: readonly string[] | undefined;
  #child: Child | undefined;
  #send: Send | undefined;
  #running: Promise<void> | undefined;
  #lastGate = 0;

  constructor(options: EgressOptions) {
    this.#options = options;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Ends it when `signal` aborts. */
  async keep(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
    });
    await this.stop();
  }

  /** Ends the process, and every connection through it. */
  async stop(): Promise<void> {
    this.#stopped.abort(new Error('the agent ends'));
    this.#child?.kill();
    await this.#running;
  }

  /** Ports of this machine that no check may reach: the agent's own. */
  protect(ports: readonly number[]): void {
    this.#ownPorts = ports;
    this.#send?.({ t: 'own-ports', ports });
  }

  /** The file of authorities has changed: proxies of locations may have certificates of new ones. */
  trust(authorities: readonly string[]): void {
    this.#authorities = authorities;
    this.#send?.({ t: 'trust', authorities });
  }

  /**
   * @param allowed what may be reached by this way beyond the policy, in the form of ALLOWED_TARGETS
   * @throws Error when there is no egress process, and none within a minute
   */
  async open(allowed = ''): Promise<OpenGate> {
    this.#running ??= this.#run();
    const n = ++this.#lastGate;
    const gate: Gate = {
      n,
      allowed,
      port: 0,
      refusals: [],
      wasInterrupted: false,
      opened: Promise.withResolvers<void>(),
      proxyUrl: null,
      direct: '',
      led: Promise.withResolvers<void>(),
    };
    this.#gates.set(n, gate);
    this.#send?.({ t: 'open', n, port: 0, allowed });
    const tooLate = setTimeout(
      () => gate.opened.reject(new Error('the egress process does not start')),
      START_MS,
    );
    try {
      await gate.opened.promise;
    } catch (error) {
      this.#close(n);
      throw error;
    } finally {
      clearTimeout(tooLate);
    }
    return {
      port: gate.port,
      refusals: gate.refusals,
      get wasInterrupted() {
        return gate.wasInterrupted;
      },
      lead: (proxyUrl, direct = '') => this.#lead(gate, proxyUrl, direct),
      close: () => this.#close(n),
    };
  }

  /** A new gate is direct. When the process is started again, it learns of the proxy with the gate. */
  #lead(gate: Gate, proxyUrl: string | null, direct: string): Promise<void> {
    if (gate.proxyUrl === proxyUrl) return Promise.resolve();
    gate.proxyUrl = proxyUrl;
    gate.direct = direct;
    this.#send?.({ t: 'lead', n: gate.n, proxyUrl, direct });
    return gate.led.promise;
  }

  #close(n: number): void {
    if (this.#gates.delete(n)) this.#send?.({ t: 'close', n });
  }

  async #run(): Promise<void> {
    const { log } = this.#options;
    const stopped = this.#stopped.signal;
    for (let failures = 0; !stopped.aborted; failures++) {
      const child = startChild(egressProgram(this.#options.extraCaCerts));
      this.#child = child;
      const isReady = this.#talkTo(child, () => (failures = 0));
      const { cause } = await child.exited;
      isReady();
      if (stopped.aborted) break;
      log.error({ pid: child.pid, cause }, 'the egress process of scripts ended; it is started again');
      await sleep(Math.min(backoffMs(failures, 50), 5_000), stopped).catch(() => {});
    }
    for (const { opened, led } of this.#gates.values()) {
      opened.reject(new Error('the agent ends'));
      led.resolve();
    }
  }

  /** @returns to be called when it has ended */
  #talkTo(child: Child, onReady: () => void): () => void {
    const send = openChannel<ToEgress, FromEgress>(child.channel, (message) => {
      if (message.t !== 'ready') return this.#receive(message);
      onReady();
      this.#send = send;
      send({ t: 'own-ports', ports: this.#ownPorts });
      if (this.#authorities !== undefined) send({ t: 'trust', authorities: this.#authorities });
      for (const { n, port, allowed, proxyUrl, direct } of this.#gates.values()) {
        send({ t: 'open', n, port, allowed });
        if (proxyUrl !== null) send({ t: 'lead', n, proxyUrl, direct });
      }
    });
    send({ t: 'setup', setup: this.#options.setup });
    return () => {
      this.#send = undefined;
      for (const gate of this.#gates.values()) gate.wasInterrupted ||= gate.port !== 0;
    };
  }

  #receive(message: Exclude<FromEgress, { t: 'ready' }>): void {
    const gate = this.#gates.get(message.n);
    if (gate === undefined) return;
    switch (message.t) {
      case 'opened':
        gate.port = message.port;
        gate.opened.resolve();
        break;
      case 'led':
        gate.led.resolve();
        break;
      case 'not-opened':
        this.#notOpened(gate, message.why);
        break;
      case 'refused':
        gate.refusals.push(message.refusal);
        break;
    }
  }

  #notOpened(gate: Gate, why: string): void {
    gate.opened.reject(new Error(`no way to targets could be opened: ${why}`));
    if (gate.port === 0) return;
    const { log } = this.#options;
    log.error({ port: gate.port, detail: why }, 'a way of scripts to their targets is lost');
    this.#close(gate.n);
    this.#options.onLost();
  }
}
