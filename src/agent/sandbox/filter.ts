import { assemble, EAFNOSUPPORT, ENOSYS, EPERM, NONE, type Rule } from './bpf.ts';
import type { Processor } from './syscalls.ts';

/** What a filter leaves open beyond computing, files and the network. */
export interface FilterOptions {
  /** Sockets of the machine: those in the file system cannot be refused one by one. */
  unixSockets: boolean;
  /** UDP. */
  datagrams: boolean;
  /** ICMP, by datagrams or raw sockets. */
  icmp: boolean;
  /** Waiting for connections. */
  listen: boolean;
  /** Permissions and times of files by path: only of a job with a user of its own. */
  filesByPath: boolean;
  /** Who asks for news of files is told that they will come, and none does. */
  silentWatches: boolean;
  /** Name spaces of its own, for Chromium's own sandbox. */
  namespaces: boolean;
  /** Processes that it must not touch: the agent and those above it. */
  protectedPids: readonly number[];
  /** Process groups that it must not signal. */
  protectedGroups: readonly number[];
}

const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const SOCK_STREAM = 1;
const SOCK_DGRAM = 2;
const SOCK_RAW = 3;
const SOCK_TYPE_MASK = 0xf;
const IPPROTO_ICMP = 1;
const IPPROTO_TCP = 6;
const IPPROTO_UDP = 17;
const IPPROTO_ICMPV6 = 58;
const NETLINK_ROUTE = 0;
const MSG_FASTOPEN = 0x20000000;
const RLIMIT_RTTIME = 15;
const PR_SET_PDEATHSIG = 1;
const SIGKILL = 9;
const PRIO_PROCESS = 0;
const IOPRIO_WHO_PROCESS = 1;
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NEW_NAMESPACES = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000];

/** Nothing that a check needs: each is a way to other processes, into the kernel, or around Landlock. */
const NEVER: Rule = {
  calls: [
    // Other processes: their memory, files and threads.
    'ptrace',
    'process_vm_readv',
    'process_vm_writev',
    'pidfd_getfd',
    'pidfd_send_signal',
    'kcmp',
    'process_madvise',
    'process_mrelease',
    'migrate_pages',
    'move_pages',
    // The kernel's inside, and calls that act without being seen by this filter.
    'bpf',
    'perf_event_open',
    'userfaultfd',
    'io_uring_setup',
    'io_uring_enter',
    'io_uring_register',
    'memfd_secret',
    // A file without a name could be started as a program where no written file can.
    'memfd_create',
    'modify_ldt',
    'lookup_dcookie',
    'fanotify_init',
    'lsm_set_self_attr',
    'syslog',
    // Keys of the session.
    'add_key',
    'request_key',
    'keyctl',
    // The tree of files as others see it.
    'mount',
    'umount2',
    'pivot_root',
    'move_mount',
    'open_tree',
    'open_tree_attr',
    'fsopen',
    'fsconfig',
    'fsmount',
    'fspick',
    'mount_setattr',
    'setns',
    'name_to_handle_at',
    'open_by_handle_at',
    'quotactl',
    'quotactl_fd',
    // Memory, semaphores and queues that stay when every process of the job is gone.
    'shmget',
    'shmat',
    'shmctl',
    'shmdt',
    'semget',
    'semop',
    'semctl',
    'semtimedop',
    'msgget',
    'msgsnd',
    'msgrcv',
    'msgctl',
    'mq_open',
    'mq_unlink',
    // The machine.
    'kexec_load',
    'kexec_file_load',
    'create_module',
    'init_module',
    'finit_module',
    'delete_module',
    'reboot',
    'swapon',
    'swapoff',
    'acct',
    'settimeofday',
    'clock_settime',
    'adjtimex',
    'clock_adjtime',
    'sethostname',
    'setdomainname',
    'iopl',
    'ioperm',
    'vhangup',
    'uselib',
    '_sysctl',
    'nfsservctl',
  ],
  error: EPERM,
};

/**
 * Landlock does not look at these, and the files of other jobs and of the agent may be of the same user.
 * Permissions and times by path are left as they are, without an error that copying programs would stop
 * at; by descriptor they can be changed. What Landlock leaves open after that is to ask whether a file of
 * a known name is there and how large it is.
 */
const FILES_BY_PATH: Rule[] = [
  { calls: ['chmod', 'fchmodat', 'fchmodat2', 'utime', 'utimes', 'futimesat'], error: NONE },
  // Without a path: the times of a descriptor.
  ...[{}, { high: true } as const].map((half): Rule => {
    return { calls: ['utimensat'], when: [{ argument: 1, notIn: [0], ...half }], error: NONE };
  }),
  {
    calls: ['setxattr', 'lsetxattr', 'setxattrat', 'removexattr', 'lremovexattr', 'removexattrat'],
    error: EPERM,
  },
];

/** The names of files that others make and open, and when the agent writes. */
const WATCHES: Rule = { calls: ['inotify_init', 'inotify_init1', 'inotify_add_watch'], error: EPERM };
/** Development servers give up at an error; what they serve does not change while it is tested. */
const SILENT_WATCHES: Rule = { calls: ['inotify_add_watch'], error: NONE };

