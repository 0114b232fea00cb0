import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ChildProgram } from './child.ts';
import { ROOMS } from './profiles.ts';

/**
 * Of our own code. A regular expression of a user that back-tracks for ever is finished by a second
 * engine in linear time. Without `__proto__` a parsed answer cannot reach a prototype.
 */
const OWN_CODE_FLAGS = [
  '--disable-proto=delete',
  '--enable-experimental-regexp-engine-on-excessive-backtracks',
  '--disable-warning=ExperimentalWarning',
  '--disable-sigusr1',
];

const PING_FLAGS = ['--allow-child-process', '--allow-addons', '--disable-warning=SecurityWarning'];

/** The arguments of Node for `program`, its entry included. */
export function nodeArguments(program: ChildProgram): string[] {
  const { profile, flags = [], arguments: own = [], permission = ROOMS[profile].permission } = program;
  return [
    ...(permission ? permissionFlags(program) : []),
    ...(profile === 'probe' ? OWN_CODE_FLAGS : []),
    `--max-old-space-size=${program.heapMb}`,
    ...flags,
    fileURLToPath(program.entry),
    ...own,
  ];
}

function permissionFlags(program: ChildProgram): string[] {
  const { node = process.execPath, folder, may, readable } = program;
  const files = folder === undefined ? readable : [...readable, folder];
  return [
    ...permissionSwitch(versionOf(node)),
    ...outermost(files).map((path) => `--allow-fs-read=${path}`),
    ...(folder === undefined ? [] : [`--allow-fs-write=${folder}`]),
    ...(may.includes('ping') ? PING_FLAGS : []),
  ];
}

/** Node 22.11 forgets a good part of a folder when something inside it is allowed once more. */
const outermost = (paths: readonly string[]): string[] =>
  paths.filter((path) => !paths.some((other) => path.startsWith(`${other}/`)));

/** The switch had another name before 22.13, and the network became a part of it in 25. */
function permissionSwitch([major, minor]: [number, number]): string[] {
  if (major < 22 || (major === 22 && minor < 13)) return ['--experimental-permission'];
  return major < 25 ? ['--permission'] : ['--permission', '--allow-net'];
}

const versions = new Map<string, [number, number]>();

/** Major and minor version of a Node binary. Asks it once. */
function versionOf(node: string): [number, number] {
  const known = versions.get(node);
  if (known !== undefined) return known;
  const text =
    node === process.execPath ? process.version : execFileSync(node, ['--version'], { encoding: 'utf8' });
  const [major = 0, minor = 0] = text.slice(1).split('.').map(Number);
  versions.set(node, [major, minor]);
  return [major, minor];
}
