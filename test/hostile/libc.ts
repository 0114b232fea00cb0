import koffi from 'koffi';
import { constants } from 'node:os';

/**
 * System calls as hostile native code makes them, without what Node would say first. Numbers of x86-64;
 * on other machines the calls that go by number are left out of the battery.
 */
const libc = koffi.load('libc.so.6');
const raw = libc.func('syscall', 'long', ['long', '...']) as (...args: unknown[]) => number;
const NAMES = new Map(Object.entries(constants.errno).map(([name, code]) => [code, name]));

export const hasSyscalls = process.arch === 'x64';

export class SystemError extends Error {
  readonly code: string;
  constructor(call: string, errno: number) {
    super(`${call}: ${NAMES.get(errno) ?? errno}`);
    this.code = NAMES.get(errno) ?? String(errno);
  }
}

/** @throws SystemError when the kernel says no */
export function syscall(name: keyof typeof NUMBERS, ...args: (number | bigint | Buffer | null)[]): number {
  const typed = args.flatMap((arg) => [Buffer.isBuffer(arg) || arg === null ? 'void *' : 'long', arg]);
  const result = raw(NUMBERS[name], ...typed);
  if (result < 0) throw new SystemError(name, koffi.errno());
  return result;
}

const NUMBERS = {
  getpid_x32: 0x40000000 + 39,
  shmget: 29,
  socket: 41,
  connect: 42,
  sendto: 44,
  bind: 49,
  listen: 50,
  kill: 62,
  semget: 64,
  msgget: 68,
  setsockopt: 54,
  link: 86,
  ptrace: 101,
  rt_sigqueueinfo: 129,
  setpriority: 141,
  sched_setscheduler: 144,
  pivot_root: 155,
  prctl: 157,
  setrlimit: 160,
  chroot: 161,
  settimeofday: 164,
  mount: 165,
  reboot: 169,
  sethostname: 170,
  init_module: 175,
  setxattr: 188,
  tkill: 200,
  sched_setaffinity: 203,
  mq_open: 240,
  kexec_load: 246,
  add_key: 248,
  keyctl: 250,
  ioprio_set: 251,
  unshare: 272,
  perf_event_open: 298,
  prlimit64: 302,
  open_by_handle_at: 304,
  setns: 308,
  process_vm_readv: 310,
  kcmp: 312,
  bpf: 321,
  userfaultfd: 323,
  pidfd_send_signal: 424,
  io_uring_setup: 425,
  pidfd_open: 434,
  pidfd_getfd: 438,
  process_madvise: 440,
} as const;

/** A sockaddr_in for a loopback or other IPv4 address. */
export function ipv4(address: string, port: number): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeUInt16LE(2, 0);
  bytes.writeUInt16BE(port, 2);
  Buffer.from(address.split('.').map(Number)).copy(bytes, 4);
  return bytes;
}

/** A sockaddr_un; a leading `@` makes it abstract. */
export function unixAddress(path: string): Buffer {
  const bytes = Buffer.alloc(110);
  bytes.writeUInt16LE(1, 0);
  bytes.write(path.replace(/^@/, '\0'), 2);
  return bytes.subarray(0, 2 + path.length + (path.startsWith('@') ? 0 : 1));
}

/** A struct rlimit. */
export function rlimit(soft: bigint, hard: bigint): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64LE(soft, 0);
  bytes.writeBigUInt64LE(hard, 8);
  return bytes;
}
