import type { Socket } from 'node:net';
import { wallMs } from '../../kit/clock.ts';
import { goesDirect } from '../../kit/proxies.ts';
import { AgentFault, TimeLimit } from '../check-type.ts';
import type { Limiter } from '../limiter.ts';
import { NameError, type Resolver } from '../resolve.ts';
import { PhaseClock } from '../timings.ts';
import { exchangeFailure, TargetFailure } from './failure.ts';
import type { TargetPolicy } from '../target-policy/index.ts';
import { portOf, type Proxy } from './proxy.ts';

export interface LogLine {
  /** ms since the epoch. */
  time: number;
  level: 'INFO' | 'ERROR';
  msg: string;
}

export interface TripOptions {
  signal: AbortSignal;
  resolver: Resolver;
  targets: TargetPolicy;
  handshakes: Limiter;
  family: 4 | 6;
  skipSSL: boolean;
  proxy: Proxy | null;
  /** Targets that it is not for. */
  noProxy?: string;
}

/**
 * One probe from its first request to its last answer: what all hops share, and how the whole is
 * stopped. At an abort the socket of the moment is destroyed, so that whatever waits for it ends.
 */
export class Trip {
  readonly options: TripOptions;
  readonly clock = new PhaseClock();
  readonly log: LogLine[] = [];
  /** `address:port` as people write it, of the last connection tried. */
  endpoint = '';
  address: string | null = null;
  /** From here on what happens is between the proxy and the target. */
  proxyReached = false;
  /** Of the hop under way. */
  proxy: Proxy | null = null;
  #socket: Socket | null = null;
  readonly #onAbort = (): void => void this.#socket?.destroy(new Error('aborted'));

  constructor(options: TripOptions) {
    this.options = options;
    options.signal.throwIfAborted();
    options.signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** To be called before each hop. */
  begin(url: URL): void {
    const { proxy, noProxy = '' } = this.options;
    const isDirect = proxy === null || goesDirect({ host: url.hostname, port: portOf(url) }, noProxy);
    this.proxy = isDirect ? null : proxy;
  }

  /** Makes `socket` the one that an abort destroys. */
  hold<S extends Socket>(socket: S): S {
    this.#socket = socket;
    if (this.options.signal.aborted) this.#onAbort();
    return socket;
  }

  note(msg: string, level: LogLine['level'] = 'INFO'): void {
    this.log.push({ time: wallMs(), level, msg });
  }

  end(): void {
    this.clock.stop();
    this.options.signal.removeEventListener('abort', this.#onAbort);
    this.#socket?.destroy();
  }

  /**
   * What went wrong, as a failure of the target or a fault of the agent. A cancelled run is neither:
   * the signal's reason is thrown on.
   */
  verdictOn(error: unknown): TargetFailure | AgentFault {
    const { signal } = this.options;
    if (signal.aborted) {
      if (signal.reason instanceof TimeLimit) return this.#timedOut(signal.reason.limitMs);
      throw signal.reason;
    }
    if (error instanceof TargetFailure || error instanceof AgentFault) return error;
    if (error instanceof NameError) return new TargetFailure(error.code, error.message, true);
    return exchangeFailure(error, this.endpoint, PHASE_WORDS[this.clock.current]);
  }

  #timedOut(limitMs: number): TargetFailure | AgentFault {
    const { clock } = this;
    if (clock.pausedMs > limitMs / 10) {
      const message = `the agent was too busy: ${Math.round(clock.pausedMs)} ms of ${limitMs} ms went by until it could open the connection`;
      return new AgentFault('AGENT_OVERLOADED', message);
    }
    const { proxy } = this;
    if (proxy && !this.proxyReached) {
      return new AgentFault(
        'PROXY_UNREACHABLE',
        `the proxy ${proxy.name} did not answer within ${limitMs} ms`,
      );
    }
    return new TargetFailure('TIMEOUT', `${this.#progress()} within ${limitMs} ms`, true);
  }

  /** `connected to 127.0.0.1:80 after 1 ms, no first byte`. */
  #progress(): string {
    const { endpoint, clock } = this;
    const { wait, dns, tcp, tls, firstByte } = clock.phases();
    const connected = `connected to ${endpoint} after ${Math.round(wait + dns + tcp + tls)} ms`;
    switch (clock.current) {
      case 'wait':
      case 'dns':
        return 'the name was not resolved';
      case 'tcp':
        return `no connection to ${endpoint}`;
      case 'tls':
        return `connected to ${endpoint} after ${Math.round(wait + dns + tcp)} ms, the TLS handshake did not end`;
      case 'firstByte':
        return `${connected}, no first byte`;
      case 'download':
        return `${connected}, first byte ${Math.round(firstByte)} ms later, the answer did not end (${this.#socket?.bytesRead ?? 0} bytes received)`;
    }
  }
}

const PHASE_WORDS = {
  wait: 'preparing',
  dns: 'resolving the name',
  tcp: 'connecting',
  tls: 'negotiating TLS',
  firstByte: 'waiting for the answer',
  download: 'receiving the answer',
} as const;
