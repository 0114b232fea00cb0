import { installedFiles, type ChildProgram } from '../sandbox/index.ts';

const HERE = import.meta.url;
/** Beside this file, in the sources as in the build. */
const ENTRY = new URL(HERE.endsWith('.ts') ? './child.ts' : './child.js', HERE);

const SYSTEM_FILES = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/services', '/etc/ssl'];

/** It handles bytes and names only: a heap of its own size would be a leak. */
const HEAP_MB = 192;

/** The egress process: it sees our code and what name resolution reads, and waits for connections. */
export function egressProgram(extraCaCerts: string | undefined): ChildProgram {
  const authorities: Record<string, string> =
    extraCaCerts === undefined ? {} : { NODE_EXTRA_CA_CERTS: extraCaCerts };
  return {
    profile: 'probe',
    entry: ENTRY,
    env: { TZ: 'UTC', LANG: 'C.UTF-8', NODE_USE_SYSTEM_CA: '1', ...authorities },
    readable: [...installedFiles(), ...SYSTEM_FILES, ...Object.values(authorities)],
    may: ['listen'],
    heapMb: HEAP_MB,
  };
}
