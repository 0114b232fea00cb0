import { isIP, type Socket } from 'node:net';
import { AgentFault } from '../../checks/check-type.ts';
import {
  openTunnel,
  parseProxy,
  type Proxy,
  proxyUnreachable,
  secure,
  TargetFailure,
} from '../../checks/http-probe/index.ts';
import { messageOf } from '../../kit/errors.ts';
import { goesDirect } from '../../kit/proxies.ts';
import { NoAddress, type Address, type Dialer, type Way } from './dialer.ts';

/** The proxy of the location does not do its part: nothing is known about the target. */
export class ProxyFault extends Error {
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ProxyFault';
    this.code = code;
  }
}

/** Behind a proxy there may be no name server for targets at all. */
const NAME_MS = 300;
/** The proxy itself connects to the target within this time. */
const TUNNEL_MS = 20_000;
const MAX_NAMES = 1_000;

/**
 * The way through the proxy of the location: a tunnel for every connection, whatever is spoken in it. The
 * proxy looks names up, so one that is unknown here gets an address of a range that leads nowhere (240/4,
 * reserved), which stands for it until it is dialled. What is plain from here is not asked of the proxy:
 * the policy judges names, addresses, and names that this agent can look up as well.
 */
export class ProxyWay implements Way {
  readonly #dialer: Dialer;
  readonly #proxyUrl: string;
  readonly #noProxy: string;
  /** Addresses that stand for a name. */
  readonly #standIns = new Map<string, string>();

  constructor(dialer: Dialer, proxyUrl: string, noProxy: string) {
    this.#dialer = dialer;
    this.#proxyUrl = proxyUrl;
    this.#noProxy = noProxy;
  }

  async resolve(host: string, family: 0 | 4 | 6, signal: AbortSignal): Promise<Address[]> {
    const literal = isIP(host);
    if (literal !== 0) return [{ address: host, family: literal === 6 ? 6 : 4 }];
    const soon = AbortSignal.any([signal, AbortSignal.timeout(NAME_MS)]);
    // Of a name that the proxy is not for only this machine knows the address.
    const limit = goesDirect({ host, port: 0 }, this.#noProxy) ? signal : soon;
    try {
      return await this.#dialer.resolve(host, family, limit);
    } catch (error) {
      if (limit === signal || family === 6) throw error;
      return [{ address: this.#standInFor(host), family: 4 }];
    }
  }

  judge(host: string, address: string, port: number): string | null {
    const isStandIn = this.#standIns.has(address);
    return isStandIn ? this.#dialer.judgeName(host, port) : this.#dialer.judge(host, address, port);
  }

  async connect(
    host: string,
    addresses: readonly Address[],
    port: number,
    signal: AbortSignal,
  ): Promise<Socket> {
    const name = this.#standIns.get(host) ?? host;
    const isDirect = [name, ...addresses.map(({ address }) => address)].some((each) =>
      goesDirect({ host: each, port }, this.#noProxy),
    );
    if (isDirect) return this.#dialer.connect(name, addresses, port, signal);
    const proxy = this.#proxy();
    const socket = await this.#reachProxy(proxy, signal);
    return tunnel(socket, proxy, isIP(name) === 6 ? `[${name}]:${port}` : `${name}:${port}`, signal);
  }

  #standInFor(host: string): string {
    for (const [address, name] of this.#standIns) if (name === host) return address;
    if (this.#standIns.size >= MAX_NAMES) throw new NoAddress('EAI_AGAIN');
    const number = this.#standIns.size + 1;
    const address = `240.0.${number >> 8}.${number & 0xff}`;
    this.#standIns.set(address, host);
    return address;
  }

  #proxy(): Proxy {
    try {
      return parseProxy(this.#proxyUrl);
    } catch (error) {
      throw faultOf(error);
    }
  }

  async #reachProxy(proxy: Proxy, signal: AbortSignal): Promise<Socket> {
    try {
      const isAddress = isIP(proxy.host) !== 0;
      const addresses: Address[] = isAddress
        ? [{ address: proxy.host, family: isIP(proxy.host) === 6 ? 6 : 4 }]
        : await this.#dialer.resolve(proxy.host, 0, signal);
      const socket = await this.#dialer.connect(proxy.host, addresses, proxy.port, signal);
      if (proxy.protocol === 'http:') return socket;
      const options = { skipSSL: false, alpn: ['http/1.1'] };
      return (await secure(socket, proxy.host, isAddress, proxy.name, options)).socket;
    } catch (error) {
      throw faultOf(proxyUnreachable(proxy, error));
    }
  }
}

async function tunnel(socket: Socket, proxy: Proxy, authority: string, signal: AbortSignal): Promise<Socket> {
  const giveUp = (): void =>
    void socket.destroy(Object.assign(new Error('ETIMEDOUT'), { code: 'ETIMEDOUT' }));
  const timer = setTimeout(giveUp, TUNNEL_MS);
  signal.addEventListener('abort', giveUp, { once: true });
  try {
    return await openTunnel(socket, proxy, authority);
  } catch (error) {
    socket.destroy();
    // Its own words: it has tried, and the target does not answer.
    if (error instanceof TargetFailure) throw Object.assign(error, { code: 'EHOSTUNREACH' });
    throw faultOf(error);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', giveUp);
  }
}

function faultOf(error: unknown): ProxyFault {
  const code = error instanceof AgentFault ? error.code : 'PROXY_UNREACHABLE';
  return new ProxyFault(code, messageOf(error), { cause: error });
}
