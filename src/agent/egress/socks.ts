import { isIP } from 'node:net';

/** The server's half of SOCKS5 (RFC 1928), as far as browsers use it: no authentication, CONNECT only. */
export const SOCKS_VERSION = 5;
export const NO_AUTHENTICATION = Buffer.from([5, 0]);

const NO_METHOD = Buffer.from([5, 0xff]);
const CONNECT = 1;
const IPV4 = 1;
const NAME = 3;
const IPV6 = 4;

export interface SocksTarget {
  host: string;
  port: number;
}

/** Not SOCKS, or not the part of it that is spoken here; `answer` is what the client is told, if anything. */
export class SocksError extends Error {
  readonly answer: Buffer | null;
  constructor(message: string, answer: Buffer | null = null) {
    super(message);
    this.answer = answer;
  }
}

/** @returns the greeting's length, or null when more of it must come */
export function greetingLength(bytes: Buffer): number | null {
  if (bytes.length < 2 || bytes.length < 2 + bytes[1]!) return null;
  const end = 2 + bytes[1]!;
  if (!bytes.subarray(2, end).includes(0)) throw new SocksError('no common method', NO_METHOD);
  return end;
}

/** @returns null when more of it must come; nothing may follow it before it is answered */
export function readRequest(bytes: Buffer): SocksTarget | null {
  if (bytes.length < 5) return null;
  const [version, command, , type, first] = bytes;
  if (version !== SOCKS_VERSION) throw new SocksError('not SOCKS5');
  if (command !== CONNECT) throw new SocksError('not CONNECT', reply(7));
  const length = type === IPV4 ? 4 : type === IPV6 ? 16 : type === NAME ? 1 + first! : 0;
  if (length <= 1) throw new SocksError('no address', reply(8));
  const end = 4 + length + 2;
  if (bytes.length < end) return null;
  if (bytes.length > end) throw new SocksError('more than a request');
  const host = hostOf(bytes.subarray(4, 4 + length), type!);
  return { host, port: bytes.readUInt16BE(end - 2) };
}

function hostOf(bytes: Buffer, type: number): string {
  if (type === IPV4) return bytes.join('.');
  if (type === NAME) {
    const name = bytes.toString('latin1', 1);
    // What is no name and no address would be told apart differently by whoever reads it next.
    if (isIP(name) === 0 && !/^[\w.-]+$/.test(name)) throw new SocksError('not a name', reply(8));
    return name;
  }
  const parts = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(2 * index).toString(16));
  return parts.join(':');
}

export const CONNECTED = reply(0);

/** The code of a reply for an error of connect or of a name. */
export function failureReply(code: string): Buffer {
  const found: Readonly<Record<string, number>> = {
    ERR_TARGET_BLOCKED: 2,
    ENETUNREACH: 3,
    EHOSTUNREACH: 4,
    ENOTFOUND: 4,
    EAI_AGAIN: 4,
    ECONNREFUSED: 5,
    ETIMEDOUT: 6,
  };
  return reply(found[code] ?? 1);
}

function reply(code: number): Buffer {
  return Buffer.from([SOCKS_VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]);
}
