import { describe, expect, test } from 'vitest';
import { ENOSYS, EAFNOSUPPORT, EPERM } from './bpf.ts';
import { filterCode, type FilterOptions } from './filter.ts';
import { PROCESSORS, type Processor, type SystemCall } from './syscalls.ts';

const AGENT = 4711;
const OPTIONS: FilterOptions = {
  unixSockets: false,
  datagrams: false,
  icmp: false,
  listen: false,
  filesByPath: false,
  silentWatches: false,
  namespaces: false,
  protectedPids: [AGENT, 1],
  protectedGroups: [815],
};
const ALLOWED = 0;

/** Runs a filter as the kernel would. @returns the error that the caller gets, 0 when it may go on */
function verdict(code: Buffer, audit: number, call: number, args: readonly bigint[] = []): number {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(call, 0);
  data.writeUInt32LE(audit, 4);
  args.forEach((value, index) => data.writeBigUInt64LE(BigInt.asUintN(64, value), 16 + 8 * index));
  let accumulator = 0;
  for (let at = 0; at < code.length; at += 8) {
    const value = code.readUInt32LE(at + 4);
    const jump = (condition: boolean): number => 8 * code.readUInt8(at + (condition ? 2 : 3));
    switch (code.readUInt16LE(at)) {
      case 0x20:
        accumulator = data.readUInt32LE(value);
        break;
      case 0x54:
        accumulator = (accumulator & value) >>> 0;
        break;
      case 0x15:
        at += jump(accumulator === value);
        break;
      case 0x35:
        at += jump(accumulator >= value);
        break;
      case 0x06:
        return value === 0x7fff0000 ? ALLOWED : value & 0xffff;
      default:
        throw new Error(`unknown instruction ${code.readUInt16LE(at)}`);
    }
  }
  throw new Error('the filter does not end');
}

