import { getSystemErrorName } from 'node:util';
import koffi from 'koffi';

/**
 * The few calls of the C library that ICMP needs and Node lacks. All of them return at once: sockets
 * are non-blocking, so nothing here holds the event loop or a thread. Numbers are those of Linux on
 * x64 and arm64.
 */
export const AF_INET = 2;
export const AF_INET6 = 10;
export const SOCK_DGRAM = 2;
export const SOCK_RAW = 3;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
const MSG_ERRQUEUE = 0x2000;
const CLOCK_REALTIME = 0;

const libc = koffi.load(null);
const cSocket = libc.func('int socket(int, int, int)');
const cClose = libc.func('int close(int)');
const cSetsockopt = libc.func('int setsockopt(int, int, int, void *, uint32_t)');
const cSendto = libc.func('int64_t sendto(int, void *, uint64_t, int, void *, uint32_t)');
const cRecvmsg = libc.func('int64_t recvmsg(int, void *, int)');
const cClockGettime = libc.func('int clock_gettime(int, void *)');
const cIfNametoindex = libc.func('uint32_t if_nametoindex(const char *)');

export interface SystemCallError extends NodeJS.ErrnoException {
  code: string;
  errno: number;
  syscall: string;
}

function failure(syscall: string): SystemCallError {
  const errno = -koffi.errno();
  const code = getSystemErrorName(errno);
  return Object.assign(new Error(`${syscall} ${code}`), { code, errno, syscall });
}

/** @throws SystemCallError */
export function openSocket(family: number, type: number, protocol: number): number {
  const fd: number = cSocket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
  if (fd < 0) throw failure('socket');
  return fd;
}

export const closeSocket = (fd: number): void => void cClose(fd);

/** @throws SystemCallError */
export function setOption(fd: number, level: number, name: number, value: number | Buffer): void {
  const bytes = typeof value === 'number' ? int32(value) : value;
  if (cSetsockopt(fd, level, name, bytes, bytes.length) < 0) throw failure('setsockopt');
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

const timespec = Buffer.alloc(16);
/** The clock that the kernel stamps packets with, ms since the epoch with µs resolution. */
export function realtimeMs(): number {
  cClockGettime(CLOCK_REALTIME, timespec);
  return timespecMs(timespec);
}

/**
 * @returns the time just before the packet left, by the clock of `realtimeMs`
 * @throws SystemCallError
 */
export function sendTo(fd: number, packet: Buffer, socketAddress: Buffer): number {
  cClockGettime(CLOCK_REALTIME, timespec);
  const sent: number = cSendto(fd, packet, packet.length, MSG_DONTWAIT, socketAddress, socketAddress.length);
  if (sent < 0) throw failure('sendto');
  return timespecMs(timespec);
}
// The first call of a foreign function takes half a millisecond longer: here, not in the first ping.
cClockGettime(CLOCK_REALTIME, timespec);
cSendto(-1, timespec, 0, 0, timespec, 0);

export const timespecMs = (bytes: Buffer): number =>
  Number(bytes.readBigInt64LE(0)) * 1000 + Number(bytes.readBigInt64LE(8)) / 1e6;

/** Index of a network interface, 0 when there is none of that name. */
export const interfaceIndex = (name: string): number => Number(cIfNametoindex(name));

export interface ControlMessage {
  level: number;
  type: number;
  data: Buffer;
}

/** A packet with what the kernel says about it. Both are valid until the next call. */
export interface Received {
  packet: Buffer;
  control: ControlMessage[];
}

/*
 * One block of unmanaged memory for all calls of recvmsg, so that the pointers inside stay true:
 *   0 struct msghdr (56 bytes) · 64 struct iovec (16) · 80 sender · 256 control · 1024 packet
 */
const SENDER = { at: 80, length: 128 };
const CONTROL = { at: 256, length: 768 };
const PACKET = { at: 1024, length: 3072 };
const memory: unknown = koffi.alloc('uint8_t', PACKET.at + PACKET.length);
const block = Buffer.from(koffi.view(memory, PACKET.at + PACKET.length));
const base = koffi.address(memory);

function prepareHeader(): void {
  block.fill(0, 0, SENDER.at);
  block.writeBigUInt64LE(base + BigInt(SENDER.at), 0);
  block.writeUInt32LE(SENDER.length, 8);
  block.writeBigUInt64LE(base + 64n, 16);
  block.writeBigUInt64LE(1n, 24);
  block.writeBigUInt64LE(base + BigInt(CONTROL.at), 32);
  block.writeBigUInt64LE(BigInt(CONTROL.length), 40);
  block.writeBigUInt64LE(base + BigInt(PACKET.at), 64);
  block.writeBigUInt64LE(BigInt(PACKET.length), 72);
}

/**
 * The next packet, or with `errors` the next entry of the error queue: our own packet, and in its
 * control message what happened to it. Undefined when nothing waits, or an error of the socket does,
 * which the error queue tells in full.
 */
export function receive(fd: number, errors: boolean): Received | undefined {
  prepareHeader();
  const length = Number(cRecvmsg(fd, memory, MSG_DONTWAIT | (errors ? MSG_ERRQUEUE : 0)));
  if (length < 0) return undefined;
  return { packet: block.subarray(PACKET.at, PACKET.at + length), control: controlMessages() };
}

function controlMessages(): ControlMessage[] {
  const end = CONTROL.at + Number(block.readBigUInt64LE(40));
  const messages: ControlMessage[] = [];
  for (let at = CONTROL.at; at + 16 <= end;) {
    const length = block.readUInt32LE(at);
    if (length < 16) break;
    messages.push({
      level: block.readInt32LE(at + 8),
      type: block.readInt32LE(at + 12),
      data: block.subarray(at + 16, at + length),
    });
    at += Math.ceil(length / 8) * 8;
  }
  return messages;
}
