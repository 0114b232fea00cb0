import { randomBytes, randomInt } from 'node:crypto';
import ipaddr from 'ipaddr.js';
import {
  AF_INET,
  AF_INET6,
  closeSocket,
  interfaceIndex,
  openSocket,
  realtimeMs,
  receive,
  sendTo,
  setOption,
  SOCK_DGRAM,
  SOCK_RAW,
  timespecMs,
  type ControlMessage,
} from './native.ts';
import { PACKET_BYTES } from './ping.ts';

const SOL_SOCKET = 1;
const SO_RCVBUF = 8;
const SO_TIMESTAMPNS = 35;
const SOL_RAW = 255;
const FILTER = 1;
const ORIGIN_ICMP = new Set([2, 3]);

/** What differs between the two families. */
const FAMILIES = {
  4: {
    af: AF_INET,
    protocol: 1,
    level: 0,
    options: { recvTtl: 12, recvErrors: 11 },
    ttlMessage: 2,
    request: 8,
    reply: 0,
  },
  6: {
    af: AF_INET6,
    protocol: 58,
    level: 41,
    options: { recvTtl: 51, recvErrors: 25 },
    ttlMessage: 52,
    request: 128,
    reply: 129,
  },
} as const;

/** News about one echo request: a reply, or an error that some host reported. */
export interface Arrival {
  sequence: number;
  type: number;
  code: number;
  isReply: boolean;
  /** By the clock of `realtimeMs`: when the kernel received it. */
  atMs: number;
  ttl: number | null;
}

/**
 * An ICMP socket: a datagram one, which needs no privilege where the kernel allows it, or a raw one.
 * The kernel stamps what it receives, so it does not matter how late it is read.
 */
export class IcmpSocket {
  readonly family: 4 | 6;
  readonly #isRaw: boolean;
  readonly #fd: number;
  /** A raw socket sees the replies of the whole machine; the kernel replaces it on a datagram one. */
  readonly #id = randomInt(0x10000);
  /** Nobody who does not see our packets can forge a reply to them. */
  readonly #nonce = randomBytes(8);

  /** @throws SystemCallError EACCES or EPERM when this process may not, EAFNOSUPPORT without IPv6 */
  constructor(family: 4 | 6, kind: 'datagram' | 'raw') {
    const { af, protocol, level, options } = FAMILIES[family];
    this.family = family;
    this.#isRaw = kind === 'raw';
    this.#fd = openSocket(af, this.#isRaw ? SOCK_RAW : SOCK_DGRAM, protocol);
    try {
      setOption(this.#fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
      setOption(this.#fd, SOL_SOCKET, SO_RCVBUF, 1024 * 1024);
      setOption(this.#fd, level, options.recvTtl, 1);
      setOption(this.#fd, level, options.recvErrors, 1);
      if (this.#isRaw) setOption(this.#fd, family === 4 ? SOL_RAW : protocol, FILTER, replyFilter(family));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  close(): void {
    closeSocket(this.#fd);
  }

  /**
   * Sends one echo request.
   *
   * @param sequence 0–65535, unique among the requests that wait for replies
   * @returns when it was sent, by the clock of `realtimeMs`
   * @throws SystemCallError
   */
  send(address: string, sequence: number): number {
    return sendTo(this.#fd, this.#request(sequence), socketAddress(address, this.family));
  }

  /** All news that have come in. */
  drain(): Arrival[] {
    const arrivals: Arrival[] = [];
    for (const fromErrors of [true, false]) {
      for (let next = receive(this.#fd, fromErrors); next; next = receive(this.#fd, fromErrors)) {
        const arrival = fromErrors
          ? this.#error(next.packet, next.control)
          : this.#reply(this.#withoutIpHeader(next.packet), next.control);
        if (arrival) arrivals.push(arrival);
      }
    }
    return arrivals;
  }

  #request(sequence: number): Buffer {
    const packet = Buffer.alloc(PACKET_BYTES, 0x20);
    packet.writeUInt16BE(FAMILIES[this.family].request << 8, 0);
    packet.writeUInt16BE(0, 2);
    packet.writeUInt16BE(this.#id, 4);
    packet.writeUInt16BE(sequence, 6);
    this.#nonce.copy(packet, 8);
    // For IPv6 the kernel computes it: the addresses are part of it there.
    packet.writeUInt16BE(checksum(packet), 2);
    return packet;
  }

  /** Only raw IPv4 sockets deliver the IP header. */
  #withoutIpHeader(packet: Buffer): Buffer {
    return this.#isRaw && this.family === 4 ? packet.subarray(((packet[0] ?? 0) & 0xf) * 4) : packet;
  }

  #isOurs(packet: Buffer): boolean {
    if (packet.length < 16 || !packet.subarray(8, 16).equals(this.#nonce)) return false;
    return !this.#isRaw || packet.readUInt16BE(4) === this.#id;
  }

  #reply(packet: Buffer, control: readonly ControlMessage[]): Arrival | undefined {
    const { level, reply, ttlMessage } = FAMILIES[this.family];
    if (packet[0] !== reply || !this.#isOurs(packet)) return undefined;
    const find = (at: number, type: number): Buffer | undefined =>
      control.find((each) => each.level === at && each.type === type)?.data;
    const stamp = find(SOL_SOCKET, SO_TIMESTAMPNS);
    return {
      sequence: packet.readUInt16BE(6),
      type: reply,
      code: packet[1] ?? 0,
      isReply: true,
      atMs: stamp ? timespecMs(stamp) : realtimeMs(),
      ttl: find(level, ttlMessage)?.readInt32LE(0) ?? null,
    };
  }

  /** `struct sock_extended_err`: errno 0–3, origin 4, ICMP type 5 and code 6. */
  #error(packet: Buffer, control: readonly ControlMessage[]): Arrival | undefined {
    const { level, options } = FAMILIES[this.family];
    const told = control.find((each) => each.level === level && each.type === options.recvErrors)?.data;
    if (!told || !ORIGIN_ICMP.has(told[4] ?? 0) || packet.length < 8) return undefined;
    // Routers return as little as the first 8 bytes, so the nonce may be missing.
    if (packet.length >= 16 && !this.#isOurs(packet)) return undefined;
    if (this.#isRaw && packet.readUInt16BE(4) !== this.#id) return undefined;
    return {
      sequence: packet.readUInt16BE(6),
      type: told[5] ?? 0,
      code: told[6] ?? 0,
      isReply: false,
      atMs: realtimeMs(),
      ttl: null,
    };
  }
}

/** Lets only echo replies through; without it a raw socket gets all ICMP of the machine. */
function replyFilter(family: 4 | 6): Buffer {
  if (family === 4) return Buffer.from([0xfe, 0xff, 0xff, 0xff]);
  const blocked = Buffer.alloc(32, 0xff);
  blocked.writeUInt32LE(~(1 << (FAMILIES[6].reply & 31)) >>> 0, (FAMILIES[6].reply >> 5) * 4);
  return blocked;
}

/** `struct sockaddr_in` or `sockaddr_in6`. */
function socketAddress(text: string, family: 4 | 6): Buffer {
  const [address = '', zone] = text.split('%');
  const bytes = Buffer.from(ipaddr.parse(address).toByteArray());
  const result = Buffer.alloc(family === 4 ? 16 : 28);
  result.writeUInt16LE(FAMILIES[family].af, 0);
  bytes.copy(result, family === 4 ? 4 : 8);
  if (zone !== undefined && family === 6) {
    result.writeUInt32LE(/^\d+$/.test(zone) ? Number(zone) : interfaceIndex(zone), 24);
  }
  return result;
}

/** RFC 1071. */
function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
