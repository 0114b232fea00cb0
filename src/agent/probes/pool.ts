import type { PhaseQuestion, ScriptHooks } from '../../checks/script-hooks.ts';
import type { Job } from '../../contract/index.ts';
import { ExecutorFault, type Executor, type Finished } from '../ports.ts';
import { Crew, type CrewOptions, type Kind } from './crew.ts';
import type { Probe, TryEnd } from './probe.ts';

export interface PoolOptions extends CrewOptions {
  /** Tries at once in one process. */
  perProbe: number;
  /** A try that its probe has not ended this long after its time was up is ended from here, ms. */
  graceMs?: number;
}

export interface PoolEvents {
  /** A process became ready to take tries. */
  onReady?: () => void;
  /** A process ended; `cause` is a word. */
  onEnded?: (cause: string) => void;
}

const GRACE_MS = 5_000;
/** A try is begun again once after the end of its process, then it is reported. */
const MAX_CRASHES = 2;

interface Begun {
  probe: Probe;
  end: Promise<TryEnd>;
  cancel: () => void;
}

/** A try that waits for a probe. */
interface Placement {
  kind: Kind;
  suspect: boolean;
  begin(probe: Probe): void;
}

/** Tries in the probe processes, and those that wait for one. */
export class ProbePool implements Executor {
  readonly #options: PoolOptions;
  readonly #crew: Crew;
  /** A probe takes one suspect at a time, so that a second crash points at one try. */
  readonly #suspectIn = new Set<Probe>();
  #queue: Placement[] = [];
  /** Check types that need the process that may ping; known before the first try. */
  pingTypes: ReadonlySet<string> = new Set();
  /** What happens to the processes, for whom it concerns. */
  readonly events: PoolEvents = {};

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#crew = new Crew(options, {
      onReady: () => {
        this.#pump();
        this.events.onReady?.();
      },
      onEnded: (probe, cause) => {
        this.#suspectIn.delete(probe);
        this.#pump();
        this.events.onEnded?.(cause);
      },
    });
  }

  get waiting(): number {
    return this.#queue.length;
  }
  /** True while a probe can take a try. */
  get ready(): boolean {
    for (const { state } of this.#crew.of('plain')) if (state === 'ready') return true;
    return false;
  }
  /** Why the last process could not start; undefined while they do. */
  get startError(): string | undefined {
    return this.#crew.startError;
  }
  get processes(): { kind: Kind; pid: number | undefined; state: string; load: number; rssBytes: number }[] {
    return this.#crew
      .all()
      .map(({ kind, probe: { pid, state, load, rssBytes } }) => ({ kind, pid, state, load, rssBytes }));
  }

  /** Starts the processes, so that they get ready while others still prepare. */
  start(): void {
    this.#crew.start();
  }

  /** Ends them. Resolves when they are gone. */
  stop(): Promise<void> {
    return this.#crew.stop();
  }

  /** Keeps the processes alive until `signal` aborts, then ends them. */
  async keep(signal: AbortSignal): Promise<void> {
    this.start();
    if (!signal.aborted) {
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    }
    await this.stop();
  }

  /** @param scripts runs the scripts of an API check; asked for a phase at most once */
  async run(job: Job, signal: AbortSignal, scripts?: ScriptHooks): Promise<Finished | undefined> {
    let asked = false;
    const watched = scripts && {
      run: (question: PhaseQuestion) => {
        asked = true;
        return scripts.run(question);
      },
    };
    const kind: Kind = this.pingTypes.has(job.checkType) ? 'ping' : 'plain';
    if (kind === 'ping') this.#crew.wantPing();
    for (let crashes = 0; crashes < MAX_CRASHES;) {
      const suspect = crashes > 0;
      const begun = await this.#begin(job, kind, suspect, signal, watched);
      if (begun === undefined) return undefined;
      const end = await this.#finish(begun, job, suspect, signal);
      if (end === undefined) return undefined;
      if (end.kind === 'report') return { report: end.report, files: [], refused: [] };
      if (end.kind === 'fault') throw new ExecutorFault(end.code, end.message);
      crashes++;
      this.#options.log.warn(
        { runId: job.runId, checkId: job.checkId, cause: end.cause, crashes },
        'the probe process of a run ended',
      );
      // What its scripts did cannot be done again.
      if (asked) throw new ExecutorFault('PROBE_CRASHED', 'the process that ran this check ended abnormally');
    }
    throw new ExecutorFault(
      'PROBE_CRASHED',
      'the process that ran this check ended abnormally, twice in a row',
    );
  }

  /** Replaces every process by a new one, without a gap. */
  renewAll(): void {
    for (const { probe } of this.#crew.all()) this.#crew.outdate(probe);
  }

  /** Begins the try in a probe with room, now or when there is one; undefined when `signal` aborts first. */
  async #begin(
    job: Job,
    kind: Kind,
    suspect: boolean,
    signal: AbortSignal,
    scripts: ScriptHooks | undefined,
  ): Promise<Begun | undefined> {
    if (signal.aborted) return undefined;
    const begin = (probe: Probe): Begun => ({ probe, ...probe.run(job, scripts) });
    const found = this.#find(kind, suspect);
    if (found !== undefined) return begin(found);
    const { promise, resolve } = Promise.withResolvers<Begun | undefined>();
    const placement: Placement = { kind, suspect, begin: (probe) => resolve(begin(probe)) };
    this.#queue.push(placement);
    const giveUp = (): void => {
      this.#queue = this.#queue.filter((each) => each !== placement);
      resolve(undefined);
    };
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  #find(kind: Kind, suspect: boolean): Probe | undefined {
    let best: Probe | undefined;
    for (const probe of this.#crew.of(kind)) {
      if (probe.state !== 'ready' || probe.load >= this.#options.perProbe) continue;
      if (suspect && this.#suspectIn.has(probe)) continue;
      if (best === undefined || probe.load < best.load) best = probe;
    }
    if (suspect && best !== undefined) this.#suspectIn.add(best);
    return best;
  }

  /** Gives waiting tries to probes, in order. */
  #pump(): void {
    const queue = this.#queue;
    this.#queue = [];
    for (const placement of queue) {
      const probe = this.#find(placement.kind, placement.suspect);
      if (probe === undefined) this.#queue.push(placement);
      else placement.begin(probe);
    }
  }

  async #finish(begun: Begun, job: Job, suspect: boolean, signal: AbortSignal): Promise<TryEnd | undefined> {
    const { probe, end, cancel } = begun;
    const ended = end.finally(() => {
      if (suspect) this.#suspectIn.delete(probe);
      this.#pump();
    });
    const stopped = Promise.withResolvers<'stopped' | 'overdue'>();
    const onAbort = (): void => stopped.resolve('stopped');
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    const timer = setTimeout(
      () => stopped.resolve('overdue'),
      job.timeoutMs + (this.#options.graceMs ?? GRACE_MS),
    );
    try {
      const first = await Promise.race([ended, stopped.promise]);
      if (typeof first === 'object') return first;
      cancel();
      if (first === 'stopped') return undefined;
      this.#crew.outdate(probe);
      throw new ExecutorFault('TRY_OVERDUE', `the check did not end within its ${job.timeoutMs} ms`);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  }
}
