import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { hasSyscalls, ipv4, rlimit, syscall, unixAddress } from './libc.ts';

/** What the attacker is told: in the world he would have to guess it. */
export interface Victim {
  agentPid: number;
  agentSecret: string;
  siblingPid: number;
  siblingFolder: string;
  siblingSecret: string;
  /** Where the agent keeps its spool, and a file in it. */
  stateFolder: string;
  stateFile: string;
  workFolder: string;
  appFolder: string;
  /** What another job's browser is: a process with a pipe to who started it. */
  browserPid: number;
  profileFile: string;
  /** Of the agent itself, such as its health. */
  controlPort: number;
  /** Of its gate. */
  allowedPort: number;
  otherGatePort: number;
  egressPid: number;
  targetPort: number;
  abstractName: string;
  socketPath: string;
  /** A program of the agent's that jobs may read and start, and an archive that they may read. */
  sharedProgram: string;
  sharedArchive: string;
  folder: string;
}

/** Where an attack applies; `all` when absent. */
export type Scope =
  'no-unix' | 'ports' | 'no-exec' | 'exec' | 'no-programs' | 'no-listen' | 'sockets-of-the-machine';

export interface Attack {
  name: string;
  scope?: Scope;
  /** Returns what was reached. Throws when it was stopped. */
  run: (victim: Victim) => unknown;
}

const AF = { UNIX: 1, INET: 2, PACKET: 17, ALG: 38, VSOCK: 40, XDP: 44 };
const STREAM = 1;
const [MPTCP, SCTP] = [262, 132];
const FASTOPEN = 0x2000_0000;
const NEWUSER = 0x1000_0000;
const SELF_NOTHING = Buffer.alloc(256);

/** A refusal that left no trace in an exception: the attack came to nothing. */
export class Nothing extends Error {
  readonly code = 'NOTHING';
}

export const containing = (text: string, secret: string): string => {
  if (!text.includes(secret)) throw new Nothing('it does not hold the secret');
  return 'read the secret';
};

export async function connects(options: { port: number; host?: string } | { path: string }): Promise<string> {
  const socket = connect(options);
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve).once('error', reject);
    socket.setTimeout(2000, () => reject(new Nothing('no answer')));
  });
  socket.destroy();
  return 'connected';
}

/** What the agent knows and what it is. */
const agentItself: Attack[] = [
  {
    name: "read the agent's environment",
    run: (v) => containing(readFileSync(`/proc/${v.agentPid}/environ`, 'latin1'), v.agentSecret),
  },
  {
    name: "read the parent's environment",
    run: (v) => containing(readFileSync(`/proc/${process.ppid}/environ`, 'latin1'), v.agentSecret),
  },
  {
    name: "open the agent's memory",
    run: (v) => readSync(openSync(`/proc/${v.agentPid}/mem`, 'r'), Buffer.alloc(1), 0, 1, 0x400000),
  },
  { name: "write the agent's memory", run: (v) => openSync(`/proc/${v.agentPid}/mem`, 'r+') },
  { name: "agent's memory map", run: (v) => readFileSync(`/proc/${v.agentPid}/maps`).length || fail() },
  { name: "agent's working folder", run: (v) => readlinkSync(`/proc/${v.agentPid}/cwd`) },
  { name: "agent's root", run: (v) => readdirSync(`/proc/${v.agentPid}/root/`) },
  { name: "agent's descriptors", run: (v) => readdirSync(`/proc/${v.agentPid}/fd`) },
  {
    name: "agent's descriptor 1 opened again",
    run: (v) => openSync(`/proc/${v.agentPid}/fd/1`, 'r'),
  },
  {
    name: "raise the agent's OOM score",
    run: (v) => writeFileSync(`/proc/${v.agentPid}/oom_score_adj`, '1000'),
  },
];

export const fail = (): never => {
  throw new Nothing('empty');
};

/** Other jobs. */
const otherJobs: Attack[] = [
  {
    name: "read another job's file",
    run: (v) => containing(readFileSync(join(v.siblingFolder, 'secret.txt'), 'utf8'), v.siblingSecret),
  },
  {
    name: "read another job's file in a worker thread",
    run: async (v) =>
      containing(await readFile(join(v.siblingFolder, 'secret.txt'), 'utf8'), v.siblingSecret),
  },
  { name: 'list the other jobs', run: (v) => readdirSync(v.workFolder) },
  { name: "list another job's folder", run: (v) => readdirSync(v.siblingFolder) },
  {
    name: "write into another job's folder",
    run: (v) => writeFileSync(join(v.siblingFolder, 'planted'), 'x'),
  },
  {
    name: "read another job's environment",
    run: (v) => containing(readFileSync(`/proc/${v.siblingPid}/environ`, 'latin1'), v.siblingSecret),
  },
  {
    name: "open another job's memory",
    run: (v) => readSync(openSync(`/proc/${v.siblingPid}/mem`, 'r'), Buffer.alloc(1), 0, 1, 0x400000),
  },
  {
    name: "another job's folder by its descriptors",
    run: (v) => readdirSync(`/proc/${v.siblingPid}/cwd/`),
  },
  {
    name: "link another job's file",
    run: (v) => linkSync(join(v.siblingFolder, 'secret.txt'), join(v.folder, 'stolen')),
  },
];

