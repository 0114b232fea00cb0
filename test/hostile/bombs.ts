import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { removeFolder, startChild, type ChildProgram, type Profile } from '../../src/agent/sandbox/index.ts';
import type { Row } from './attacker.ts';
import { program } from './program.ts';

const MB = 1024 * 1024;

/** Of a script, which has less room and no programs of the system; the others are the same out of both. */
const WITHOUT_PROGRAMS = new Set(['fork', 'buffers', 'heap', 'crowd']);

const BOMBS: Record<string, { limits: NonNullable<ChildProgram['limits']>; ends: string[] }> = {
  fork: {
    limits: { memoryBytes: 4096 * MB, processes: 64, diskBytes: 64 * MB },
    ends: ['processes', 'memory'],
  },
  shell: {
    limits: { memoryBytes: 4096 * MB, processes: 64, diskBytes: 64 * MB },
    ends: ['processes', 'memory'],
  },
  buffers: { limits: { memoryBytes: 400 * MB, processes: 64, diskBytes: 64 * MB }, ends: ['memory'] },
  heap: {
    limits: { memoryBytes: 800 * MB, processes: 64, diskBytes: 64 * MB },
    ends: ['memory', 'out_of_memory'],
  },
  crowd: { limits: { memoryBytes: 800 * MB, processes: 64, diskBytes: 64 * MB }, ends: ['memory'] },
  files: { limits: { memoryBytes: 2048 * MB, processes: 64, diskBytes: 200 * MB }, ends: ['disk'] },
  file: { limits: { memoryBytes: 2048 * MB, processes: 64, diskBytes: 200 * MB }, ends: ['disk', 'crash'] },
  daemons: { limits: { memoryBytes: 4096 * MB, processes: 64, diskBytes: 64 * MB }, ends: ['exit'] },
  zombies: { limits: { memoryBytes: 4096 * MB, processes: 200, diskBytes: 64 * MB }, ends: ['exit'] },
};

/** Sets off every bomb that a profile can build, one after the other, and says how each ended. */
export async function bombs(profile: Profile, work: string): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [kind, { limits, ends }] of Object.entries(BOMBS)) {
    if (profile === 'script' && !WITHOUT_PROGRAMS.has(kind)) continue;
    const folder = join(work, kind);
    mkdirSync(folder);
    const token = `hostile-${randomUUID()}`;
    const begun = performance.now();
    const child = startChild(
      program(profile, './bomb.ts', folder, { limits, heapMb: kind === 'heap' ? 256 : 2048 }),
    );
    child.channel.write(`${JSON.stringify({ kind, token })}\n`);
    const end = await Promise.race([
      child.exceeded,
      child.exited.then(({ cause }) => cause),
      sleep(20_000, 'nothing stopped it', { ref: false }),
    ]);
    const noticed = Math.round(performance.now() - begun);
    await child.end();
    const took = Math.round(performance.now() - begun - noticed);
    const left = running(token);
    const dead = zombies();
    const size = folderSize(folder);
    await removeFolder(folder);
    const open = !ends.includes(end) || left > 0 || dead > 0 || size > 3 * limits.diskBytes || exists(folder);
    const found = `${end} ${noticed}+${took} ms`;
    const rest = `${left} left, ${dead} zombies, ${Math.round(size / MB)} MB on disk`;
    rows.push({ name: kind, open, outcome: open ? `OPEN ${found}, ${rest}` : found });
  }
  return rows;
}

function exists(folder: string): boolean {
  try {
    return statSync(folder).isDirectory();
  } catch {
    return false;
  }
}

const pids = (): string[] => readdirSync('/proc').filter((name) => /^\d+$/.test(name));

function read(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

const running = (token: string): number =>
  pids().filter((pid) => read(`/proc/${pid}/cmdline`).includes(token)).length;
export const isRunning = (pid: number): boolean => /^State:\s+[^ZX]/m.test(read(`/proc/${pid}/status`));

/** Dead children of ours that nobody waited for, orphans of theirs included where we are their reaper. */
const zombies = (): number =>
  pids().filter((pid) => {
    const status = read(`/proc/${pid}/status`);
    return /^State:\s+Z/m.test(status) && status.includes(`PPid:\t${process.pid}\n`);
  }).length;

function folderSize(folder: string): number {
  let sum = 0;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) sum += statSync(join(entry.parentPath, entry.name)).size;
  }
  return sum;
}
