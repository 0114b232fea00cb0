import { findCheckType } from '../../checks/index.ts';
import type { TryReport } from '../../checks/execute.ts';
import type { Job } from '../../contract/index.ts';
import { backoffMs, monoMs, sleep } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import { ExecutorFault, type Executor, type Recorder } from '../ports.ts';
import type { ProbeSetup } from './channel.ts';
import { Probe, type TryEnd } from './probe.ts';
import { PROBE_ENTRY, probeProgram } from './program.ts';

export interface PoolOptions {
  /** Probe processes for everything but ping; one more starts with the first ping. */
  size: number;
  /** Tries at once in one process. */
  perProbe: number;
  heapMb: number;
  setup: ProbeSetup;
  extraCaCerts: string | undefined;
  log: Log;
  recorder: Recorder;
  /** A process became ready to take tries. */
  onReady?: () => void;
  /** Program of the probes; a test passes its own. */
  entry?: URL;
  /** Tries after which a process is replaced. */
  recycleTries?: number;
  /** Seconds of silence after which a process hangs. */
  silentBeats?: number;
  /** A try that its probe has not ended this long after its time was up is ended from here, ms. */
  graceMs?: number;
}

type Kind = 'plain' | 'ping';

/** A process that served this many tries is replaced: whatever leaks stays small. */
const RECYCLE_TRIES = 100_000;
/** Resident memory above the heap's bound that buffers and code may take before a process is replaced, MB. */
const RECYCLE_EXTRA_MB = 160;
const GRACE_MS = 5_000;
/** A replaced process gets this long to finish what it has. */
const LEAVE_MS = 300_000;
/** A process that ended younger than this did not work: the next waits. */
const SHORT_LIFE_MS = 10_000;
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

