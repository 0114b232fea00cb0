import { installedFiles, type ChildProgram } from '../sandbox/index.ts';

const HERE = import.meta.url;
/** Beside this file, in the sources as in the build. */
const ENTRY = new URL(HERE.endsWith('.ts') ? './child.ts' : './child.js', HERE);

const SYSTEM_FILES = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/services'];

/** It handles bytes and names only: a heap of its own size would be a leak. */
const HEAP_MB = 192;

/** The egress process: it sees our code and what name resolution reads, and waits for connections. */
export function egressProgram(): ChildProgram {
  return {
    profile: 'probe',
    entry: ENTRY,
    env: { TZ: 'UTC', LANG: 'C.UTF-8' },
    readable: [...installedFiles(), ...SYSTEM_FILES],
    may: ['listen'],
    heapMb: HEAP_MB,
  };
}
