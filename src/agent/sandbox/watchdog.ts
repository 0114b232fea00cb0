import { statfsSync } from 'node:fs';
import type { JobLimits } from './child.ts';
import { diskUse } from './disk-use.ts';
import { reap } from './kernel.ts';
import type { Marker } from './marker.ts';
import {
  allPids,
  markerOfProcess,
  proportionalBytes,
  standBackInSession,
  statusOf,
  threadsOfMachine,
  type ProcessStatus,
} from './processes.ts';

export type Excess = 'memory' | 'processes' | 'disk';

export interface Usage {
  processes: number;
  memoryBytes: number;
  peakMemoryBytes: number;
}

const LOOK_MS = 100;
/** Every so many looks while no job has taken half of what it may: no memory fills as fast as that. */
const CALM_EVERY = 3;
/** Unless so many threads came since the last look: what multiplies may be gone again before the next. */
const NOTABLE_THREADS = 32;
/** Looks between two that ask every process of the machine again, whatever is known of it. */
const FULL_LOOK_EVERY = 100;
/** The walk over a folder takes at most this part of our time: while its file system fills, and otherwise. */
const WALK_SHARE = { filling: 0.05, calm: 0.005 };
/** It fills when it lost so much since the last walk: of the limit, and files. */
const NOTABLE_LOSS = { share: 0.05, bytes: 64 * 1024 * 1024, files: 2000 };
/** The exact measure of memory is slow: taken again when the rough one grew by this much. */
const NOTABLE_GROWTH = 1.05;

export interface WatchedJob {
  marker: Marker;
  /** Its first process, which has no mark yet when it is looked at very early. */
  pid: number | undefined;
  folder: string | undefined;
  limits: JobLimits | undefined;
  /** How far its sessions stand back for others; 0 leaves them. */
  nice: number;
  onExcess: (excess: Excess) => void;
}

interface MarkedProcess extends ProcessStatus {
  pid: number;
}

/** Looks at a job every 100 ms, or 300 while it is calm, and tells the first limit that it went over, once. */
export class Watch {
  readonly job: WatchedJob;
  #usage: Usage = { processes: 0, memoryBytes: 0, peakMemoryBytes: 0 };
  #pids: readonly number[] = [];
  #stoodBack = new Set<number>();
  #excess: Excess | undefined;
  #walk: { endedAt: number; tookMs: number; free: Free | undefined } = {
    endedAt: 0,
    tookMs: 0,
    free: undefined,
  };
  /** The rough measure at the time of the last exact one. */
  #measuredAt = 0;

  constructor(job: WatchedJob) {
    this.job = job;
    if (job.limits === undefined) return;
    watches.add(this);
    timer ??= setInterval(lookAtAll, LOOK_MS).unref();
  }

  /** As the last look found it; without limits, as it is now. */
  usage(): Usage {
    if (this.job.limits === undefined) {
      forget();
      this.#measure(present(this.job, pidsOf([this])));
    }
    return { ...this.#usage };
  }

  /** The job's processes as the last look found them. */
  get pids(): readonly number[] {
    return this.#pids;
  }

  stop(): void {
    watches.delete(this);
    if (watches.size > 0) return;
    clearInterval(timer);
    timer = undefined;
    forget();
  }

  look(processes: MarkedProcess[]): void {
    this.#measure(processes);
    this.#standBack();
    this.#judge((limits) => this.#excessOf(limits, processes));
  }

  /** Costs next to nothing where the file system does not fill. */
  lookAtDisk(): void {
    this.#judge((limits) => (this.#diskIsOver(limits) ? 'disk' : undefined));
  }

  #judge(excessOf: (limits: JobLimits) => Excess | undefined): void {
    const { limits } = this.job;
    if (limits === undefined || this.#excess !== undefined) return;
    this.#excess = excessOf(limits);
    if (this.#excess !== undefined) this.job.onExcess(this.#excess);
  }

  /** Far from its limits, as the last look found it. */
  get isCalm(): boolean {
    const { limits } = this.job;
    const { processes, memoryBytes } = this.#usage;
    if (limits === undefined) return true;
    return processes > 0 && processes < limits.processes / 2 && memoryBytes < limits.memoryBytes / 2;
  }

  #standBack(): void {
    if (this.job.nice === 0) return;
    for (const pid of this.#pids) if (!this.#stoodBack.has(pid)) standBackInSession(pid, this.job.nice);
    this.#stoodBack = new Set(this.#pids);
  }

  #measure(processes: MarkedProcess[]): void {
    const shared = Math.max(0, ...processes.map((each) => each.fileBytes));
    const memoryBytes = processes.reduce((sum, each) => sum + each.anonymousBytes, shared);
    this.#pids = processes.map(({ pid }) => pid);
    const peakMemoryBytes = Math.max(memoryBytes, this.#usage.peakMemoryBytes);
    this.#usage = { processes: processes.length, memoryBytes, peakMemoryBytes };
  }

  #excessOf(limits: JobLimits, processes: MarkedProcess[]): Excess | undefined {
    if (processes.length > limits.processes) return 'processes';
    if (this.#usage.memoryBytes > limits.memoryBytes && this.#isReallyOver(limits, processes)) {
      return 'memory';
    }
    return this.#diskIsOver(limits) ? 'disk' : undefined;
  }

  /** The rough measure counts a page that two processes share twice. */
  #isReallyOver(limits: JobLimits, processes: MarkedProcess[]): boolean {
    const rough = this.#usage.memoryBytes;
    if (rough < this.#measuredAt * NOTABLE_GROWTH) return false;
    this.#measuredAt = rough;
    const exact = processes.reduce(
      (sum, each) => sum + (proportionalBytes(each.pid) ?? each.anonymousBytes),
      0,
    );
    return exact > limits.memoryBytes;
  }

  #diskIsOver(limits: JobLimits): boolean {
    const { folder } = this.job;
    if (folder === undefined || !this.#isWalkDue(folder, limits)) return false;
    const free = freeOf(folder);
    const begun = performance.now();
    const used = diskUse(folder, limits.diskBytes, limits.files);
    const endedAt = performance.now();
    this.#walk = { endedAt, tookMs: endedAt - begun, free };
    return used > limits.diskBytes;
  }

  /** Others on the file system may hide what a job writes by what they remove, so it is walked when calm, too. */
  #isWalkDue(folder: string, { diskBytes }: JobLimits): boolean {
    const { endedAt, tookMs, free } = this.#walk;
    const restedMs = performance.now() - endedAt;
    if (restedMs < tookMs / WALK_SHARE.filling) return false;
    if (restedMs >= tookMs / WALK_SHARE.calm) return true;
    const now = freeOf(folder);
    if (now === undefined || free === undefined) return true;
    const notable = Math.min(NOTABLE_LOSS.bytes, diskBytes * NOTABLE_LOSS.share);
    return free.bytes - now.bytes > notable || free.files - now.files > NOTABLE_LOSS.files;
  }
}