describe.each(Object.entries(PROCESSORS))('the filter for %s', (_name, processor: Processor) => {
  const ask = (options: Partial<FilterOptions>, call: SystemCall, ...args: (number | bigint)[]): number =>
    verdict(
      filterCode(processor, { ...OPTIONS, ...options }),
      processor.audit,
      processor.calls[call]!,
      args.map(BigInt),
    );

  test.each<[SystemCall, number[], number, string]>([
    ['ptrace', [0], EPERM, 'tracing'],
    ['io_uring_setup', [8], EPERM, 'io_uring'],
    ['memfd_create', [0, 0], EPERM, 'memory as a file'],
    ['shmget', [0, 4096, 0o1000], EPERM, 'memory that stays'],
    ['mount', [0], EPERM, 'mounts'],
    ['clone3', [0], ENOSYS, 'flags in memory, which a filter cannot read'],
    ['clone', [0x10000000], EPERM, 'a name space of users'],
    ['clone', [17], ALLOWED, 'a process'],
    ['clone', [0x3d0f00], ALLOWED, 'a thread'],
    ['unshare', [0x10000000], EPERM, 'a name space of users'],
    ['socket', [2, 1, 6], ALLOWED, 'TCP'],
    ['socket', [10, 0o2004001, 0], ALLOWED, 'TCP, with flags'],
    ['socket', [2, 1, 262], EPERM, 'MPTCP, around the rules for ports'],
    ['socket', [2, 1, 132], EPERM, 'SCTP'],
    ['socket', [2, 1, 256], EPERM, 'SMC'],
    ['socket', [2, 2, 0], EPERM, 'datagrams'],
    ['socket', [2, 3, 1], EPERM, 'raw packets'],
    ['socket', [1, 1, 0], EAFNOSUPPORT, 'unix sockets'],
    ['socket', [17, 3, 0], EAFNOSUPPORT, 'packets of the wire'],
    ['socket', [38, 5, 0], EAFNOSUPPORT, 'AF_ALG'],
    ['socket', [40, 1, 0], EAFNOSUPPORT, 'vsock'],
    ['socket', [16, 3, 0], ALLOWED, 'the list of network interfaces'],
    ['socket', [16, 3, 12], EPERM, 'the firewall'],
    ['sendto', [5, 0, 0, 0x20000000], EPERM, 'fast open'],
    ['sendto', [5, 0, 0, 0x4000], ALLOWED, 'sending'],
    ['sendmsg', [5, 0, 0x20004000], EPERM, 'fast open by sendmsg'],
    ['sendmmsg', [5, 0, 1, 0x20000000], EPERM, 'fast open by sendmmsg'],
    ['listen', [5, 128], EPERM, 'a port that nobody was asked about'],
    ['kill', [AGENT, 9], EPERM, 'the agent'],
    ['kill', [-AGENT, 9], EPERM, "the agent's children"],
    ['kill', [-815, 9], EPERM, "the agent's group"],
    ['kill', [-1, 9], EPERM, 'everybody'],
    ['kill', [1, 15], EPERM, 'the first process'],
    ['kill', [0, 9], ALLOWED, 'its own group'],
    ['kill', [5000, 9], ALLOWED, 'a process of its own'],
    ['tgkill', [AGENT, AGENT + 1, 9], EPERM, 'a thread of the agent'],
    ['tgkill', [5000, 5000, 6], ALLOWED, 'abort'],
    ['pidfd_open', [AGENT, 0], EPERM, 'a handle on the agent'],
    ['setpriority', [0, 0, 10], ALLOWED, 'its own priority'],
    ['setpriority', [0, AGENT, 10], EPERM, "another's priority"],
    ['setpriority', [2, 0, 10], EPERM, 'the priority of all of the user'],
    ['sched_setaffinity', [0, 8], ALLOWED, 'its own processors'],
    ['sched_setaffinity', [AGENT, 8], EPERM, "another's processors"],
    ['setrlimit', [7], ALLOWED, 'a limit of its own'],
    ['setrlimit', [15], EPERM, 'the mark'],
    ['prlimit64', [0, 7, 0, 1], ALLOWED, 'asking for a limit'],
    ['prlimit64', [0, 15, 0, 1], ALLOWED, 'asking for the mark'],
    ['prlimit64', [0, 15, 4096, 0], EPERM, 'setting the mark'],
    ['prlimit64', [AGENT, 7, 0, 1], EPERM, "another's limits"],
    ['prctl', [1, 9], ALLOWED, 'ending with its parent'],
    ['prctl', [1, 0], EPERM, 'outliving its parent'],
    ['ioctl', [0, 0x5412], EPERM, 'typing into a terminal'],
    ['ioctl', [0, 0x5413], ALLOWED, 'the size of a terminal'],
  ])('%s(%j) is answered with %d: %s', (call, args, error) => {
    if (processor.calls[call] === undefined) throw new Error(`${call} is not in the table`);
    expect(ask({}, call, ...args)).toBe(error);
  });

  test('compares the upper half of a pointer too', () => {
    expect(ask({}, 'prlimit64', 0, 15, 0x7f00_0000_0000n, 0)).toBe(EPERM);
  });

  test('opens what the options name, and nothing else', () => {
    expect(ask({ unixSockets: true }, 'socket', 1, 1, 0)).toBe(ALLOWED);
    expect(ask({ datagrams: true }, 'socket', 2, 2, 17)).toBe(ALLOWED);
    expect(ask({ datagrams: true }, 'socket', 2, 2, 136)).toBe(EPERM);
    expect(ask({ icmp: true }, 'socket', 2, 2, 1)).toBe(ALLOWED);
    expect(ask({ icmp: true }, 'socket', 2, 3, 255)).toBe(EPERM);
    expect(ask({ listen: true }, 'listen', 5, 128)).toBe(ALLOWED);
    expect(ask({ namespaces: true }, 'unshare', 0x10000000)).toBe(ALLOWED);
    expect(ask({ namespaces: true }, 'clone', 0x10000000)).toBe(ALLOWED);
    expect(ask({ namespaces: true }, 'mount', 0)).toBe(EPERM);
  });

  test('refuses the calls of another processor, and the second set of x64', () => {
    const code = filterCode(processor, OPTIONS);
    expect(verdict(code, 0x40000003, 20)).toBe(ENOSYS);
    if (processor.foreignFrom !== null) {
      expect(verdict(code, processor.audit, processor.foreignFrom + 1)).toBe(ENOSYS);
    }
    // read, or what has its number: not in any rule.
    expect(verdict(code, processor.audit, processor.audit === 0xc000003e ? 0 : 63)).toBe(ALLOWED);
  });
});
