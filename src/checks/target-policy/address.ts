import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** An IP address as four words of 32 bits; IPv4 in its IPv6-mapped form, so that one comparison does. */
export type Words = readonly [number, number, number, number];

export interface Range {
  words: Words;
  /** Of 128. */
  bits: number;
}

const MAPPED = 0xffff;
const TRANSLATED = 0xffff0000;
const LOOPBACK_4: Words = [0, 0, MAPPED, 0x7f000001];
const LOOPBACK_6: Words = [0, 0, 0, 1];

/** Null for what is no IP address. A zone (`%eth0`) chooses an interface, not another address. */
export function wordsOf(address: string): Words | null {
  const bare = address.includes('%') ? address.slice(0, address.indexOf('%')) : address;
  if (isIPv4(bare)) return [0, 0, MAPPED, ipv4Word(bare)];
  if (!isIPv6(bare)) return null;
  const parts = ipaddr.IPv6.parse(bare).parts;
  const word = (index: number): number => ((parts[index]! << 16) | parts[index + 1]!) >>> 0;
  return [word(0), word(2), word(4), word(6)];
}

/** The library is ten times slower, and probes ask for every connection. */
function ipv4Word(text: string): number {
  let word = 0;
  let part = 0;
  for (let index = 0; index < text.length; index++) {
    const digit = text.charCodeAt(index) - 48;
    if (digit >= 0) part = part * 10 + digit;
    else {
      word = (word << 8) | part;
      part = 0;
    }
  }
  return ((word << 8) | part) >>> 0;
}

/** The range of `10.0.0.0/8`, `fd00::/8` or one address; null for what is none. */
export function rangeOf(text: string): Range | null {
  const [address = '', prefix, ...rest] = text.split('/');
  const words = wordsOf(address);
  if (words === null || rest.length > 0) return null;
  if (prefix === undefined) return { words, bits: 128 };
  const offset = isIPv4(address) ? 96 : 0;
  if (!/^\d{1,3}$/.test(prefix) || Number(prefix) > 128 - offset) return null;
  return { words, bits: Number(prefix) + offset };
}

export function contains(range: Range, words: Words): boolean {
  let bits = range.bits;
  for (let index = 0; bits > 0; index++, bits -= 32) {
    const differs = range.words[index]! ^ words[index]!;
    if ((bits >= 32 ? differs : differs >>> (32 - bits)) !== 0) return false;
  }
  return true;
}

const ipv4 = (word: number): Words => [0, 0, MAPPED, word];

/**
 * The addresses that a connection to `words` may end at: itself, the IPv4 address that it carries, and
 * loopback for the unspecified address, which Linux takes for it.
 */
export function endsOf(words: Words): readonly Words[] {
  const [a, b, c, d] = words;
  if (a === 0 && b === 0) {
    if (c === MAPPED) return d === 0 ? [words, LOOPBACK_4] : [words];
    if (c === 0 && d === 0) return [words, LOOPBACK_6, LOOPBACK_4];
    // IPv4-compatible (RFC 4291, 2.5.5.1) and IPv4-translated (RFC 2765, 2.1).
    if ((c === 0 && d > 1) || c === TRANSLATED) return [words, ipv4(d)];
    return [words];
  }
  return [words, ...translated(words)];
}

/** By NAT64, by the well-known prefix and by any length of the local one (RFC 6052, 2.2), and by 6to4. */
function translated([a, b, c, d]: Words): Words[] {
  if (a === 0x64ff9b && b === 0 && c === 0) return [ipv4(d)];
  if (a === 0x64ff9b && b >>> 16 === 1) {
    const at48 = ((b & 0xffff) << 16) | ((c >>> 8) & 0xffff);
    const at56 = ((b & 0xff) << 24) | (c & 0xffffff);
    const at64 = ((c & 0xffffff) << 8) | (d >>> 24);
    return [d, at48, at56, at64].map((word) => ipv4(word >>> 0));
  }
  if (a >>> 16 === 0x2002) return [ipv4((((a & 0xffff) << 16) | (b >>> 16)) >>> 0)];
  return [];
}
