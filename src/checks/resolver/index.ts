/**
 * Names of targets to addresses, without libuv's threads: IP literals, loopback names, the hosts file,
 * then the name servers of resolv.conf, with its search list, failover, truncation and CNAME chains.
 * Remembers answers for their TTL, at most 60 s, and asks once for all who wait for the same name.
 * Keeps nothing open between questions.
 */
import { isIP } from 'node:net';
import { monoMs } from '../../kit/clock.ts';
import { encodeName, BadName, parseServer, toAscii, type ServerAddress } from '../dns-wire/index.ts';
import { hasRoute } from '../local-fault.ts';
import { NameError, type Resolution, type Resolver } from '../resolve.ts';
import { askOs } from './os-resolver.ts';
import { lookUp, type Found } from './stub.ts';
import { hostsFile, resolvConf, type ResolvConf } from './system-files.ts';

export interface ResolverOptions {
  /** `10.0.0.2`, `10.0.0.2:5353`, `[::1]:53`: asked instead of those of resolv.conf. */
  servers?: readonly string[];
  /** Leave everything but IP literals to the operating system (`getaddrinfo`). */
  useOsResolver: boolean;
  hostsFile?: string;
  resolvConf?: string;
}

interface Remembered {
  found: Found;
  /** On the monotonic clock, ms. */
  until: number;
}

const MAX_TTL_MS = 60_000;
const MAX_REMEMBERED = 10_000;
/** Somewhere in the public IPv6 internet: only the route to it is looked up. */
const ANY_IPV6 = '2001:500:2::c';

/** @throws RangeError when one of `servers` is not an address */
export function createResolver(options: ResolverOptions): Resolver {
  const own = options.servers?.map(mustParse);
  const hosts = hostsFile(options.hostsFile ?? '/etc/hosts');
  const conf = resolvConf(options.resolvConf ?? '/etc/resolv.conf');
  const remembered = new Map<string, Remembered>();
  const underWay = new Map<string, Promise<Found>>();
  const settings = (): ResolvConf => (own ? { ...conf(), servers: own } : conf());

  async function ask(name: string, family: 4 | 6): Promise<Found> {
    if (options.useOsResolver) return askOs(name, family);
    const listed = hosts()
      .get(withoutLastDot(name).toLowerCase())
      ?.filter((each) => isIP(each) === family);
    if (listed && listed.length > 0) return { addresses: listed, source: 'hosts file', ttlSeconds: 0 };
    return lookUp(name, family, settings());
  }

  /** Shared by all who ask meanwhile, so no single caller's signal may end it; it ends by itself. */
  function askOnce(name: string, family: 4 | 6): Promise<Found> {
    const key = `${family} ${name.toLowerCase()}`;
    const known = remembered.get(key);
    if (known && known.until > monoMs()) return Promise.resolve(known.found);
    remembered.delete(key);
    const running = underWay.get(key);
    if (running) return running;
    const asked = ask(name, family)
      .then((found) => {
        if (found.ttlSeconds > 0) remember(key, found);
        return found;
      })
      .finally(() => underWay.delete(key));
    underWay.set(key, asked);
    return asked;
  }

  function remember(key: string, found: Found): void {
    const oldest = remembered.keys().next();
    if (remembered.size >= MAX_REMEMBERED && oldest.done !== true) remembered.delete(oldest.value);
    remembered.set(key, { found, until: monoMs() + Math.min(found.ttlSeconds * 1000, MAX_TTL_MS) });
  }

  /** IPv4 stands in where IPv6 is wanted and this machine has no way to it. */
  async function askReachable(name: string, family: 4 | 6): Promise<Found> {
    if (family === 4) return askOnce(name, 4);
    try {
      const found = await askOnce(name, 6);
      return (await hasRoute(found.addresses[0]!)) ? found : await askOnce(name, 4).catch(() => found);
    } catch (error) {
      if (!(error instanceof NameError) || error.code !== 'ENODATA' || (await hasRoute(ANY_IPV6)))
        throw error;
      return askOnce(name, 4);
    }
  }

  return {
    servers: () => settings().servers,
    async resolve(name, family, signal): Promise<Resolution> {
      const startedMs = monoMs();
      const found =
        withoutNetwork(name, family) ?? (await unlessAborted(askReachable(askable(name), family), signal));
      return {
        addresses: found.addresses.map((address) => ({ address, family: isIP(address) === 6 ? 6 : 4 })),
        source: found.source,
        durationMs: monoMs() - startedMs,
      };
    },
  };
}

function mustParse(text: string): ServerAddress {
  const server = parseServer(text);
  if (server) return server;
  throw new RangeError(`${text} is not a name server: an IP address with an optional port is allowed`);
}

const withoutLastDot = (name: string): string => (name.endsWith('.') ? name.slice(0, -1) : name);

/** What needs no question: literals (also `[::1]` and `fe80::1%eth0`) and loopback names (RFC 6761). */
function withoutNetwork(name: string, family: 4 | 6): Found | undefined {
  const bare = /^\[(.*)\]$/.exec(name)?.[1] ?? name;
  if (isIP(bare) !== 0) return { addresses: [bare], source: 'literal', ttlSeconds: 0 };
  if (name.includes(':') || looksNumeric(name)) {
    const message = `${name} is not a valid IP address`;
    throw new NameError('ERR_INVALID_IP_ADDRESS', name, 'literal', message);
  }
  if (!/(^|\.)localhost\.?$/i.test(name)) return undefined;
  return { addresses: [family === 4 ? '127.0.0.1' : '::1'], source: 'loopback', ttlSeconds: 0 };
}

/** No top-level domain is a number: `256.1.1.1` is a broken address, not a name (as in URLs). */
const looksNumeric = (name: string): boolean => /(^|\.)(\d+|0x[\da-f]*)\.?$/i.test(name);

/** The name in ASCII, if it can be asked for at all. */
function askable(name: string): string {
  try {
    const ascii = toAscii(name);
    encodeName(ascii);
    if (ascii === '' || ascii === '.') throw new BadName('an empty name has no address');
    return ascii;
  } catch (error) {
    if (!(error instanceof BadName)) throw error;
    throw new NameError('ENOTFOUND', name, 'name check', error.message);
  }
}

/** The work itself goes on: others may wait for it. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason as Error);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
