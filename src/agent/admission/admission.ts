import type { JobClass } from '../../checks/index.ts';
import { monoMs } from '../../kit/clock.ts';
import type { Machine } from './cgroup.ts';

export interface LanePlan {
  /** Probe processes. */
  probes: number;
  /** Tries at once in one probe process. */
  perProbe: number;
  /** Heap bound of a probe process, MB. */
  heapMb: number;
  /** Runs at once, by what they need. */
  places: Record<JobClass, number>;
  /** Runs at once, all together. */
  total: number;
  /** Memory that one run of a heavy class may take, bytes: it is ended beyond that. */
  limitBytes: Record<HeavyClass, number>;
}

export type HeavyClass = Exclude<JobClass, 'light'>;
/** Classes whose processes may wait for a job. */
export type SpareClass = Exclude<HeavyClass, 'suite'>;

const MB = 1024 * 1024;
/** One process measures 64 targets at once with about 9 ms of distortion; more would show. */
const PER_PROBE = 64;
/** A Node process has about eleven threads; leave some for what else runs here. */
const PIDS_PER_PROCESS = 24;
/** Taken by the agent itself and kept clear of the limit. */
const RESERVE_BYTES = 32 * MB;
/** Agent and probes. */
const OWN_BYTES = 320 * MB;
/** What one run may need: a light one beyond what its process holds anyway, the others in all. */
const RUN_BYTES: Readonly<Record<JobClass, number>> = {
  light: MB,
  script: 150 * MB,
  browser: 1536 * MB,
  suite: 3072 * MB,
};
/** What ends a run: room above what it needs, and well below the limit of the whole, which would end all. */
const LIMIT_BYTES: Readonly<Record<HeavyClass, number>> = {
  script: 768 * MB,
  browser: 2560 * MB,
  suite: 6963 * MB,
};
const LIMIT_SHARE: Readonly<Record<HeavyClass, number>> = { script: 0.5, browser: 0.7, suite: 0.75 };
/** A spare process before it has its job; of a browser check, with the browser that waits in it. */
const SPARE_BYTES: Readonly<Record<SpareClass, number>> = { script: 128 * MB, browser: 256 * MB };
/** Below this, no browser starts at all. */
const LEAST_FOR_BROWSER_BYTES = 900 * MB;
/** One suite for each so much memory, and for each two processors. */
const SUITE_SHARE_BYTES = 4096 * MB;
/** The files change slowly and cost system calls. */
const READ_EVERY_MS = 1000;
/**
 * Two jobs for each processor have to wait for half of the time: one more would not be done sooner, and
 * what all of them measure would be this machine.
 */
const MAX_WAIT_SHARE = 0.5;

/** How many processes and runs this machine carries when nothing else runs on it. */
export function planLanes(machine: Machine, jobConcurrency: number | undefined): LanePlan {
  const { memoryLimitBytes, cpus } = machine;
  const roomy = cpus >= 2 && machine.pidsFree > 3 * PIDS_PER_PROCESS;
  const probes = roomy && memoryLimitBytes >= 512 * MB ? 2 : 1;
  const share = memoryLimitBytes / MB / 4 / probes;
  const cap = jobConcurrency ?? Infinity;
  const heavy = heavyPlaces(machine);
  const places = {
    light: Math.min(probes * PER_PROBE, cap),
    script: Math.min(heavy.script, cap),
    browser: Math.min(heavy.browser, cap),
    suite: Math.min(heavy.suite, cap),
  };
  return {
    probes,
    perProbe: PER_PROBE,
    heapMb: Math.round(Math.min(256, Math.max(64, share))),
    places,
    total: Math.min(places.light + places.script + places.browser + places.suite, cap),
    limitBytes: {
      script: Math.min(LIMIT_BYTES.script, memoryLimitBytes * LIMIT_SHARE.script),
      browser: Math.min(LIMIT_BYTES.browser, memoryLimitBytes * LIMIT_SHARE.browser),
      suite: Math.min(LIMIT_BYTES.suite, memoryLimitBytes * LIMIT_SHARE.suite),
    },
  };
}

