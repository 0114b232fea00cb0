import type { Artifact, DeclineReason, HeldRun, Job, RunRef, RunResult } from '../contract/index.ts';
import type { TryReport } from '../checks/execute.ts';
import type { JobClass } from '../checks/index.ts';
import type { z } from 'zod';

/** How the rooms of the agent know one another. Only agent.ts constructs them. */

export type Declined = RunRef & { reason: z.infer<typeof DeclineReason> };
export type ReleaseReason = 'shutdown' | 'crashed_previously' | 'interrupted' | 'fenced';

/** What the connection tells and asks about the runs that this agent holds. */
export interface RunHolder {
  /** The clock that leases are counted on, ms: monotonic, and going on while the machine sleeps. */
  now(): number;
  /** Everything held: running, and finished with a result that is not acknowledged yet. */
  held(): HeldRun[];
  /** Runs of this kind that could be started now. */
  free(kind: JobClass): number;
  /** Largest number of runs at once. */
  total(): number;
  /** Takes what fits, starts it, and says what it did not take. `jobs` come unread from the wire. */
  offered(jobs: readonly unknown[], leaseMs: number): { accepted: RunRef[]; declined: Declined[] };
  /** The service confirmed these leases; they count from `sentAtMs` (lease clock). */
  confirmed(runs: readonly (RunRef & { leaseMs: number })[], sentAtMs: number): void;
  /** The service gave these runs to somebody else, or ended them. */
  lost(runs: readonly RunRef[], why: string): void;
  cancelled(runs: readonly RunRef[]): void;
}

/** What the runs need from the wire. Nothing here waits or throws; a broken link is repaired by the next hello. */
export interface ServiceLink {
  /** Free places may have changed. */
  creditChanged(): void;
  release(runs: readonly RunRef[], reason: ReleaseReason): void;
  /** Confirms the leases before their turn. */
  renewNow(): void;
}

/** A file of a finished try: scrubbed, at rest in the agent's data folder, and ours alone. */
export interface CollectedFile extends Omit<Artifact, 'state' | 'reason'> {
  sha256: string;
  /** Where its bytes are; the file is the sink's from now on. */
  path: string;
}

/** A try that was observed. */
export interface Finished {
  report: TryReport;
  files: readonly CollectedFile[];
  /** Files that are not sent, with the reason; part of the manifest. */
  refused: readonly Artifact[];
}

/** Runs one try somewhere. */
export interface Executor {
  /**
   * @returns what was found, or undefined when the try was ended by `signal`
   * @throws ExecutorFault when the try could not be observed through a fault of ours
   */
  run(job: Job, signal: AbortSignal): Promise<Finished | undefined>;
  /** Tries given to it that no process has begun yet. */
  readonly waiting: number;
}

/** The agent could not run a try. Becomes `hasErrors`, never a failure of the target. */
export class ExecutorFault extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.name = 'ExecutorFault';
    this.code = code;
  }
}

/** Reason of a try's signal: why it was ended before it was done. */
export class RunStopped extends Error {
  /** What is known of it counts all the same; otherwise somebody else has the run now, or gets it. */
  readonly isKept: boolean;
  constructor(why: string, isKept: boolean) {
    super(why);
    this.name = 'RunStopped';
    this.isKept = isKept;
  }
}

/** Keeps results until the service has them. */
export interface ResultSink {
  /** Resolves when the result, and the files that belong to it, survive a crash of this process. */
  accept(result: RunResult, lane: number, files?: readonly CollectedFile[]): Promise<void>;
}

/** Answer of one HTTP exchange with the service. */
export interface Reply {
  status: number;
  /** From `retry-after`, ms; undefined without. */
  retryAfterMs: number | undefined;
  body: Buffer;
}

/** Counts what happens; the health room shows it. */
export interface Recorder {
  tryStarted(checkType: string): void;
  tryFinished(job: Job, result: RunResult): void;
  /** Ended without a result: somebody else has the run, or gets it now. */
  tryAbandoned(job: Job): void;
  declined(reason: string): void;
  leaseLost(why: string): void;
  probeEnded(cause: string): void;
  /** The process of a job with user code ended by itself, or went over a limit. */
  scriptEnded(kind: string, cause: string): void;
  messageIgnored(why: string): void;
  upload(outcome: string, results: number): void;
}
