import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ChildProgram } from './child.ts';
import { filterCode } from './filter.ts';
import { hasCapabilities } from './kernel.ts';
import {
  DEVICE,
  EXECUTE,
  landlockPlan,
  PROGRAMS,
  READ,
  READ_FILES,
  WRITE_FILES,
  SOCKETS_AND_PIPES,
  WRITE,
} from './landlock.ts';
import type { JobUser } from './job-user.ts';
import type { LandlockPlan, Plan } from './launcher.ts';
import type { Marker } from './marker.ts';
import {
  FILE_BYTES,
  OOM_SCORE,
  OPEN_FILES,
  PROCESSES,
  ROOMS,
  THREADS_EACH,
  THREADS_OF_USER,
} from './profiles.ts';
import { PROCESSORS } from './syscalls.ts';

/** What the kernel of this machine offers. */
export interface Mechanisms {
  /** Version of Landlock; 0 without. */
  landlock: number;
  filter: boolean;
  /** False where a program with a privilege of its own must keep it. */
  noNewPrivileges: boolean;
  /** Jobs can have users of their own. */
  users: boolean;
}

/** A mark and limits: without them nothing of a job can be found and ended. */
export const LEAST: Mechanisms = { landlock: 0, filter: false, noNewPrivileges: true, users: false };

/** What is to be started, and as whom. */
export interface Start {
  node: string;
  args: string[];
  env: Readonly<Record<string, string>>;
  marker: Marker;
  /** Null: as the agent itself. */
  user: JobUser | null;
}

const RLIMIT = { FSIZE: 1, DATA: 2, CORE: 4, NPROC: 6, NOFILE: 7, RTTIME: 15 } as const;
const CAP_NET_RAW = 13;
const GB = 1024 ** 3;

/** What a program that uses the C library opens before and while it runs. */
const LIBRARIES = ['/lib', '/lib64', '/usr/lib', '/usr/lib64', '/usr/local/lib', '/etc/ld.so.cache'];
const DATA = ['/usr/share', '/usr/local/share', '/etc/localtime', '/etc/timezone'];
const NAMES = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/host.conf', '/etc/gai.conf'];
/** What TLS trusts, without the folder of private keys beside it. Node does not start when it may not read its settings. */
const TLS = [
  '/etc/ssl/openssl.cnf',
  '/etc/ssl/certs',
  '/etc/ssl/cert.pem',
  '/etc/pki/tls/certs',
  '/etc/pki/ca-trust',
];
/** How much memory and how many processors there are. */
const MACHINE = ['/sys/fs/cgroup', '/sys/devices/system'];
const SYSTEM_PROGRAMS = ['/usr', '/bin', '/sbin'];
/** What programs look up about the system and its users; no secrets. */
const SYSTEM_FACTS = [
  '/etc/passwd',
  '/etc/group',
  '/etc/machine-id',
  '/etc/os-release',
  '/etc/fonts',
  '/sys',
];
/** Settings that the machine's owner gives to every Chromium, and what fonts there are. */
const CHROMIUM = ['/etc/chromium', '/etc/chromium.d', '/var/cache/fontconfig'];
const PING_PROGRAMS = ['/usr/local/bin', '/usr/bin', '/bin', '/usr/sbin', '/sbin'];
/** What the kernel starts first in every program that is not static. */
const LOADERS = ['/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1', '/lib/ld-musl-x86_64.so.1'];
const DEVICES = ['/dev/null', '/dev/zero', '/dev/full', '/dev/random', '/dev/urandom'];

/** The whole plan of the walls around one program. */
export function planFor(program: ChildProgram, start: Start, mechanisms: Mechanisms): Plan {
  const { user, node, args, env } = start;
  // To keep what it does not have is refused.
  const raw = program.may.includes('ping') && hasCapabilities([CAP_NET_RAW]);
  return {
    ffi: ffiBinding(),
    parent: process.pid,
    limits: limitsOf(program, start),
    oomScore: OOM_SCORE,
    nice: ROOMS[program.profile].nice,
    user,
    keepCapabilities: raw ? [CAP_NET_RAW] : [],
    noNewPrivileges: mechanisms.noNewPrivileges,
    landlock: landlockOf(program, node, mechanisms),
    filter: filterOf(program, mechanisms, user),
    program: { file: node, args, env },
  };
}

