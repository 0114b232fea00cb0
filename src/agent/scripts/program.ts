import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Runtime } from '../runtimes/index.ts';
import { canNestChromiumSandbox, type ChildProgram, type JobLimits } from '../sandbox/index.ts';

/** What a child is for; each has walls and room of its own. */
export type ScriptKind = 'browser' | 'multistep' | 'api';

const HERE = import.meta.url;
/** Beside this file, in the sources as in the build. */
export const SCRIPT_ENTRY = new URL(HERE.endsWith('.ts') ? './child/main.ts' : './child/main.js', HERE);
/** To be run once by the Node of a runtime that was installed, with the folder of its packages. */
export const COMPILE_CACHE_ENTRY = new URL(
  HERE.endsWith('.ts') ? './child/fill-cache.ts' : './child/fill-cache.js',
  HERE,
);

const SYSTEM_FILES = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/services', '/etc/ssl'];
const BROWSER_FILES = ['/etc/fonts', '/usr/share', '/usr/local/share', '/var/cache/fontconfig'];

const MB = 1024 * 1024;
/** JavaScript alone; a browser's pages live in processes of their own. */
const HEAP_MB: Readonly<Record<ScriptKind, number>> = { browser: 512, multistep: 384, api: 192 };
/** Chromium has about ten processes and one more per site; scripts start none but their own. */
const PROCESSES: Readonly<Record<ScriptKind, number>> = { browser: 128, multistep: 32, api: 32 };
const DISK_BYTES: Readonly<Record<ScriptKind, number>> = {
  browser: 600 * MB,
  multistep: 200 * MB,
  api: 100 * MB,
};

export function limitsOf(kind: ScriptKind, memoryBytes: number): JobLimits {
  return { memoryBytes, processes: PROCESSES[kind], diskBytes: DISK_BYTES[kind] };
}

export const heapMbOf = (kind: ScriptKind): number => HEAP_MB[kind];

export interface ScriptProgram {
  kind: ScriptKind;
  /** Its browser is to be the whole Chromium. */
  fullBrowser: boolean;
  runtime: Runtime;
  folder: string;
  limits: JobLimits;
  /** Port of the egress proxy, the only one to be reached; undefined where every target may be. */
  egressPort: number | undefined;
  extraCaCerts: string | undefined;
  entry: URL;
}

/** A process for one job: it sees the runtime, its own code and its folder, and nothing of the agent. */
export function programOf(options: ScriptProgram): ChildProgram {
  const { kind, fullBrowser, runtime, folder, limits, egressPort, extraCaCerts, entry } = options;
  const isBrowser = kind === 'browser';
  const code = dirname(fileURLToPath(entry));
  return {
    profile: isBrowser ? 'browser' : 'script',
    node: runtime.node,
    entry,
    flags: runtime.flags,
    env: {
      TZ: 'UTC',
      LANG: 'C.UTF-8',
      PATH: '/usr/bin:/bin',
      NODE_USE_SYSTEM_CA: '1',
      ...(extraCaCerts === undefined ? {} : { NODE_EXTRA_CA_CERTS: extraCaCerts }),
    },
    readable: [
      code,
      runtime.node,
      runtime.modules,
      ...SYSTEM_FILES,
      ...(isBrowser ? [runtime.browsers, ...runtime.browserFolders, ...BROWSER_FILES] : []),
      ...(extraCaCerts === undefined ? [] : [extraCaCerts]),
    ],
    ...(isBrowser ? { executable: [runtime.browsers, ...runtime.browserFolders] } : {}),
    folder,
    may: [
      ...(isBrowser && canNestChromiumSandbox() ? (['nested-sandbox'] as const) : []),
      ...(isBrowser && fullBrowser && runtime.hasWholeChromium ? (['unix-sockets'] as const) : []),
    ],
    heapMb: HEAP_MB[kind],
    ...(egressPort === undefined ? {} : { tcpPorts: [egressPort] }),
    limits,
    // Playwright loads code in ways that Node's own permissions do not know.
    permission: kind === 'api',
  };
}
