import { connect, isIP, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { getSystemErrorMap } from 'node:util';
import { NameError, type Resolver } from '../../checks/resolve.ts';
import { parsePolicy, type TargetPolicy } from '../../checks/target-policy/index.ts';
import { codeOf } from '../../kit/errors.ts';

export interface Address {
  address: string;
  family: 4 | 6;
}

/** The name has no address: `ENOTFOUND`, or `EAI_AGAIN` when nobody could be asked. */
export class NoAddress extends Error {
  readonly code: 'ENOTFOUND' | 'EAI_AGAIN';
  constructor(code: 'ENOTFOUND' | 'EAI_AGAIN') {
    super(code);
    this.code = code;
  }
}

/** How connections of user code come to their targets. */
export interface Way {
  /** @throws NoAddress */
  resolve(host: string, family: 0 | 4 | 6, signal: AbortSignal): Promise<Address[]>;
  /** Null when the address may be connected to; otherwise the sentence that says why not. */
  judge(host: string, address: string, port: number): string | null;
  /**
   * @param host what the addresses were found for; an address where there was no name
   * @throws Error of connect, or ProxyFault
   */
  connect(host: string, addresses: readonly Address[], port: number, signal: AbortSignal): Promise<Socket>;
}

export interface DialerOptions {
  resolver: Resolver;
  targets: TargetPolicy;
  /** Whether a port of this machine is the agent's own. */
  isOwnPort: (port: number) => boolean;
}

/** Four retransmissions; whoever waits longer for a connection has a limit of its own. */
const CONNECT_MS = 20_000;
const RESOLVE_MS = 20_000;
/** Two file descriptors each; the process may have 4096. */
const MAX_CONNECTIONS = 1_900;

const ERRNO = new Map(Array.from(getSystemErrorMap(), ([number, [name]]) => [name, number]));
const errnoOf = (name: string): number => ERRNO.get(name) ?? -1;

/** An error of connect as its number. */
export function connectErrno(error: unknown): number {
  const errno = (error as NodeJS.ErrnoException).errno;
  return typeof errno === 'number' ? errno : errnoOf(codeOf(error) ?? 'ECONNREFUSED');
}

/** Finds, judges and connects: to the very address that was judged. */
export class Dialer implements Way {
  readonly #options: DialerOptions;
  #connections = 0;

  constructor(options: DialerOptions) {
    this.#options = options;
  }

  /**
   * Addresses of `host` in the order to try them.
   *
   * @throws NoAddress
   */
  async resolve(host: string, family: 0 | 4 | 6, signal: AbortSignal): Promise<Address[]> {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(RESOLVE_MS)]);
    const families = family === 0 ? ([6, 4] as const) : ([family] as const);
    const answers = await Promise.allSettled(
      families.map((each) => this.#options.resolver.resolve(host, each, limited)),
    );
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value.addresses : []));
    // IPv4 may stand in where IPv6 was asked for.
    const wanted = found.filter((each, index) => {
      const isFirst = found.findIndex(({ address }) => address === each.address) === index;
      return isFirst && (family === 0 || each.family === family);
    });
    if (wanted.length > 0) return isLocalName(host) ? wanted.toSorted((a, b) => a.family - b.family) : wanted;
    const isUnknown = answers.some((a) => a.status === 'fulfilled' || a.reason instanceof NameError);
    throw new NoAddress(isUnknown ? 'ENOTFOUND' : 'EAI_AGAIN');
  }

  /** Null when the address may be connected to; otherwise the sentence that says why not. */
  judge(host: string, address: string, port: number): string | null {
    const { targets, isOwnPort } = this.#options;
    if (isOwnPort(port) && ownAddresses(port).check({ host, address, port }) !== null) {
      return `${address} port ${port} belongs to this agent itself, so no check may reach it`;
    }
    return targets.check({ host, address, port });
  }

  /** The same for a name whose address somebody else finds. */
  judgeName(host: string, port: number): string | null {
    return this.#options.targets.check({ host, address: null, port });
  }

  /**
   * Connects to the first of `addresses` that answers. All of them have been judged.
   *
   * @throws Error of connect
   */
  async connect(
    _host: string,
    addresses: readonly Address[],
    port: number,
    signal: AbortSignal,
  ): Promise<Socket> {
    if (this.#connections >= MAX_CONNECTIONS) throw errorOf('EMFILE');
    this.#connections++;
    const socket = connect({
      host: addresses.length === 1 ? addresses[0]!.address : 'target.invalid',
      port,
      lookup: (_host, _options, done) => done(null, [...addresses]),
      autoSelectFamily: addresses.length > 1,
      allowHalfOpen: true,
      noDelay: true,
    });
    socket.once('close', () => this.#connections--);
    return opened(socket, signal);
  }
}

function opened(socket: Socket, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => socket.destroy(errorOf('ETIMEDOUT')), CONNECT_MS);
    const giveUp = (): void => void socket.destroy(errorOf('ECANCELED'));
    const settle = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
      socket.off('error', fail);
    };
    const fail = (error: Error): void => {
      settle();
      // Of several addresses: the last, as libraries show it.
      reject(error instanceof AggregateError ? (error.errors.at(-1) as Error) : error);
    };
    signal.addEventListener('abort', giveUp, { once: true });
    socket.once('error', fail);
    socket.once('connect', () => {
      settle();
      resolve(socket);
    });
    if (signal.aborted) giveUp();
  });
}

const errorOf = (code: string): Error => Object.assign(new Error(code), { code, errno: errnoOf(code) });

/** Their IPv6 address is often not listened on. */
const isLocalName = (host: string): boolean => /(^|\.)localhost\.?$/i.test(host);

/** A policy that closes one port at every address of this machine, in every spelling. */
function ownAddresses(port: number): TargetPolicy {
  const interfaces = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const addresses = ['127.0.0.0/8', '::1', ...interfaces.map(({ address }) => address)];
  const entries = addresses.map((entry) => (isIP(entry) === 6 ? `[${entry}]:${port}` : `${entry}:${port}`));
  return parsePolicy(entries.join(' '), '');
}
