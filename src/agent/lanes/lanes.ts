import { findCheckType, type JobClass } from '../../checks/index.ts';
import type { Job } from '../../contract/index.ts';
import type { Executor, Finished } from '../ports.ts';
import type { ProbePool } from '../probes/index.ts';
import type { ScriptRoom } from '../scripts/index.ts';

/** What the job needs of this machine. A definition that cannot be read needs nothing: it ends as an error. */
export function classOf(job: Job): JobClass {
  try {
    return findCheckType(job.checkType)?.jobClass(job.spec) ?? 'light';
  } catch {
    return 'light';
  }
}

export class Lanes implements Executor {
  readonly #probes: ProbePool;
  readonly #scripts: ScriptRoom;

  constructor(probes: ProbePool, scripts: ScriptRoom) {
    this.#probes = probes;
    this.#scripts = scripts;
  }

  get waiting(): number {
    return this.#probes.waiting;
  }

  async run(job: Job, signal: AbortSignal): Promise<Finished | undefined> {
    if (findCheckType(job.checkType)?.lane === 'script') return this.#scripts.run(job, signal);
    return this.#probes.run(job, signal);
  }
}
