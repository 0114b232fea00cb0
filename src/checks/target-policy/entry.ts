import { type Range, rangeOf } from './address.ts';

/** An entry of a setting that means nothing; the message says which and what is allowed. */
export class PolicyError extends RangeError {
  readonly setting: string;
  constructor(setting: string, entry: string, why: string) {
    super(`${setting}: ${entry} ${why}`);
    this.name = 'PolicyError';
    this.setting = setting;
  }
}

/** One entry of a setting. */
export interface Entry {
  /** As it was written. */
  text: string;
  /** Null: every port. */
  port: number | null;
  /** Addresses; null when the entry is about names. */
  range: Range | null;
  /** The name or glob; null when the entry is about addresses. */
  name: string | null;
  /** @param name as asciiName() gives it */
  matchesName(name: string): boolean;
}

const ALLOWED_FORMS =
  'is no target: a CIDR (10.0.0.0/8), an address, a host name or glob (*.internal.example) is allowed, each with :port if wanted ([fd00::1]:443)';

/** @throws PolicyError with the entry that means nothing */
export function parseEntries(setting: string, text: string): Entry[] {
  return text
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .map((entry) => parseEntry(setting, entry));
}

function parseEntry(setting: string, text: string): Entry {
  const { target, port } = splitPort(text);
  if (port !== null && (port < 1 || port > 65_535)) {
    throw new PolicyError(setting, text, 'has a port that is not between 1 and 65535');
  }
  const range = rangeOf(target);
  if (range !== null) return { text, port, range, name: null, matchesName: () => false };
  if (!isGlob(target)) throw new PolicyError(setting, text, ALLOWED_FORMS);
  const name = asciiName(target);
  return { text, port, range: null, name, matchesName: globMatcher(name) };
}

/** `[::1]:80` and `[fd00::/8]:80`, but the colons of a bare IPv6 address are its own. */
function splitPort(text: string): { target: string; port: number | null } {
  const bracketed = /^\[([^\]]*)\](\/\d+)?(?::(\d+))?$/.exec(text);
  if (bracketed !== null) {
    const [, inside = '', prefix = '', port] = bracketed;
    return { target: inside + prefix, port: port === undefined ? null : Number(port) };
  }
  const plain = /^([^:]*):(\d+)$/.exec(text);
  if (plain === null) return { target: text, port: null };
  return { target: plain[1]!, port: Number(plain[2]) };
}

/** What looks like a mistyped address is no name: nobody is protected by `10.0.0/8` or `10.0.0.256`. */
const isGlob = (text: string): boolean =>
  /^[\p{L}\p{N}_*-]+(\.[\p{L}\p{N}_*-]+)*\.?$/u.test(text) &&
  (text === '*' || !/(^|\.)(\d+|0x[\da-f]*)\.?$/i.test(text)) &&
  !/^[\d.*]+$/.test(text.replace(/^\*$/, 'any'));

/** A star stands for any characters, dots too: `*.example` covers every name below it, not itself. */
function globMatcher(glob: string): (name: string) => boolean {
  const parts = glob.split('*');
  if (parts.length === 1) return (name) => name === parts[0];
  const [first = ''] = parts;
  const last = parts.at(-1) ?? '';
  return (name) => {
    if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last))
      return false;
    let from = first.length;
    for (const part of parts.slice(1, -1)) {
      const at = name.indexOf(part, from);
      if (at === -1) return false;
      from = at + part.length;
    }
    return from <= name.length - last.length;
  };
}

/** Lower case, without the last dot, in the form in which it is asked for. */
export function asciiName(name: string): string {
  const lower = name.toLowerCase().replace(/\.$/, '');
  // Labels one by one: a star is no part of a name.
  return /[^\u0020-\u007e]/.test(lower) ? lower.split('.').map(asciiLabel).join('.') : lower;
}

function asciiLabel(label: string): string {
  if (label.includes('*')) return label;
  const url = `http://${label}.invalid`;
  return URL.canParse(url) ? new URL(url).hostname.replace(/\.invalid$/, '') : label;
}
