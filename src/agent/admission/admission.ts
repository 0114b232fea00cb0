import { monoMs } from '../../kit/clock.ts';
import type { Machine } from './cgroup.ts';

export interface LanePlan {
  /** Probe processes. */
  probes: number;
  /** Tries at once in one probe process. */
  perProbe: number;
  /** Light runs at once. */
  total: number;
  /** Heap bound of a probe process, MB. */
  heapMb: number;
}

const MB = 1024 * 1024;
/** One process measures 64 targets at once with about 9 ms of distortion; more would show. */
const PER_PROBE = 64;
/** A Node process has about eleven threads; leave some for what else runs here. */
const PIDS_PER_PROCESS = 24;
/** Taken by the agent itself and kept clear of the limit. */
const RESERVE_BYTES = 32 * MB;
/** What one light run may need beyond what its process holds anyway. */
const LIGHT_RUN_BYTES = 1 * MB;
/** The files change slowly and cost system calls. */
const READ_EVERY_MS = 1000;

/** How many processes and runs this machine carries when nothing else runs on it. */
export function planLanes(machine: Machine, jobConcurrency: number | undefined): LanePlan {
  const roomy = machine.cpus >= 2 && machine.pidsFree > 3 * PIDS_PER_PROCESS;
  const probes = roomy && machine.memoryLimitBytes >= 512 * MB ? 2 : 1;
  const share = machine.memoryLimitBytes / MB / 4 / probes;
  return {
    probes,
    perProbe: PER_PROBE,
    total: Math.max(1, Math.min(probes * PER_PROBE, jobConcurrency ?? Infinity)),
    heapMb: Math.round(Math.min(256, Math.max(64, share))),
  };
}

/** Says how many more light runs may start, by the memory left at most a second ago. */
export class Admission {
  readonly #read: () => Machine;
  #machine: Machine;
  #readAtMs: number;

  constructor(read: () => Machine) {
    this.#read = read;
    this.#machine = read();
    this.#readAtMs = monoMs();
  }

  /** @returns how many of `wanted` more runs memory allows, and why not all of them */
  allow(wanted: number): { runs: number; short: 'memory' | null } {
    if (monoMs() - this.#readAtMs > READ_EVERY_MS) {
      this.#machine = this.#read();
      this.#readAtMs = monoMs();
    }
    const fit = Math.floor((this.#machine.memoryFreeBytes - RESERVE_BYTES) / LIGHT_RUN_BYTES);
    const runs = Math.max(0, Math.min(wanted, fit));
    return { runs, short: runs < wanted ? 'memory' : null };
  }
}