interface Free {
  bytes: number;
  files: number;
}

/** Of the file system; undefined where it does not count its files. */
function freeOf(folder: string): Free | undefined {
  try {
    const { bfree, bsize, files, ffree } = statfsSync(folder);
    return files === 0 ? undefined : { bytes: bfree * bsize, files: ffree };
  } catch {
    return undefined;
  }
}

const watches = new Set<Watch>();
let timer: NodeJS.Timeout | undefined;

/** A process never changes its mark, so each is asked about it once. */
const marks = new Map<number, Marker>();
/** Processes of nobody's job. */
const strangers = new Set<number>();
let looks = 0;
let threads = 0;

/** One scan of the machine for all jobs. */
function lookAtAll(): void {
  if (++looks % FULL_LOOK_EVERY === 0) forget();
  const threadsBefore = threads;
  threads = threadsOfMachine();
  const isQuiet = threads - threadsBefore < NOTABLE_THREADS;
  if (looks % CALM_EVERY !== 0 && isQuiet && watches.values().every(({ isCalm }) => isCalm)) {
    for (const watch of watches) watch.lookAtDisk();
    return;
  }
  const pids = pidsOf(watches);
  for (const watch of watches) watch.look(present(watch.job, pids));
}

function forget(): void {
  strangers.clear();
  marks.clear();
}

/** The number of a process that ended may be used anew. */
function keepOnly(pids: readonly number[]): void {
  const present = new Set(pids);
  for (const pid of strangers) if (!present.has(pid)) strangers.delete(pid);
  for (const pid of marks.keys()) if (!present.has(pid)) marks.delete(pid);
}

function pidsOf(wanted: Iterable<Watch>): Map<Marker, number[]> {
  const found = new Map<Marker, number[]>(Array.from(wanted, (watch) => [watch.job.marker, []]));
  const firsts = new Set(Array.from(wanted, (watch) => watch.job.pid));
  const pids = allPids();
  keepOnly(pids);
  for (const pid of pids) {
    if (strangers.has(pid)) continue;
    const marker = marks.get(pid) ?? markerOfProcess(pid);
    if (marker === undefined && !firsts.has(pid)) strangers.add(pid);
    if (marker === undefined) continue;
    marks.set(pid, marker);
    found.get(marker)?.push(pid);
  }
  return found;
}

/**
 * What takes up a place in the list of processes, the dead that nobody asked about included: a bomb in a
 * container fills its list with them, and dies before its living ones were ever too many. Orphans that came
 * to us, where we are the first process, are asked about on the way.
 */
function present({ marker, pid: first }: WatchedJob, pids: Map<Marker, number[]>): MarkedProcess[] {
  return (pids.get(marker) ?? []).flatMap((pid) => {
    const status = statusOf(pid);
    if (status === undefined) return [];
    if (status.zombie && status.parent === process.pid && pid !== first) reap(pid);
    return [{ pid, ...status }];
  });
}
