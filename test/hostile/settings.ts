import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { BASE_IMAGE, ensureBaseImage } from '../image/base.ts';
import type { BatteryReport } from './battery.ts';

const PROJECT = resolve(import.meta.dirname, '../..');
const BATTERY = join(import.meta.dirname, 'battery.ts');
const SECRET = 'pl_hostile_battery_key_0123456789abcdef';

/** Where the battery runs: the ways in which agents are deployed. */
export interface Setting {
  name: string;
  /** Jobs have users of their own then. */
  isRoot?: true;
  /** Why it cannot be had on this machine; undefined when it can. */
  lacks(): string | undefined;
  command(): string[];
}

const isRoot = process.getuid?.() === 0;
const AS_USER = ['setpriv', '--reuid', '1000', '--regid', '1000', '--clear-groups'];
const RESTRICTED = ['--init', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--read-only'];

export const ON_THE_HOST: readonly Setting[] = [
  {
    name: 'host as root',
    isRoot: true,
    lacks: () => (isRoot ? undefined : 'the tests do not run as root'),
    command: () => [process.execPath, BATTERY],
  },
  {
    name: 'host as uid 1000',
    lacks: () => (isRoot ? unreachable() : process.getuid?.() === undefined ? 'no user ids here' : undefined),
    command: () => [...(isRoot ? AS_USER : []), process.execPath, BATTERY],
  },
];

export const IN_DOCKER: readonly Setting[] = [
  { name: 'docker as root', isRoot: true, lacks: ensureBaseImage, command: () => inDocker([], '0:0') },
  { name: 'docker, default', lacks: ensureBaseImage, command: () => inDocker([]) },
  {
    name: 'docker, restricted',
    lacks: ensureBaseImage,
    command: () => inDocker([...RESTRICTED, '--tmpfs', '/tmp:rw,exec,mode=1777']),
  },
];

/** Another user must get to the project's files. */
function unreachable(): string | undefined {
  for (let folder = PROJECT; folder !== dirname(folder); folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return `${folder} is closed to other users`;
  }
  return undefined;
}

/** The project and its Node are mounted read-only under their own paths. */
function inDocker(flags: readonly string[], user = '1000:1000'): string[] {
  const limits = ['--memory', '6g', '--pids-limit', '512'];
  const shared = ['-e', 'AGENT_SECRET', '-e', 'HOME=/tmp', '-v', `${PROJECT}:${PROJECT}:ro`];
  const program = [BASE_IMAGE, process.execPath, BATTERY];
  return ['docker', 'run', '--rm', '--user', user, ...limits, ...flags, ...shared, ...program];
}

/** @param signal ends it; what it attacks is gone soon after, since it all has an end of its own */
export async function runBattery(setting: Setting, signal: AbortSignal): Promise<BatteryReport> {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-battery-'));
  chmodSync(folder, 0o777);
  const [file, ...args] = setting.command();
  const child = spawn(file!, args, {
    env: { PATH: process.env['PATH'] ?? '', TMPDIR: folder, AGENT_SECRET: SECRET },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
  });
  child.on('error', () => {});
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const code = await new Promise<number | null>((done) => child.once('close', done));
  rmSync(folder, { recursive: true, force: true });
  if (code !== 0) throw new Error(`the battery ended with ${code}: ${errors.slice(-3000)}`);
  return JSON.parse(output.trim().split('\n').at(-1)!) as BatteryReport;
}
