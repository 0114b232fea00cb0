import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installedFiles, type ChildProgram } from '../sandbox/index.ts';

const HERE = import.meta.url;
/** Beside this file, in the sources as in the build. */
export const PROBE_ENTRY = new URL(HERE.endsWith('.ts') ? './child.ts' : './child.js', HERE);

const SYSTEM_FILES = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/services', '/etc/ssl'];

/**
 * A probe process: it sees our code, what name resolution reads and the extra authorities; its
 * environment holds no key and nothing of the agent's own.
 */
export function probeProgram(options: {
  entry: URL;
  ping: boolean;
  heapMb: number;
  extraCaCerts: string | undefined;
}): ChildProgram {
  const { extraCaCerts } = options;
  return {
    profile: 'probe',
    entry: options.entry,
    env: {
      TZ: 'UTC',
      LANG: 'C.UTF-8',
      // What the machine trusts, as curl does, besides the authorities that Node brings along.
      NODE_USE_SYSTEM_CA: '1',
      ...(options.ping ? { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } : {}),
      ...(extraCaCerts === undefined ? {} : { NODE_EXTRA_CA_CERTS: extraCaCerts }),
    },
    readable: [
      dirname(fileURLToPath(options.entry)),
      ...installedFiles(),
      ...SYSTEM_FILES,
      ...(extraCaCerts === undefined ? [] : [extraCaCerts]),
    ],
    may: options.ping ? ['ping'] : [],
    heapMb: options.heapMb,
  };
}