/** The probe processes, and the tries that wait for one. */
export class ProbePool implements Executor {
  readonly #options: PoolOptions;
  readonly #probes: Record<Kind, Set<Probe>> = { plain: new Set(), ping: new Set() };
  /** A probe takes one suspect at a time, so that a second crash points at one try. */
  readonly #suspectIn = new Set<Probe>();
  /** To be replaced as soon as another process is ready. */
  readonly #outdated = new WeakSet<Probe>();
  #queue: Placement[] = [];
  #stop: AbortSignal | undefined;
  #pingWanted = Promise.withResolvers<void>();
  /** Why the last process could not start; undefined while they do. */
  startError: string | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#queue.length;
  }
  /** True while a probe can take a try. */
  get ready(): boolean {
    return [...this.#probes.plain].some((probe) => probe.state === 'ready');
  }
  get processes(): { kind: Kind; pid: number | undefined; state: string; load: number; rssBytes: number }[] {
    return (['plain', 'ping'] as const).flatMap((kind) =>
      [...this.#probes[kind]].map(({ pid, state, load, rssBytes }) => ({ kind, pid, state, load, rssBytes })),
    );
  }

  /** Keeps the processes alive until `signal` aborts, then ends them. */
  async keep(signal: AbortSignal): Promise<void> {
    this.#stop = signal;
    const slots = Array.from({ length: this.#options.size }, () => this.#keepSlot('plain', signal));
    const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    const ping = Promise.race([this.#pingWanted.promise, aborted]).then(() => this.#keepSlot('ping', signal));
    await Promise.all([...slots, ping]);
    await Promise.all([...this.#probes.plain, ...this.#probes.ping].map(({ ended }) => ended));
  }

  async run(job: Job, signal: AbortSignal): Promise<TryReport | undefined> {
    const kind: Kind = findCheckType(job.checkType)?.needs === 'ping' ? 'ping' : 'plain';
    if (kind === 'ping') this.#pingWanted.resolve();
    for (let crashes = 0; crashes < MAX_CRASHES;) {
      const suspect = crashes > 0;
      const begun = await this.#begin(job, kind, suspect, signal);
      if (begun === undefined) return undefined;
      const end = await this.#finish(begun, job, suspect, signal);
      if (end === undefined) return undefined;
      if (end.kind === 'report') return end.report;
      if (end.kind === 'fault') throw new ExecutorFault(end.code, end.message);
      crashes++;
      this.#options.log.warn(
        { runId: job.runId, checkId: job.checkId, cause: end.cause, crashes },
        'the probe process of a run ended',
      );
    }
    throw new ExecutorFault(
      'PROBE_CRASHED',
      'the process that ran this check ended abnormally, twice in a row',
    );
  }

  /** Replaces every process by a new one, without a gap. */
  renewAll(): void {
    for (const probe of [...this.#probes.plain, ...this.#probes.ping]) this.#outdated.add(probe);
  }

  /** Begins the try in a probe with room, now or when there is one; undefined when `signal` aborts first. */
  async #begin(job: Job, kind: Kind, suspect: boolean, signal: AbortSignal): Promise<Begun | undefined> {
    if (signal.aborted) return undefined;
    const begin = (probe: Probe): Begun => ({ probe, ...probe.run(job) });
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
    for (const probe of this.#probes[kind]) {
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
      this.#outdated.add(probe);
      throw new ExecutorFault('TRY_OVERDUE', `the check did not end within its ${job.timeoutMs} ms`);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** One place in the pool: its process, and the next when that ends or is due to leave. */
  async #keepSlot(kind: Kind, signal: AbortSignal): Promise<void> {
    let failures = 0;
    let current: Probe | undefined;
    while (!signal.aborted) {
      const bornMs = monoMs();
      const next = this.#start(kind);
      if (await next.started) {
        if (current !== undefined) void this.#retire(current, kind);
        current = next;
        this.startError = undefined;
        this.#pump();
        this.#options.onReady?.();
        await this.#untilDue(next, signal);
      } else if (!signal.aborted) {
        this.startError = next.startErrors || `it ended before it was ready (${await next.ended})`;
        this.#options.log.error({ kind, detail: this.startError }, 'a probe process did not start');
      }
      failures = monoMs() - bornMs < SHORT_LIFE_MS ? failures + 1 : 0;
      if (failures > 1) await sleep(250 + backoffMs(failures), signal).catch(() => {});
    }
  }

  #start(kind: Kind): Probe {
    const { setup, heapMb, extraCaCerts, entry = PROBE_ENTRY, log, recorder, silentBeats } = this.#options;
    const program = probeProgram({ entry, ping: kind === 'ping', heapMb, extraCaCerts });
    const probe = new Probe(program, setup, silentBeats);
    this.#probes[kind].add(probe);
    const kill = (): void => probe.kill();
    this.#stop?.addEventListener('abort', kill, { once: true });
    if (this.#stop?.aborted) kill();
    void probe.ended.then((cause) => {
      this.#stop?.removeEventListener('abort', kill);
      this.#probes[kind].delete(probe);
      this.#suspectIn.delete(probe);
      recorder.probeEnded(this.#stop?.aborted || probe.leaving ? 'replaced' : cause);
      log.debug({ pid: probe.pid, kind, cause, tries: probe.taken }, 'probe process ended');
      this.#pump();
    });
    return probe;
  }

  /** Waits until the probe has ended or should be replaced. */
  async #untilDue(probe: Probe, signal: AbortSignal): Promise<void> {
    const { heapMb, recycleTries = RECYCLE_TRIES } = this.#options;
    while (probe.state === 'ready' && !signal.aborted) {
      await Promise.race([probe.ended, sleep(1000, signal).catch(() => {})]);
      const grown = probe.rssBytes > (heapMb + RECYCLE_EXTRA_MB) * 1024 * 1024;
      if (grown || probe.taken >= recycleTries || this.#outdated.has(probe)) return;
    }
  }

  async #retire(probe: Probe, kind: Kind): Promise<void> {
    if (probe.state === 'ended') return;
    probe.leave();
    const deadlineMs = monoMs() + LEAVE_MS;
    while (probe.load > 0 && monoMs() < deadlineMs && !this.#stop?.aborted) {
      await Promise.race([probe.ended, sleep(250)]);
    }
    this.#options.log.debug({ pid: probe.pid, kind, tries: probe.taken }, 'probe process replaced');
    probe.kill();
  }
}
