import {
  encodeName,
  RCODE,
  rdataText,
  sameName,
  serverText,
  TYPE,
  type DnsMessage,
  type DnsRecord,
} from '../dns-wire/index.ts';
import { NameError, type NameErrorCode } from '../resolve.ts';
import { askServers } from './servers.ts';
import type { ResolvConf } from './system-files.ts';

export interface Found {
  addresses: string[];
  source: string;
  /** How long it may be remembered; 0: not at all. */
  ttlSeconds: number;
}

/** RFC 1034 sets no bound; 16 links are far beyond any honest chain. */
const MAX_CHAIN = 16;
/** Questions for one candidate when a server returns its chain piece by piece. */
const MAX_QUESTIONS = 8;

/**
 * Looks a name up by the rules of resolv.conf: as it is when it has at least `ndots` dots or ends in
 * one, then with each search domain (the other way round with fewer dots). A domain that the servers
 * cannot answer for ends the search: going on might find another host of the same first label.
 *
 * @throws NameError, AgentFault `RESOLVER_UNREACHABLE`
 */
export async function lookUp(name: string, family: 4 | 6, conf: ResolvConf): Promise<Found> {
  let verdict: NameError | undefined;
  for (const candidate of candidates(name, conf)) {
    try {
      return await lookUpExact(candidate, family, conf);
    } catch (error) {
      if (!(error instanceof NameError) || error.code === 'ESERVFAIL') throw error;
      // That the name exists without such an address says more than that some variant does not exist.
      if (verdict === undefined || (verdict.code === 'ENOTFOUND' && error.code === 'ENODATA'))
        verdict = error;
    }
  }
  // In terms of the name that was asked for, not of a variant from the search list.
  throw refusal(verdict!.code, name, family, verdict!.source);
}

function candidates(name: string, conf: ResolvConf): string[] {
  if (name.endsWith('.')) return [name];
  const dots = name.split('.').length - 1;
  const searched = conf.search.map((domain) => `${name}.${domain}`).filter(fits);
  return dots >= conf.ndots ? [name, ...searched] : [...searched, name];
}

/** A search domain may make a name too long to exist. */
function fits(name: string): boolean {
  return name.length <= 253;
}

async function lookUpExact(name: string, family: 4 | 6, conf: ResolvConf): Promise<Found> {
  const type = family === 4 ? TYPE['A']! : TYPE['AAAA']!;
  let asked = name.endsWith('.') ? name : `${name}.`;
  let ttlSeconds = Infinity;
  for (let questions = 0; questions < MAX_QUESTIONS; questions++) {
    const { message, server } = await askServers({ name: encodeName(asked), type }, asked, conf);
    const source = serverText(server);
    const chain = followChain(message, asked, type);
    ttlSeconds = Math.min(ttlSeconds, chain.ttlSeconds);
    if (chain.addresses.length > 0) return { addresses: chain.addresses, source, ttlSeconds };
    if (message.rcode === RCODE.nxDomain) throw refusal('ENOTFOUND', name, family, source);
    if (chain.looped) throw broken(name, source);
    if (sameName(chain.end, asked)) throw refusal('ENODATA', name, family, source);
    asked = chain.end;
  }
  throw broken(name, 'its name servers');
}

interface Chain {
  addresses: string[];
  /** The name where the answer's chain of aliases ends. */
  end: string;
  ttlSeconds: number;
  looped: boolean;
}

function followChain(message: DnsMessage, name: string, type: number): Chain {
  let end = name;
  let ttlSeconds = Infinity;
  const take = (record: DnsRecord): string => {
    // A TTL with the highest bit set counts as 0 (RFC 2181, 8).
    ttlSeconds = Math.min(ttlSeconds, record.ttl > 0x7fffffff ? 0 : record.ttl);
    return rdataText(message.bytes, record);
  };
  for (let links = 0; links <= MAX_CHAIN; links++) {
    const here = message.answers.filter((record) => record.class === 1 && sameName(record.name, end));
    const addresses = here.filter((record) => isAddress(record, type)).map(take);
    if (addresses.length > 0) return { addresses, end, ttlSeconds, looped: false };
    const alias = here.find((record) => record.type === TYPE['CNAME']);
    if (alias === undefined) return { addresses: [], end, ttlSeconds, looped: false };
    end = take(alias);
  }
  return { addresses: [], end, ttlSeconds, looped: true };
}

/** Of the wanted type and with data of the right length. */
const isAddress = (record: DnsRecord, type: number): boolean =>
  record.type === type && record.end - record.start === (type === TYPE['A'] ? 4 : 16);

function refusal(code: NameErrorCode, name: string, family: 4 | 6, source: string): NameError {
  const what = code === 'ENOTFOUND' ? 'does not exist' : `has no IPv${family} address`;
  return new NameError(code, name, source, `${name} ${what} (asked ${source})`);
}

const broken = (name: string, source: string): NameError =>
  new NameError('ESERVFAIL', name, source, `the aliases of ${name} go round in a circle (asked ${source})`);
