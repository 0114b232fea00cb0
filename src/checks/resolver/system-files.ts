import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { monoMs } from '../../kit/clock.ts';
import type { ServerAddress } from '../dns-wire/index.ts';

export interface ResolvConf {
  servers: readonly ServerAddress[];
  search: readonly string[];
  /** Names with fewer dots try the search list first. */
  ndots: number;
  timeoutSeconds: number;
  attempts: number;
  edns: boolean;
  useTcp: boolean;
  rotate: boolean;
}

/** A file is looked at again after this time, ms, and read again when it has changed. */
const RECHECK_MS = 3000;

/** A reader of `path` that parses again only what changed. A missing file counts as empty. */
function watchedFile<T>(path: string, parse: (text: string) => T): () => T {
  let value: T | undefined;
  let stamp = '';
  let checkedMs = -Infinity;
  return () => {
    if (value !== undefined && monoMs() - checkedMs < RECHECK_MS) return value;
    checkedMs = monoMs();
    const newStamp = stampOf(path);
    if (value !== undefined && newStamp === stamp) return value;
    const text = newStamp === '' ? '' : read(path);
    // What could not be read this time (no free descriptor, just being replaced) is read the next time.
    if (text !== undefined) stamp = newStamp;
    value = text === undefined && value !== undefined ? value : parse(text ?? '');
    return value;
  };
}

/** Changes when the file is written or replaced, as kubelet and docker do; empty without a file. */
function stampOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat ? `${stat.ino} ${stat.mtimeMs} ${stat.size}` : '';
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

const lines = (text: string, comment: RegExp): string[][] =>
  text
    .split('\n')
    .map((line) => line.replace(comment, '').trim())
    .filter((line) => line !== '')
    .map((line) => line.split(/\s+/));

/** Lower-case name → its addresses in the order of the file. */
export const hostsFile = (path: string): (() => Map<string, string[]>) => watchedFile(path, parseHosts);

function parseHosts(text: string): Map<string, string[]> {
  const hosts = new Map<string, string[]>();
  for (const [address = '', ...names] of lines(text, /#.*/)) {
    if (isIP(address) === 0) continue;
    for (const name of new Set(names.map((each) => each.toLowerCase().replace(/\.$/, '')))) {
      const known = hosts.get(name) ?? [];
      if (!known.includes(address)) known.push(address);
      hosts.set(name, known);
    }
  }
  return hosts;
}

export const resolvConf = (path: string): (() => ResolvConf) => watchedFile(path, parseResolvConf);

/** The rules and bounds of resolv.conf(5): three servers, ndots ≤ 15, timeout ≤ 30 s, attempts ≤ 5. */
function parseResolvConf(text: string): ResolvConf {
  const servers: ServerAddress[] = [];
  let search: string[] = [];
  const options = new Map<string, number>();
  for (const [word = '', ...values] of lines(text, /^[#;].*/)) {
    const [first = ''] = values;
    if (word === 'nameserver' && isIP(first) !== 0 && servers.length < 3) {
      servers.push({ address: first, port: 53 });
    } else if (word === 'search' || word === 'domain') search = values;
    else if (word === 'options') {
      for (const option of values) options.set(option.split(':')[0]!, Number(option.split(':')[1] ?? 1));
    }
  }
  const bounded = (name: string, min: number, max: number, byDefault: number): number =>
    Math.min(max, Math.max(min, Math.trunc(options.get(name) ?? byDefault) || min));
  return {
    servers: servers.length > 0 ? servers : [{ address: '127.0.0.1', port: 53 }],
    search: search.map((domain) => domain.replace(/\.$/, '')).filter((domain) => domain !== ''),
    ndots: bounded('ndots', 0, 15, 1),
    timeoutSeconds: bounded('timeout', 1, 30, 5),
    attempts: bounded('attempts', 1, 5, 2),
    edns: options.has('edns0'),
    useTcp: options.has('use-vc'),
    rotate: options.has('rotate'),
  };
}