/** The agent's files and the machine's. */
const files: Attack[] = [
  { name: "read the agent's state", run: (v) => readFileSync(v.stateFile) },
  { name: "read the agent's state in a worker thread", run: (v) => readFile(v.stateFile) },
  { name: "list the agent's state", run: (v) => readdirSync(v.stateFolder) },
  { name: "append to the agent's state", run: (v) => appendFileSync(v.stateFile, 'x') },
  { name: "overwrite the agent's state in a worker thread", run: (v) => writeFile(v.stateFile, 'x') },
  { name: "rename the agent's state", run: (v) => renameSync(v.stateFile, join(v.folder, 'stolen')) },
  { name: 'rename it in a worker thread', run: (v) => rename(v.stateFile, join(v.folder, 'stolen')) },
  {
    name: 'read the state through a link of its own',
    run: (v) => {
      symlinkSync(v.stateFile, join(v.folder, 'link'));
      return readFileSync(join(v.folder, 'link'));
    },
  },
  { name: 'hard-link the state into its folder', run: (v) => linkSync(v.stateFile, join(v.folder, 'hard')) },
  { name: 'write to /tmp', run: () => writeFileSync('/tmp/vedette-hostile', 'x') },
  { name: 'list /tmp', run: () => readdirSync('/tmp') },
  { name: 'write to /dev/shm', run: () => writeFileSync('/dev/shm/vedette-hostile', 'x') },
  { name: 'make a folder in /dev/mqueue', run: () => writeFileSync('/dev/mqueue/vedette', 'x') },
  {
    name: "write into the program's folder",
    run: (v) => writeFileSync(join(v.appFolder, 'planted.js'), 'x'),
  },
  { name: 'read /etc/shadow', run: () => readFileSync('/etc/shadow') },
  { name: 'write to /etc', run: () => writeFileSync('/etc/vedette-hostile', 'x') },
  { name: 'read the home of root', run: () => readdirSync('/root') },
  { name: 'write a kernel setting', run: () => writeFileSync('/proc/sys/kernel/core_pattern', 'core') },
  { name: 'open a raw disk', run: () => readdirSync('/dev/disk') },
  { name: 'use the terminal', run: () => openSync('/dev/tty', 'r+') },
  {
    name: 'execute a file of its own',
    scope: 'no-programs',
    run: (v) => {
      const program = join(v.folder, 'program');
      writeFileSync(program, '#!/bin/sh\necho ran\n', { mode: 0o755 });
      return execFileSync(program, { encoding: 'utf8', stdio: 'pipe' });
    },
  },
  {
    name: 'execute a copied binary',
    scope: 'no-programs',
    run: (v) => {
      const program = join(v.folder, 'true');
      writeFileSync(program, readFileSync('/usr/bin/true'), { mode: 0o755 });
      return execFileSync(program, { stdio: 'pipe' });
    },
  },
  {
    name: 'start a shell',
    scope: 'no-exec',
    run: () => execFileSync('/bin/sh', ['-c', 'echo ran'], { stdio: 'pipe' }),
  },
];

