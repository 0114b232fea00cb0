import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

/** What this agent may still use. Bytes; Infinity where nothing limits. */
export interface Machine {
  cpus: number;
  memoryLimitBytes: number;
  /** Memory that could be taken without reclaiming what is in use; page cache counts as free. */
  memoryFreeBytes: number;
  /** Processes and threads that may still be created. */
  pidsFree: number;
}

/**
 * Reads the limits that bind this process: of its own control group and of all above it, the tightest
 * of each, and the machine's free memory.
 *
 * @param root prefix of /proc and /sys; tests pass a folder
 */
export function readMachine(root = '/'): Machine {
  const groups = ownGroups(root);
  const v2 = groups.get('') ?? [];
  const memory = [...v2.map(memoryV2), ...(groups.get('memory') ?? []).map(memoryV1)];
  const system = systemMemory(root);
  return {
    cpus: Math.min(
      availableParallelism(),
      ...v2.map((dir) => quotaV2(dir)),
      ...(groups.get('cpu') ?? []).map((dir) => quotaV1(dir)),
    ),
    memoryLimitBytes: Math.min(system.totalBytes, ...memory.map(({ limit }) => limit)),
    memoryFreeBytes: Math.min(system.freeBytes, ...memory.map(({ limit, used }) => limit - used)),
    pidsFree: Math.min(Infinity, ...[...v2, ...(groups.get('pids') ?? [])].map(pidsLeft)),
  };
}

/** Folders of the groups that this process is in and of their parents, by v1 controller; '' is v2. */
function ownGroups(root: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const mounts = join(root, 'sys/fs/cgroup');
  for (const line of textOf(join(root, 'proc/self/cgroup'))?.split('\n') ?? []) {
    const [, controllers = '', ...path] = line.split(':');
    if (path.length === 0) continue;
    for (const controller of controllers.split(',')) {
      const top = controller === '' ? v2Mount(mounts) : join(mounts, controller);
      found.set(controller, withParents(top, path.join(':')));
    }
  }
  return found;
}

/** A hybrid machine keeps the v2 tree beside the v1 ones. */
function v2Mount(mounts: string): string {
  return textOf(join(mounts, 'unified/cgroup.controllers')) === undefined ? mounts : join(mounts, 'unified');
}

function withParents(top: string, path: string): string[] {
  const parts = path.split('/').filter((part) => part !== '' && part !== '..');
  return parts
    .reduceRight<string[]>((all, _, i) => [...all, join(top, ...parts.slice(0, i + 1))], [])
    .concat(top);
}

/**
 * What the kernel gives back when memory is asked for. Cache that was read twice too: what a suite unpacks and
 * reads would count against the next one otherwise, for as long as nobody else needs the memory.
 */
const GIVEN_BACK = ['inactive_file', 'active_file', 'slab_reclaimable'];

function memoryV2(dir: string): { limit: number; used: number } {
  return {
    limit: numberIn(dir, 'memory.max'),
    used: numberIn(dir, 'memory.current', 0) - sumOf(dir, GIVEN_BACK),
  };
}

function memoryV1(dir: string): { limit: number; used: number } {
  const names = GIVEN_BACK.map((name) => `total_${name}`);
  return {
    limit: numberIn(dir, 'memory.limit_in_bytes'),
    used: numberIn(dir, 'memory.usage_in_bytes', 0) - sumOf(dir, names),
  };
}

function quotaV2(dir: string): number {
  const [quota, period] = (textOf(join(dir, 'cpu.max')) ?? 'max').split(' ');
  return quota === 'max' ? Infinity : Number(quota) / Number(period ?? 100_000);
}

function quotaV1(dir: string): number {
  const quota = numberIn(dir, 'cpu.cfs_quota_us', -1);
  return quota <= 0 ? Infinity : quota / numberIn(dir, 'cpu.cfs_period_us', 100_000);
}

function pidsLeft(dir: string): number {
  return numberIn(dir, 'pids.max') - numberIn(dir, 'pids.current', 0);
}

/** A file with one number; `max` and a missing file mean no limit. */
function numberIn(dir: string, file: string, otherwise = Infinity): number {
  const text = textOf(join(dir, file))?.trim();
  if (text === undefined || text === 'max') return otherwise;
  const value = Number(text);
  return Number.isFinite(value) ? value : otherwise;
}

/** Of these lines of the group's statistics, those that there are. */
function sumOf(dir: string, names: readonly string[]): number {
  const lines = (textOf(join(dir, 'memory.stat')) ?? '').split('\n').map((line) => line.split(' '));
  return lines.reduce((sum, [name = '', value]) => sum + (names.includes(name) ? Number(value) : 0), 0);
}

function systemMemory(root: string): { totalBytes: number; freeBytes: number } {
  const text = textOf(join(root, 'proc/meminfo')) ?? '';
  const kib = (name: string): number => {
    const value = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1];
    return value === undefined ? Infinity : Number(value) * 1024;
  };
  return { totalBytes: kib('MemTotal'), freeBytes: kib('MemAvailable') };
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