/** The filter of one job. Landlock's rules for TCP are void without it: it closes the ways around them. */
export function filterCode(processor: Processor, options: FilterOptions): Buffer {
  return assemble(processor, [
    NEVER,
    ...(options.filesByPath ? [] : FILES_BY_PATH),
    options.silentWatches ? SILENT_WATCHES : WATCHES,
    ...namespaceRules(options),
    ...socketRules(options),
    ...signalRules(options),
    ...LIMIT_RULES,
    { calls: ['ioctl'], when: [{ argument: 1, in: [TIOCSTI, TIOCLINUX] }], error: EPERM },
  ]);
}

function namespaceRules({ namespaces }: FilterOptions): Rule[] {
  // The C library falls back to clone, whose flags can be read.
  const clone3: Rule = { calls: ['clone3'], error: ENOSYS };
  if (namespaces) return [clone3];
  return [
    clone3,
    { calls: ['unshare', 'chroot'], error: EPERM },
    ...NEW_NAMESPACES.map((flag): Rule => {
      return { calls: ['clone'], when: [{ argument: 0, mask: flag, in: [flag] }], error: EPERM };
    }),
  ];
}

/** Families, types and protocols that are known to be harmless, and no others: not MPTCP, not SCTP, not what comes next. */
function socketRules({ unixSockets, datagrams, icmp, listen }: FilterOptions): Rule[] {
  const types = [SOCK_STREAM, ...(datagrams || icmp ? [SOCK_DGRAM] : []), ...(icmp ? [SOCK_RAW] : [])];
  const protocols = [0, IPPROTO_TCP, IPPROTO_UDP, ...(icmp ? [IPPROTO_ICMP, IPPROTO_ICMPV6] : [])];
  const internet = { argument: 0, in: [AF_INET, AF_INET6] } as const;
  const families = [AF_INET, AF_INET6, AF_NETLINK, ...(unixSockets ? [AF_UNIX] : [])];
  return [
    { calls: ['socket'], when: [{ argument: 0, notIn: families }], error: EAFNOSUPPORT },
    {
      calls: ['socket'],
      when: [internet, { argument: 1, mask: SOCK_TYPE_MASK, notIn: types }],
      error: EPERM,
    },
    { calls: ['socket'], when: [internet, { argument: 2, notIn: protocols }], error: EPERM },
    {
      calls: ['socket'],
      when: [
        { argument: 0, in: [AF_NETLINK] },
        { argument: 2, notIn: [NETLINK_ROUTE] },
      ],
      error: EPERM,
    },
    // Data in the first packet: a connection that Landlock is not asked about.
    {
      calls: ['sendto', 'sendmmsg'],
      when: [{ argument: 3, mask: MSG_FASTOPEN, in: [MSG_FASTOPEN] }],
      error: EPERM,
    },
    { calls: ['sendmsg'], when: [{ argument: 2, mask: MSG_FASTOPEN, in: [MSG_FASTOPEN] }], error: EPERM },
    // A socket that was never bound gets a port by it, which Landlock is not asked about either.
    ...(listen || unixSockets ? [] : [{ calls: ['listen'], error: EPERM } as const]),
  ];
}

function signalRules({ protectedPids, protectedGroups }: FilterOptions): Rule[] {
  const everything = -1;
  const groups = [...protectedPids, ...protectedGroups].filter((pid) => pid > 1).map((pid) => -pid);
  return [
    {
      calls: ['kill', 'rt_sigqueueinfo'],
      when: [{ argument: 0, in: [...protectedPids, ...groups, everything] }],
      error: EPERM,
    },
    {
      calls: ['tkill', 'tgkill', 'rt_tgsigqueueinfo', 'pidfd_open'],
      when: [{ argument: 0, in: protectedPids }],
      error: EPERM,
    },
    // Priorities of anybody but the caller.
    {
      calls: ['sched_setparam', 'sched_setscheduler', 'sched_setaffinity', 'sched_setattr'],
      when: [{ argument: 0, notIn: [0] }],
      error: EPERM,
    },
    { calls: ['setpriority'], when: [{ argument: 0, notIn: [PRIO_PROCESS] }], error: EPERM },
    { calls: ['ioprio_set'], when: [{ argument: 0, notIn: [IOPRIO_WHO_PROCESS] }], error: EPERM },
    { calls: ['setpriority', 'ioprio_set'], when: [{ argument: 1, notIn: [0] }], error: EPERM },
    // The signal that ends a job with its agent may be set anew, but not taken off.
    {
      calls: ['prctl'],
      when: [
        { argument: 0, in: [PR_SET_PDEATHSIG] },
        { argument: 1, notIn: [SIGKILL] },
      ],
      error: EPERM,
    },
  ];
}

/** Nobody's limits but its own, and never the one that carries the mark. */
const LIMIT_RULES: Rule[] = [
  { calls: ['setrlimit'], when: [{ argument: 0, in: [RLIMIT_RTTIME] }], error: EPERM },
  { calls: ['prlimit64'], when: [{ argument: 0, notIn: [0] }], error: EPERM },
  // The new limit is a pointer, null when only asked for the present one.
  ...[{}, { high: true } as const].map((half): Rule => {
    const isSet = { argument: 2, notIn: [0], ...half } as const;
    return { calls: ['prlimit64'], when: [isSet, { argument: 1, in: [RLIMIT_RTTIME] }], error: EPERM };
  }),
];