function limitsOf({ profile, folder, limits }: ChildProgram, { marker, user }: Start): Plan['limits'] {
  const file = folder === undefined ? 0 : Math.min(limits?.diskBytes ?? FILE_BYTES, FILE_BYTES);
  const values = [
    // A core dump would hold what targets sent.
    [RLIMIT.CORE, 0],
    [RLIMIT.FSIZE, file],
    [RLIMIT.DATA, ROOMS[profile].dataGb * GB],
    [RLIMIT.NPROC, user === null ? THREADS_OF_USER : (limits?.processes ?? PROCESSES) * THREADS_EACH],
    [RLIMIT.NOFILE, OPEN_FILES],
  ] as const;
  return [
    ...values.map(([resource, value]) => ({ resource, value: String(value) })),
    { resource: RLIMIT.RTTIME, value: String(marker), exact: true },
  ];
}

function landlockOf(program: ChildProgram, node: string, { landlock }: Mechanisms): LandlockPlan | null {
  if (landlock === 0) return null;
  const { profile, entry, folder, readable, executable = [], may, tcpPorts } = program;
  const room = ROOMS[profile];
  const give = (rights: number, paths: readonly string[]) => paths.map((path) => ({ path, rights }));
  const folderRights =
    WRITE | (may.includes('unix-sockets') ? SOCKETS_AND_PIPES : 0) | (room.ownPrograms ? PROGRAMS : 0);
  return landlockPlan(landlock, {
    paths: [
      ...give(READ, [...LIBRARIES, ...DATA, ...NAMES, ...resolverFolder(), ...TLS, ...MACHINE, ...readable]),
      ...give(
        READ,
        packagesAbove([...readable, fileURLToPath(entry), ...(folder === undefined ? [] : [folder])]),
      ),
      // Not its folders: which processes there are, and what files each has open. Chromium does not run
      // without its own. Of the agent's it gets none: they are of another user, or of root (hardenSelf).
      // Only where user code runs as root, which the report complains of, it sees how many there are.
      ...give(room.systemPrograms ? READ : READ_FILES, ['/proc']),
      ...give(EXECUTE, [node, ...LOADERS, ...executable]),
      ...give(DEVICE, DEVICES),
      ...(room.systemPrograms
        ? [...give(EXECUTE, SYSTEM_PROGRAMS), ...give(READ, [...SYSTEM_FACTS, ...CHROMIUM])]
        : []),
      // Chromium's sandbox maps the users of its name space there.
      ...(may.includes('nested-sandbox') ? give(WRITE_FILES, ['/proc']) : []),
      ...(may.includes('ping') ? give(EXECUTE, PING_PROGRAMS) : []),
      ...(folder === undefined ? [] : give(folderRights, [folder])),
    ],
    tcpPorts,
    bind: may.includes('listen') || room.bindsSockets,
  });
}

/**
 * The package.json files above these paths. Node looks for one above every module, and gives up when it
 * may not read what it finds.
 */
function packagesAbove(paths: readonly string[]): string[] {
  const found = new Set<string>();
  for (let folder of paths) {
    for (; folder !== dirname(folder); folder = dirname(folder)) found.add(join(folder, 'package.json'));
  }
  return [...found];
}

/**
 * Where /etc/resolv.conf is a link, its program writes a new file at each change: the folder then, unless
 * others share it.
 */
function resolverFolder(): string[] {
  try {
    const folder = dirname(realpathSync('/etc/resolv.conf'));
    return ['/etc', '/run', '/var/run'].includes(folder) ? [] : [folder];
  } catch {
    return [];
  }
}

function filterOf(
  { profile, may, tcpPorts }: ChildProgram,
  mechanisms: Mechanisms,
  user: JobUser | null,
): string | null {
  const processor = PROCESSORS[process.arch];
  if (!mechanisms.filter || processor === undefined) return null;
  const code = filterCode(processor, {
    unixSockets: may.includes('unix-sockets'),
    // User code that may reach certain ports only could reach everything else by datagrams.
    datagrams: profile === 'probe' || tcpPorts === undefined,
    icmp: may.includes('ping'),
    listen: may.includes('listen'),
    // Package managers need them; of others' files its user owns none.
    filesByPath: profile === 'suite' && user !== null,
    silentWatches: profile === 'suite',
    namespaces: may.includes('nested-sandbox'),
    protectedPids: [...new Set([process.pid, process.ppid, 1])],
    protectedGroups: [ownGroup()],
  });
  return code.toString('base64');
}

function ownGroup(): number {
  const stat = readFileSync('/proc/self/stat', 'latin1');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]);
}

let binding: string | undefined;

/** The native half of koffi, which a launcher loads by itself: a tenth of the time of all of it. */
export function ffiBinding(): string {
  if (binding !== undefined) return binding;
  const require = createRequire(import.meta.url);
  require('koffi');
  binding = Object.keys(require.cache).find((file) => file.endsWith('koffi.node') && existsSync(file));
  if (binding === undefined) throw new Error('koffi has no native binding for this machine');
  return binding;
}
