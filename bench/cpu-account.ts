import { mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** A group of processes, whose processor time is summed with that of all that they start, ended or not. */
export class CpuAccount {
  readonly #folder: string;
  readonly #read: () => number;

  private constructor(folder: string, read: () => number) {
    this.#folder = folder;
    this.#read = read;
  }

  /** @returns undefined where no group can be made: without root, or without a writable cgroup */
  static open(name: string): CpuAccount | undefined {
    const v1 = join('/sys/fs/cgroup/cpuacct', name);
    const v2 = join('/sys/fs/cgroup', name);
    const ways = [
      [v1, () => Number(readFileSync(join(v1, 'cpuacct.usage'), 'utf8')) / 1e6],
      [v2, () => Number(/usage_usec (\d+)/.exec(readFileSync(join(v2, 'cpu.stat'), 'utf8'))?.[1]) / 1e3],
    ] as const;
    for (const [folder, read] of ways) {
      try {
        mkdirSync(folder);
        read();
        return new CpuAccount(folder, read);
      } catch {
        // The other way.
      }
    }
    return undefined;
  }

  /** A command that runs another one in this group. */
  get command(): [program: string, args: string[]] {
    return ['/bin/sh', ['-c', `echo $$ > ${join(this.#folder, 'cgroup.procs')} && exec "$@"`, 'sh']];
  }

  /** So far, ms. */
  get ms(): number {
    return this.#read();
  }

  /** A group goes with its last process. */
  async close(): Promise<void> {
    for (let tries = 0; tries < 50; tries++) {
      try {
        return rmdirSync(this.#folder);
      } catch {
        await delay(100);
      }
    }
  }

  /** Resident memory of all its processes, shared pages by their share, MB. */
  get memoryMb(): number {
    const pids = readFileSync(join(this.#folder, 'cgroup.procs'), 'utf8').trim().split('\n');
    return pids.reduce((sum, pid) => sum + pssMbOf(pid), 0);
  }
}

function pssMbOf(pid: string): number {
  try {
    return (
      Number(/^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) / 1024
    );
  } catch {
    return 0;
  }
}