/** Signals, priorities, limits. */
const control: Attack[] = [
  { name: 'signal the agent', run: (v) => process.kill(v.agentPid, 'SIGUSR2') || 'sent' },
  { name: 'is the agent there (signal 0)', run: (v) => syscall('kill', v.agentPid, 10) || 'sent' },
  { name: "signal the agent's group", run: (v) => syscall('kill', -v.agentPid, 10) || 'sent' },
  { name: 'signal another job', run: (v) => process.kill(v.siblingPid, 'SIGUSR2') || 'sent' },
  { name: "signal another job's group", run: (v) => syscall('kill', -v.siblingPid, 10) || 'sent' },
  { name: 'tkill the agent', run: (v) => syscall('tkill', v.agentPid, 10) || 'sent' },
  {
    name: 'queue a signal to the agent',
    run: (v) => syscall('rt_sigqueueinfo', v.agentPid, 10, SELF_NOTHING) || 'sent',
  },
  {
    name: 'signal the agent by pidfd',
    run: (v) => syscall('pidfd_send_signal', syscall('pidfd_open', v.agentPid, 0), 10, null, 0) || 'sent',
  },
  {
    name: 'take a descriptor of the agent',
    run: (v) => syscall('pidfd_getfd', syscall('pidfd_open', v.agentPid, 0), 1, 0),
  },
  { name: 'seize the agent (ptrace)', run: (v) => syscall('ptrace', 0x4206, v.agentPid, 0, 0) || 'seized' },
  {
    name: 'seize another job (ptrace)',
    run: (v) => syscall('ptrace', 0x4206, v.siblingPid, 0, 0) || 'seized',
  },
  {
    name: "read the agent's memory (process_vm_readv)",
    run: (v) => syscall('process_vm_readv', v.agentPid, SELF_NOTHING, 1, SELF_NOTHING, 1, 0) || 'read',
  },
  {
    name: 'compare descriptors with the agent (kcmp)',
    run: (v) => syscall('kcmp', process.pid, v.agentPid, 0, 1, 1),
  },
  { name: 'renice the agent', run: (v) => syscall('setpriority', 0, v.agentPid, 19) || 'done' },
  {
    name: 'limit the agent (prlimit)',
    run: (v) => syscall('prlimit64', v.agentPid, 7, rlimit(3n, 3n), null) || 'done',
  },
  {
    name: "read the agent's limits (prlimit)",
    run: (v) => syscall('prlimit64', v.agentPid, 7, null, SELF_NOTHING) || 'done',
  },
  {
    name: 'pin the agent to a CPU',
    run: (v) => syscall('sched_setaffinity', v.agentPid, 8, Buffer.from([1, 0, 0, 0, 0, 0, 0, 0])) || 'done',
  },
  {
    name: 'make the agent a batch process',
    run: (v) => syscall('sched_setscheduler', v.agentPid, 3, Buffer.alloc(4)) || 'done',
  },
  {
    name: "lower the agent's I/O priority",
    run: (v) => syscall('ioprio_set', 1, v.agentPid, 3 << 13) || 'done',
  },
  { name: 'lower its own OOM score', run: () => writeFileSync('/proc/self/oom_score_adj', '-500') },
  {
    name: 'raise its hard limits',
    run: () => syscall('setrlimit', 7, rlimit(2n ** 30n, 2n ** 30n)) || 'done',
  },
  {
    name: 'change its marker (setrlimit)',
    run: () => syscall('setrlimit', 15, rlimit(1_000_000n, 1_000_000n)) || 'done',
  },
  {
    name: 'change its marker (prlimit)',
    run: () => syscall('prlimit64', 0, 15, rlimit(1_000_000n, 1_000_000n), null) || 'done',
  },
  { name: 'become dumpable for others to attach', run: () => syscall('ptrace', 0, 0, 0, 0) || 'done' },
];

/** Parts of the kernel that no check needs. */
const kernel: Attack[] = [
  { name: 'user namespace', run: () => syscall('unshare', NEWUSER) || 'done' },
  { name: 'mount namespace', run: () => syscall('unshare', 0x20000) || 'done' },
  { name: 'network namespace', run: () => syscall('unshare', 0x4000_0000) || 'done' },
  {
    name: "enter the agent's namespaces",
    run: (v) => syscall('setns', syscall('pidfd_open', v.agentPid, 0), 0x4000_0000) || 'done',
  },
  {
    name: 'mount',
    run: () =>
      syscall('mount', Buffer.from('none\0'), Buffer.from('/tmp\0'), Buffer.from('tmpfs\0'), 0, null) ||
      'done',
  },
  { name: 'chroot', run: () => syscall('chroot', Buffer.from('/\0')) || 'done' },
  { name: 'pivot_root', run: () => syscall('pivot_root', Buffer.from('/\0'), Buffer.from('/\0')) || 'done' },
  { name: 'open by handle', run: () => syscall('open_by_handle_at', -100, SELF_NOTHING, 0) },
  { name: 'io_uring', run: () => syscall('io_uring_setup', 4, Buffer.alloc(120)) },
  { name: 'bpf', run: () => syscall('bpf', 0, SELF_NOTHING, 128) },
  { name: 'perf events', run: () => syscall('perf_event_open', Buffer.alloc(128), 0, -1, -1, 0) },
  { name: 'userfaultfd', run: () => syscall('userfaultfd', 1) },
  { name: 'System V shared memory', run: () => syscall('shmget', 0x7665, 4096, 0o1600) },
  { name: 'System V semaphores', run: () => syscall('semget', 0x7665, 1, 0o1600) },
  { name: 'System V messages', run: () => syscall('msgget', 0x7665, 0o1600) },
  {
    name: 'POSIX message queue',
    run: () => syscall('mq_open', Buffer.from('vedette\0'), 0o102, 0o600, null),
  },
  {
    name: 'add a key',
    run: () => syscall('add_key', Buffer.from('user\0'), Buffer.from('v\0'), Buffer.from('x'), 1, -3),
  },
  { name: 'read the key ring', run: () => syscall('keyctl', 0, -3, 1) },
  {
    name: 'advise on the agent’s memory',
    run: (v) =>
      syscall('process_madvise', syscall('pidfd_open', v.agentPid, 0), SELF_NOTHING, 1, 20, 0) || 'done',
  },
  {
    name: 'load a kernel module',
    run: () => syscall('init_module', SELF_NOTHING, 0, Buffer.from('\0')) || 'done',
  },
  { name: 'load another kernel', run: () => syscall('kexec_load', 0, 0, null, 0) || 'done' },
  { name: 'set the clock', run: () => syscall('settimeofday', null, Buffer.alloc(8)) || 'done' },
  { name: 'set the host name', run: () => syscall('sethostname', Buffer.from('x'), 1) || 'done' },
  { name: 'reboot', run: () => syscall('reboot', 0, 0, 0, null) || 'done' },
  { name: 'system calls of x32', run: () => syscall('getpid_x32') },
  { name: 'packet socket', run: () => syscall('socket', AF.PACKET, 3, 0x300) },
  { name: 'raw socket', run: () => syscall('socket', AF.INET, 3, 1) },
  { name: 'socket to the hypervisor (vsock)', run: () => syscall('socket', AF.VSOCK, STREAM, 0) },
  { name: 'kernel crypto socket', run: () => syscall('socket', AF.ALG, 5, 0) },
  { name: 'XDP socket', run: () => syscall('socket', AF.XDP, 3, 0) },
  { name: 'MPTCP socket', run: () => syscall('socket', AF.INET, STREAM, MPTCP) },
  { name: 'SCTP socket', run: () => syscall('socket', AF.INET, STREAM, SCTP) },
];