/** A browser keeps a processor busy while a page loads; a script waits for most of its time. */
function heavyPlaces({ cpus, memoryLimitBytes, pidsFree }: Machine): Record<HeavyClass, number> {
  const spare = Math.max(0, memoryLimitBytes - OWN_BYTES);
  const fits = (bytes: number): number => Math.floor(spare / bytes);
  const byPids = Number.isFinite(pidsFree) ? Math.floor(pidsFree / (10 * PIDS_PER_PROCESS)) : Infinity;
  const browsers = Math.min(Math.max(1, Math.ceil(cpus)), Math.max(1, fits(RUN_BYTES.browser)), byPids);
  const suites = Math.min(
    Math.max(1, Math.floor(cpus / 2)),
    Math.max(1, Math.floor(memoryLimitBytes / SUITE_SHARE_BYTES)),
    byPids,
  );
  return {
    script: Math.min(Math.max(2, Math.ceil(cpus * 2)), fits(RUN_BYTES.script)),
    browser: memoryLimitBytes < LEAST_FOR_BROWSER_BYTES ? 0 : browsers,
    suite: memoryLimitBytes < LEAST_FOR_BROWSER_BYTES ? 0 : suites,
  };
}

/** What has been promised to heavy runs and what of it they have taken. */
export interface Heavy {
  running: Readonly<Record<HeavyClass, number>>;
  /** Memory that their processes hold now; asked at most once a second. */
  usedBytes(): number;
  /** The part of the processor time that they could have used and did not get lately, 0 to 1; asked as often. */
  waitShare(): number;
}

/** Says how many more runs may start, by what memory and processors were left at most a second ago. */
export class Admission {
  readonly #read: () => Machine;
  readonly #plan: Pick<LanePlan, 'limitBytes'>;
  #machine: Machine;
  #usedBytes = 0;
  #waitShare = 0;
  #readAtMs: number;

  constructor(read: () => Machine, plan: Pick<LanePlan, 'limitBytes'>) {
    this.#read = read;
    this.#plan = plan;
    this.#machine = read();
    this.#readAtMs = monoMs();
  }

  /** @returns how many of `wanted` more runs this machine allows, and why not all of them */
  allow(
    kind: JobClass,
    wanted: number,
    heavy: Heavy,
  ): { runs: number; short: 'memory' | 'processors' | null } {
    if (kind !== 'light' && this.#isPressed(heavy)) return { runs: 0, short: 'processors' };
    const fit = Math.floor(this.#freeBytes(heavy) / this.#costOf(kind));
    const runs = Math.max(0, Math.min(wanted, fit));
    return { runs, short: runs < wanted ? 'memory' : null };
  }

  /** Whether a process may wait for a run here without taking the memory of one. */
  allowSpare(kind: SpareClass, heavy: Heavy): boolean {
    return !this.#isPressed(heavy) && this.#freeBytes(heavy) > this.#costOf(kind) + SPARE_BYTES[kind];
  }

  /** Free memory that is not promised to a run which has not taken it yet. */
  #freeBytes(heavy: Heavy): number {
    this.#refresh(heavy);
    const { script, browser, suite } = heavy.running;
    const promised =
      script * this.#costOf('script') + browser * this.#costOf('browser') + suite * this.#costOf('suite');
    const untaken = Math.max(0, promised - this.#usedBytes);
    return this.#machine.memoryFreeBytes - RESERVE_BYTES - untaken;
  }

  /** Its own runs keep each other waiting. One runs in any case: the others on this machine may never rest. */
  #isPressed(heavy: Heavy): boolean {
    this.#refresh(heavy);
    const { script, browser } = heavy.running;
    return script + browser > 0 && this.#waitShare > MAX_WAIT_SHARE;
  }

  #refresh(heavy: Heavy): void {
    if (monoMs() - this.#readAtMs < READ_EVERY_MS) return;
    this.#machine = this.#read();
    this.#usedBytes = heavy.usedBytes();
    this.#waitShare = heavy.waitShare();
    this.#readAtMs = monoMs();
  }

  #costOf(kind: JobClass): number {
    return kind === 'light' ? RUN_BYTES.light : Math.min(RUN_BYTES[kind], this.#plan.limitBytes[kind]);
  }
}
