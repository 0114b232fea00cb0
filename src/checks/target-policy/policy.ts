import { contains, endsOf, type Words, wordsOf } from './address.ts';
import { asciiName, type Entry, parseEntries } from './entry.ts';

export interface Target {
  /** As the check has it: a name, or an address in any spelling. */
  host: string;
  /** The one about to be connected to; null where someone else resolves the name (a proxy). */
  address: string | null;
  /** Null where there are no ports (ICMP). */
  port: number | null;
}

export interface TargetPolicy {
  /** Null when the target may be reached; otherwise a sentence that says which setting is in the way. */
  check(target: Target): string | null;
}

/** Everything may be reached: what talks to itself, and tests. */
export const OPEN_POLICY: TargetPolicy = { check: () => null };

/**
 * What clouds answer to their own machines: identity, keys, start-up scripts. IPv4's link-local range as a
 * whole, since every cloud has its own places in it and nothing that anyone monitors; of IPv6's only the
 * known ones, since ordinary hosts have such addresses.
 */
const CLOUD_ADDRESSES = [
  '169.254.0.0/16',
  // Amazon; Google; Oracle; OpenStack; Scaleway.
  'fd00:ec2::/32',
  'fd20:ce::254',
  'fd00:c1::a9fe:a9fe',
  'fe80::a9fe:a9fe',
  'fd00:42::42',
  // Alibaba; Oracle; Azure's host agent.
  '100.100.100.200',
  '192.0.0.192',
  '168.63.129.16',
];
/** For where someone else resolves them. */
const CLOUD_NAMES = [
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
  'metadata.azure.internal',
  'metadata.tencentyun.com',
];

const BUILT_IN = parseEntries('built in', [...CLOUD_ADDRESSES, ...CLOUD_NAMES].join(' '));

/** By what a target goes. */
interface Names {
  name: string;
  /** Where the connection may end; the first is the address itself. */
  ends: readonly Words[];
  port: number | null;
}

/**
 * The rules, in order: what BLOCKED_TARGETS has is closed. A cloud's metadata is closed unless
 * ALLOWED_TARGETS has an entry for that and nothing else. When ALLOWED_TARGETS has entries, what is in
 * none of them is closed.
 *
 * @param blocked CIDRs, addresses and host globs, with commas or spaces between them
 * @param allowed the same; `*` stands for everything
 * @throws PolicyError with the entry that means nothing
 */
export function parsePolicy(blocked: string, allowed: string): TargetPolicy {
  const closed = parseEntries('BLOCKED_TARGETS', blocked);
  const open = parseEntries('ALLOWED_TARGETS', allowed);
  const everything = open.length === 0 || open.some(({ text }) => text === '*');
  const narrow = open.filter(isNarrow);
  return {
    check(target) {
      const names = namesOf(target);
      const wall = closed.find((entry) => covers(entry, names));
      if (wall) return `${shown(target)} is blocked by ${wall.text} in BLOCKED_TARGETS of this agent`;
      const cloud = BUILT_IN.find((entry) => covers(entry, names));
      if (cloud && !narrow.some((entry) => isExactly(entry, names))) return cloudSentence(target, cloud);
      if (everything || open.some((entry) => isExactly(entry, names))) return null;
      return `${shown(target)} is not in ALLOWED_TARGETS of this agent`;
    },
  };
}

/** An entry for a part of a built-in range or for a built-in name, and nothing beyond. */
const isNarrow = ({ range, name }: Entry): boolean =>
  BUILT_IN.some((cloud) => {
    if (range === null || cloud.range === null) return name !== null && name === cloud.name;
    return range.bits >= cloud.range.bits && contains(cloud.range, range.words);
  });

function namesOf({ host, address, port }: Target): Names {
  const bare = host.startsWith('[') ? host.slice(1, -1) : host;
  const words = wordsOf(address ?? bare);
  return { name: asciiName(bare), ends: words === null ? [] : endsOf(words), port };
}

const isOnPort = (entry: Entry, port: number | null): boolean => entry.port === null || entry.port === port;

/** To close: in any way that leads there. */
function covers(entry: Entry, { name, ends, port }: Names): boolean {
  if (!isOnPort(entry, port)) return false;
  const { range } = entry;
  return range === null ? entry.matchesName(name) : ends.some((words) => contains(range, words));
}

/** To open: as it is written. */
function isExactly(entry: Entry, { name, ends, port }: Names): boolean {
  if (!isOnPort(entry, port)) return false;
  return entry.range === null ? entry.matchesName(name) : ends.length > 0 && contains(entry.range, ends[0]!);
}

function cloudSentence(target: Target, { text }: Entry): string {
  return `${shown(target)} is where a cloud keeps the keys of its machines (${text}): it stays blocked until ALLOWED_TARGETS of this agent names it`;
}

/** `db.example (10.0.0.7) port 5432`. */
function shown({ host, address, port }: Target): string {
  const where = address === null || address === host.replace(/^\[|\]$/g, '') ? host : `${host} (${address})`;
  return port === null ? where : `${where} port ${port}`;
}