/** Who it can talk to. */
const network: Attack[] = [
  {
    name: "the agent's control port",
    scope: 'ports',
    run: (v) => connects({ port: v.controlPort, host: '127.0.0.1' }),
  },
  {
    name: 'the metadata address',
    scope: 'ports',
    run: () => connects({ port: 80, host: '169.254.169.254' }),
  },
  {
    name: 'the control port by TCP fast open',
    scope: 'ports',
    run: (v) => {
      const to = ipv4('127.0.0.1', v.controlPort);
      return syscall('sendto', syscall('socket', AF.INET, STREAM, 0), Buffer.from('x'), 1, FASTOPEN, to, 16);
    },
  },
  {
    name: 'listen on a port',
    scope: 'no-listen',
    run: () =>
      syscall('bind', syscall('socket', AF.INET, STREAM, 0), ipv4('127.0.0.1', 18_099), 16) || 'bound',
  },
  {
    name: "the agent's abstract socket",
    run: (v) => {
      const address = unixAddress(`@${v.abstractName}`);
      return (
        syscall('connect', syscall('socket', AF.UNIX, STREAM, 0), address, address.length) || 'connected'
      );
    },
  },
  {
    name: 'a socket in the file system',
    scope: 'no-unix',
    run: (v) => {
      const address = unixAddress(v.socketPath);
      return (
        syscall('connect', syscall('socket', AF.UNIX, STREAM, 0), address, address.length) || 'connected'
      );
    },
  },
];

export const ATTACKS: readonly Attack[] = [
  ...agentItself,
  ...otherJobs,
  ...files,
  ...control,
  ...(hasSyscalls ? kernel : []),
  ...network,
];

/** What a script must be able to do behind the same walls: a wall that stops these is none. */
export const RIGHTS: readonly Attack[] = [
  {
    name: 'write and read its own folder',
    run: (v) => (writeFileSync(join(v.folder, 'own'), 'x'), readFileSync(join(v.folder, 'own'), 'utf8')),
  },
  { name: 'make folders there', run: (v) => mkdirSync(join(v.folder, 'a/b/c'), { recursive: true }) },
  { name: 'connect to the allowed port', run: (v) => connects({ port: v.allowedPort, host: '127.0.0.1' }) },
  { name: 'read name resolution', run: () => readFileSync('/etc/resolv.conf') },
  {
    name: 'start a Node of its own',
    scope: 'exec',
    run: () => spawnSync(process.execPath, ['-e', '0']).status === 0 || fail(),
  },
  {
    name: 'random numbers and null',
    run: () => readSync(openSync('/dev/urandom', 'r'), Buffer.alloc(8)) && openSync('/dev/null', 'w'),
  },
  {
    name: 'signal a child of its own',
    scope: 'exec',
    run: () => spawn(process.execPath, ['-e', 'setInterval(()=>{},1e3)']).kill() || fail(),
  },
];
