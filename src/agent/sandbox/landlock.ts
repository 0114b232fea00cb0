import type { LandlockPlan } from './launcher.ts';

/** Rights on files and folders, as the kernel numbers them. */
const RIGHT = {
  execute: 1 << 0,
  writeFile: 1 << 1,
  readFile: 1 << 2,
  readFolder: 1 << 3,
  removeFolder: 1 << 4,
  removeFile: 1 << 5,
  makeCharacterDevice: 1 << 6,
  makeFolder: 1 << 7,
  makeFile: 1 << 8,
  makeSocket: 1 << 9,
  makePipe: 1 << 10,
  makeBlockDevice: 1 << 11,
  makeLink: 1 << 12,
  /** Renaming and linking between folders. */
  refer: 1 << 13,
  truncate: 1 << 14,
  controlDevice: 1 << 15,
} as const;

const TCP_BIND = 1 << 0;
const TCP_CONNECT = 1 << 1;
const SCOPE_ABSTRACT_SOCKETS = 1 << 0;
const SCOPE_SIGNALS = 1 << 1;

/** From which version of Landlock on the kernel knows a right. Those absent here: from the first. */
const SINCE = { refer: 2, truncate: 3, tcp: 4, controlDevice: 5, scopes: 6 } as const;

export const WRITE_FILES = RIGHT.writeFile;
export const READ_FILES = RIGHT.readFile;
export const READ = RIGHT.readFile | RIGHT.readFolder;
export const EXECUTE = READ | RIGHT.execute;
/** Null, zero, random: read, written, asked what they are. */
export const DEVICE = READ | RIGHT.writeFile | RIGHT.truncate | RIGHT.controlDevice;
/** A folder of its own: everything but devices, sockets and pipes, and nothing in it is a program. */
export const WRITE =
  READ |
  RIGHT.writeFile |
  RIGHT.removeFolder |
  RIGHT.removeFile |
  RIGHT.makeFolder |
  RIGHT.makeFile |
  RIGHT.makeLink |
  RIGHT.refer |
  RIGHT.truncate;
export const SOCKETS_AND_PIPES = RIGHT.makeSocket | RIGHT.makePipe;
export const PROGRAMS = RIGHT.execute;

export interface Allowed {
  paths: { path: string; rights: number }[];
  /** The only ports to connect to; undefined: any. */
  tcpPorts: readonly number[] | undefined;
  /** May bind a TCP socket to a port. */
  bind: boolean;
}

/** What a kernel with this version of Landlock can be asked to refuse, and what is allowed all the same. */
export function landlockPlan(version: number, { paths, tcpPorts, bind }: Allowed): LandlockPlan {
  const files = rightsOf(version);
  const knowsTcp = version >= SINCE.tcp;
  const connect = tcpPorts === undefined ? 0 : TCP_CONNECT;
  return {
    handled: {
      files,
      tcp: knowsTcp ? connect | (bind ? 0 : TCP_BIND) : 0,
      scopes: version >= SINCE.scopes ? SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS : 0,
    },
    paths: paths.map(({ path, rights }) => ({ path, rights: rights & files })),
    ports: knowsTcp ? (tcpPorts ?? []).map((port) => ({ port, rights: TCP_CONNECT })) : [],
  };
}

function rightsOf(version: number): number {
  const unknown = (['refer', 'truncate', 'controlDevice'] as const).filter((name) => version < SINCE[name]);
  return Object.entries(RIGHT)
    .filter(([name]) => !unknown.some((each) => each === name))
    .reduce((sum, [, right]) => sum | right, 0);
}

/** What a version lacks, in words. */
export function lacksOf(version: number): string[] {
  if (version === 0) return ['Landlock: files, ports and signals of others are open to user code'];
  return [
    ...(version < SINCE.tcp ? ['Landlock before version 4: TCP ports cannot be limited'] : []),
    ...(version < SINCE.scopes
      ? ['Landlock before version 6: signals to other jobs and abstract sockets cannot be refused']
      : []),
  ];
}
