import { findCheckType, type JobClass } from '../../checks/index.ts';
import type { Job } from '../../contract/index.ts';
import type { Executor, Finished } from '../ports.ts';
import type { ProbePool } from '../probes/index.ts';
import { scrubbedReport, type ScriptRoom } from '../scripts/index.ts';
import type { SuiteRoom } from '../suites/index.ts';
import { createScrubber, secretsOf, type Scrubber } from '../scrub/index.ts';

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
  readonly #suites: SuiteRoom;

  constructor(probes: ProbePool, scripts: ScriptRoom, suites: SuiteRoom) {
    this.#probes = probes;
    this.#scripts = scripts;
    this.#suites = suites;
  }

  get waiting(): number {
    return this.#probes.waiting;
  }

  async run(job: Job, signal: AbortSignal): Promise<Finished | undefined> {
    const lane = findCheckType(job.checkType)?.lane;
    if (lane === 'suite') return this.#suites.run(job, signal);
    if (lane === 'script') return this.#scripts.run(job, signal);
    if (classOf(job) === 'light') {
      const finished = await this.#probes.run(job, signal);
      return finished && scrubbed(finished, createScrubber(secretsOf(job, [])));
    }
    return this.#scripts.withApiScripts(job, signal, async (scripts) => {
      const finished = await this.#probes.run(job, signal, scripts);
      return finished && scrubbed(finished, scripts.scrubber);
    });
  }
}

/** Times stay as they are, whatever a secret looks like. */
function scrubbed(finished: Finished, scrubber: Scrubber): Finished {
  return { ...finished, report: scrubbedReport(finished.report, scrubber) };
}
