import { connect, isIP, type Socket } from 'node:net';
import { monoMs } from '../../kit/clock.ts';
import { NameError, type Resolution } from '../resolve.ts';
import { localFaultOf } from '../local-fault.ts';
import { permitted } from '../permit.ts';
import { OPEN_POLICY, type TargetPolicy } from '../target-policy/index.ts';
import { ConnectError, connectFailure, TargetFailure } from './failure.ts';
import { hostOf, openTunnel, portOf, type Proxy, proxyUnreachable } from './proxy.ts';
import { secure, type Secured, type TlsFacts } from './tls.ts';
import type { Trip } from './trip.ts';

/** A connection over which one request can be sent. */
export interface Route {
  socket: Socket;
  tls: TlsFacts | null;
  http2: boolean;
}

/** Before an address gives way to the next one of the same name, ms. The last has all the time left. */
const NEXT_ADDRESS_MS = 5000;
/**
 * A handshake that is slow waits for the network instead of computing; then it makes room, ms. Four
 * places of 20 ms let 200 checks a second of far targets through.
 */
const HANDSHAKE_PLACE_MS = 20;
/** Behind a proxy there may be no name server for targets at all. */
const NAME_BEHIND_PROXY_MS = 300;

/** Opens the way to `url`, through the proxy if there is one. */
export async function openRoute(url: URL, trip: Trip, alpn: string[]): Promise<Route> {
  const encrypted = url.protocol === 'https:';
  const { proxy, options } = trip;
  const { handshakes } = options;
  if (!encrypted && proxy?.protocol !== 'https:')
    return { socket: await reach(url, trip), tls: null, http2: false };
  const addresses = proxy ? null : await lookUp(hostOf(url), trip, trip.options.family);
  const leave = await trip.clock.pausedWhile(handshakes.enter());
  const timer = setTimeout(leave, HANDSHAKE_PLACE_MS);
  try {
    const socket = await reach(url, trip, addresses);
    if (!encrypted) return { socket, tls: null, http2: false };
    const { socket: secured, facts, alpn: chosen } = await encrypt(socket, url, trip, alpn);
    return { socket: secured, tls: facts, http2: chosen === 'h2' };
  } finally {
    clearTimeout(timer);
    leave();
  }
}

async function reach(url: URL, trip: Trip, known: Resolution | null = null): Promise<Socket> {
  const { proxy } = trip;
  const { targets } = trip.options;
  if (proxy === null) return await connectTo(hostOf(url), portOf(url), trip, targets, known);
  await trip.clock.pausedWhile(judgeBehindProxy(url, trip));
  const socket = await connectToProxy(proxy, trip);
  trip.proxyReached = true;
  trip.endpoint = `${url.host} through ${proxy.name}`;
  if (url.protocol === 'http:') return socket;
  const tunnel = await openTunnel(socket, proxy, `${url.hostname}:${portOf(url)}`);
  trip.note(`tunnel to ${url.host} through ${proxy.name}`);
  return trip.hold(tunnel);
}

/**
 * The proxy resolves the name and connects, so its own rules are the wall. What is plain from here is not
 * even asked of it: names, addresses, and names that this agent can resolve as well.
 */
async function judgeBehindProxy(url: URL, trip: Trip): Promise<void> {
  const { resolver, targets, family, signal } = trip.options;
  const [host, port] = [hostOf(url), portOf(url)];
  const soon = AbortSignal.any([signal, AbortSignal.timeout(NAME_BEHIND_PROXY_MS)]);
  const found = await resolver.resolve(host, family, soon).catch(() => null);
  signal.throwIfAborted();
  if (found !== null) permitted(targets, host, port, found.addresses);
  else permitted(targets, host, port, [{ address: null }]);
}

async function connectToProxy(proxy: Proxy, trip: Trip): Promise<Socket> {
  try {
    const socket = await connectTo(proxy.host, proxy.port, trip, OPEN_POLICY, null);
    // The proxy's name is not what the result is about.
    trip.address = null;
    if (proxy.protocol === 'http:') return socket;
    const isAddress = isIP(proxy.host) !== 0;
    const options = { skipSSL: false, alpn: ['http/1.1'] };
    return trip.hold((await secure(socket, proxy.host, isAddress, proxy.name, options)).socket);
  } catch (error) {
    trip.options.signal.throwIfAborted();
    throw proxyUnreachable(proxy, error);
  }
}

async function encrypt(socket: Socket, url: URL, trip: Trip, alpn: string[]): Promise<Secured> {
  trip.clock.enter('tls');
  const name = hostOf(url).replace(/\.$/, '');
  const { skipSSL } = trip.options;
  const secured = await secure(socket, name, isIP(name) !== 0, trip.endpoint, { skipSSL, alpn });
  trip.hold(secured.socket);
  const { protocol, cipher, certificate } = secured.facts;
  trip.note(
    `${protocol} ${cipher}, certificate for ${certificate?.subject ?? 'nobody'}, ${certificate?.daysLeft ?? 0} days left`,
  );
  return secured;
}

async function lookUp(host: string, trip: Trip, family: 4 | 6): Promise<Resolution> {
  trip.clock.enter('dns');
  const literal = isIP(host);
  if (literal !== 0) {
    return {
      addresses: [{ address: host, family: literal === 6 ? 6 : 4 }],
      source: 'literal',
      durationMs: 0,
    };
  }
  const resolution = await trip.options.resolver.resolve(host, family, trip.options.signal);
  const found = resolution.addresses.map(({ address }) => address).join(', ');
  trip.note(`${host} is ${found}, says ${resolution.source}`);
  return resolution;
}

async function connectTo(
  host: string,
  port: number,
  trip: Trip,
  targets: TargetPolicy,
  known: Resolution | null,
): Promise<Socket> {
  const { family } = trip.options;
  const open = ({ addresses, ...more }: Resolution): Resolution => ({
    ...more,
    addresses: permitted(targets, host, port, addresses),
  });
  const resolution = open(known ?? (await lookUp(host, trip, family)));
  try {
    return await connectAny(resolution, port, trip);
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    const fault = await localFaultOf(error.cause, error.address);
    if (fault === null) throw connectFailure(error);
    const other =
      error.familyUnusable && resolution.source !== 'literal' ? await otherFamily(host, trip) : null;
    if (other === null) throw fault;
    trip.note(`IPv${family} does not work on this machine (${error.code}), trying the other family`);
    return await connectAny(open(other), port, trip).catch(async (second: unknown) => {
      if (!(second instanceof ConnectError)) throw second;
      throw (await localFaultOf(second.cause, second.address)) ?? connectFailure(second);
    });
  }
}

async function otherFamily(host: string, trip: Trip): Promise<Resolution | null> {
  try {
    return await lookUp(host, trip, trip.options.family === 4 ? 6 : 4);
  } catch (error) {
    if (error instanceof NameError) return null;
    throw error;
  }
}

/** Tries the addresses in order. Of several failures the first that may be the target's counts. */
async function connectAny({ addresses }: Resolution, port: number, trip: Trip): Promise<Socket> {
  trip.clock.enter('tcp');
  let telling: ConnectError | undefined;
  for (const [index, { address, family }] of addresses.entries()) {
    const isLast = index === addresses.length - 1;
    try {
      return await connectOnce(address, family, port, isLast ? 0 : NEXT_ADDRESS_MS, trip);
    } catch (error) {
      if (!(error instanceof ConnectError) || trip.options.signal.aborted) throw error;
      trip.note(`${error.endpoint}: ${error.message}`, 'ERROR');
      if (telling === undefined || (telling.familyUnusable && !error.familyUnusable)) telling = error;
    }
  }
  throw telling ?? new TargetFailure('ENODATA', 'the name has no address', true);
}

/** @param limitMs 0 for no limit of its own */
function connectOnce(
  address: string,
  family: 4 | 6,
  port: number,
  limitMs: number,
  trip: Trip,
): Promise<Socket> {
  const endpoint = family === 6 ? `[${address}]:${port}` : `${address}:${port}`;
  trip.endpoint = endpoint;
  trip.address = address;
  const startedMs = monoMs();
  return new Promise((resolve, reject) => {
    const socket = trip.hold(connect({ host: address, port }));
    const timer =
      limitMs === 0 ? undefined : setTimeout(() => socket.destroy(attemptTimedOut(limitMs)), limitMs);
    // Stays for the life of the socket: an error between two owners must not end the process.
    socket.on('error', (error) => {
      clearTimeout(timer);
      reject(new ConnectError(error, address, endpoint));
    });
    socket.once('connect', () => {
      clearTimeout(timer);
      trip.note(`connected to ${endpoint} in ${(monoMs() - startedMs).toFixed(1)} ms`);
      resolve(socket);
    });
  });
}

function attemptTimedOut(limitMs: number): Error {
  return Object.assign(new Error(`no connection within ${limitMs} ms`), { code: 'ETIMEDOUT' });
}
