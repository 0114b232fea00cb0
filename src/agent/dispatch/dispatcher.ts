import type { TryReport } from '../../checks/execute.ts';
import type { JobClass } from '../../checks/index.ts';
import { Job, MAX_RUNS, RunRef, SELF_FENCE_SHARE, type HeldRun } from '../../contract/index.ts';
import { sleep, wallMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import {
  ExecutorFault,
  RunStopped,
  type Declined,
  type Executor,
  type Finished,
  type Recorder,
  type ReleaseReason,
  type ResultSink,
  type RunHolder,
  type ServiceLink,
} from '../ports.ts';
import type { LeaseClock } from './lease-clock.ts';
import { RecentRuns } from './recent-runs.ts';
import { cancelledReport, faultReport, resultOf, withoutFiles } from './result.ts';

export interface DispatcherOptions {
  executor: Executor;
  sink: ResultSink & { held(): HeldRun[] };
  clock: LeaseClock;
  log: Log;
  recorder: Recorder;
  /** Runs at once, all together. */
  total: number;
  /** Runs at once, by what they need. */
  places: Readonly<Record<JobClass, number>>;
  /** Runs in all; without a limit when absent. */
  most?: number;
  /** The last of them has begun. */
  onMost?: () => void;
  checkTypes: ReadonlySet<string>;
  classOf(job: Job): JobClass;
  /** Of `wanted` places, how many may be filled now, and why not all. */
  admit(kind: JobClass, wanted: number): { runs: number; short: string | null };
}

/** Why a run ended before its try did. */
type Ending = 'cancelled' | 'lost' | 'fenced' | 'given_back' | 'over_limit';

interface Run {
  readonly job: Job;
  readonly kind: JobClass;
  readonly stop: AbortController;
  readonly startedMs: number;
  readonly startedWallMs: number;
  /** On the lease clock: the run is ended here then. */
  fenceAtMs: number;
  /** On the lease clock: no renewal prolongs a run beyond this. */
  readonly limitAtMs: number;
  ending: Ending | undefined;
}

/** The service ends a run this long after its time-out; so do we. */
const HARD_LIMIT_MS = 120_000;
const TICK_MS = 1000;
const KINDS: readonly JobClass[] = ['light', 'script', 'browser', 'suite'];
/** After a jump of the clocks the service gets this long to confirm our leases. */
const UNSURE_MS = 10_000;

/**
 * A run: offered → running → (result on disk) → spooled → acknowledged. `offered` and the answers of the
 * service are handled synchronously, so that an inventory is never taken half-way through a change.
 */
export class Dispatcher implements RunHolder {
  readonly #options: DispatcherOptions;
  readonly #runs = new Map<number, Run>();
  readonly #recent = new RecentRuns();
  #link: ServiceLink | undefined;
  #draining = false;
  /** A jump of the clocks that nobody has explained yet, ms, and until when we wait for that. */
  #unsure: { jumpMs: number; untilMs: number } | undefined;
  #shortestLeaseMs = Infinity;
  #begun = 0;
  readonly #running: Record<JobClass, number> = { light: 0, script: 0, browser: 0, suite: 0 };
  #wasOpen = '';
  #idle = Promise.withResolvers<void>();

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  /** Where news about runs go. */
  attach(link: ServiceLink): void {
    this.#link = link;
  }

  /** Why no run of this kind is taken now; null while they are taken, and while all places are. */
  blocked(kind: JobClass): string | null {
    if (this.#draining) return 'draining';
    if (this.#unsure !== undefined) return 'leases unconfirmed after a jump of the clock';
    const left = this.#left(kind);
    if (left <= 0) return null;
    const { runs, short } = this.#options.admit(kind, left);
    return runs === 0 ? short : null;
  }

  now(): number {
    return this.#options.clock.now();
  }
  total(): number {
    return this.#options.total;
  }
  get running(): number {
    return this.#runs.size;
  }
  /** Runs that were begun so far. */
  get begun(): number {
    return this.#begun;
  }
  /** Runs under way, by what they need. */
  get runningByClass(): Readonly<Record<JobClass, number>> {
    return this.#running;
  }

  free(kind: JobClass): number {
    if (this.#draining || this.#unsure !== undefined) return 0;
    const left = this.#left(kind);
    return left <= 0 ? 0 : this.#options.admit(kind, left).runs;
  }

  #left(kind: JobClass): number {
    const { places, total, most = Infinity } = this.#options;
    return Math.min(places[kind] - this.#running[kind], total - this.#runs.size, most - this.#begun);
  }

  held(): HeldRun[] {
    const running = Array.from(this.#runs.values(), ({ job, startedMs }) => ({
      runId: job.runId,
      token: job.token,
      phase: 'running' as const,
      startedAgoMs: Math.max(0, this.now() - startedMs),
    }));
    const room = MAX_RUNS - running.length;
    // Newest last: what does not fit is what waited longest, whose leases ended long ago.
    return room > 0 ? [...running, ...this.#options.sink.held().slice(-room)] : running.slice(0, MAX_RUNS);
  }

  offered(raw: readonly unknown[], leaseMs: number): { accepted: RunRef[]; declined: Declined[] } {
    const accepted: RunRef[] = [];
    const declined: Declined[] = [];
    for (const each of raw) {
      const job = Job.safeParse(each).data;
      const ref = job ?? RunRef.safeParse(each).data;
      if (ref === undefined) {
        this.#options.recorder.messageIgnored('unreadable_job');
        continue;
      }
      const { runId, token } = ref;
      const known = this.#isKnown(ref);
      if (known === 'held') accepted.push({ runId, token });
      if (known !== 'new') continue;
      const reason = job === undefined ? 'unreadable' : this.#reasonAgainst(job);
      if (job === undefined || reason !== undefined) {
        declined.push({ runId, token, reason: reason ?? 'unreadable' });
        this.#options.recorder.declined(reason ?? 'unreadable');
        continue;
      }
      this.#start(job, leaseMs);
      accepted.push({ runId, token });
    }
    return { accepted, declined };
  }

  confirmed(runs: readonly (RunRef & { leaseMs: number })[], sentAtMs: number): void {
    this.#unsure = undefined;
    for (const { runId, token, leaseMs } of runs) {
      const run = this.#find({ runId, token });
      if (run !== undefined) run.fenceAtMs = sentAtMs + leaseMs * SELF_FENCE_SHARE;
    }
  }

  lost(runs: readonly RunRef[], why: string): void {
    for (const ref of runs) {
      const run = this.#find(ref);
      if (run === undefined) continue;
      this.#options.recorder.leaseLost('lost');
      this.#options.log.info({ runId: ref.runId, token: ref.token, why }, 'a run was lost; it is ended');
      this.#end(run, 'lost');
    }
  }

  cancelled(runs: readonly RunRef[]): void {
    for (const ref of runs) {
      const run = this.#find(ref);
      if (run !== undefined) this.#end(run, 'cancelled');
    }
  }

  /** Takes no more runs. Resolves when those under way have ended and their results are on disk. */
  async drain(): Promise<void> {
    this.#draining = true;
    if (this.#runs.size > 0) await this.#idle.promise;
  }

  /** Ends every run and hands it back to the service, to be run elsewhere now. */
  giveBack(reason: ReleaseReason): void {
    const runs = [...this.#runs.values()].filter(({ ending }) => ending === undefined);
    for (const run of runs) this.#end(run, 'given_back');
    this.#link?.release(
      runs.map(({ job: { runId, token } }) => ({ runId, token })),
      reason,
    );
  }

  /** Watches leases, hard limits and the clocks until `signal` aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const waitMs = Math.min(TICK_MS, Math.max(10, this.#shortestLeaseMs / 100));
      await sleep(waitMs, signal).catch(() => {});
      this.look();
    }
  }

  /** One look at the clocks, the leases and what stands against work. */
  look(): void {
    this.#watchClock();
    this.#fence();
    this.#noteOpening();
  }

  /** Memory, disk or processors may allow runs again, or no more, without any run having ended. */
  #noteOpening(): void {
    const open = KINDS.filter((kind) => this.free(kind) > 0).join();
    if (open === this.#wasOpen) return;
    this.#wasOpen = open;
    this.#link?.creditChanged();
  }

  #watchClock(): void {
    const { clock, log } = this.#options;
    const jumpMs = clock.look();
    if (jumpMs > 0) {
      log.warn(
        { jumpMs: Math.round(jumpMs) },
        'the clock jumped or the machine slept; asking for the leases',
      );
      const before = this.#unsure?.jumpMs ?? 0;
      this.#unsure = { jumpMs: before + jumpMs, untilMs: this.now() + UNSURE_MS };
      this.#link?.renewNow();
    }
    if (this.#unsure !== undefined && this.now() > this.#unsure.untilMs) {
      clock.pass(this.#unsure.jumpMs);
      this.#unsure = undefined;
    }
  }

  #fence(): void {
    const nowMs = this.now();
    for (const run of this.#runs.values()) {
      if (run.ending !== undefined) continue;
      const { runId, token } = run.job;
      if (nowMs >= run.fenceAtMs) {
        this.#options.recorder.leaseLost('fenced');
        this.#options.log.warn({ runId, token }, 'a lease was not confirmed in time; the run is ended');
        this.#end(run, 'fenced');
        this.#link?.release([{ runId, token }], 'fenced');
      } else if (nowMs >= run.limitAtMs) {
        this.#end(run, 'over_limit');
      }
    }
  }

  /** `held`: ours already, say so again. `stale`: older than what we hold, or done. */
  #isKnown(ref: RunRef): 'new' | 'held' | 'stale' {
    const run = this.#runs.get(ref.runId);
    if (run !== undefined && run.job.token > ref.token) return 'stale';
    if (run !== undefined && run.job.token === ref.token) return run.ending === undefined ? 'held' : 'stale';
    if (run !== undefined) this.lost([run.job], 'offered again under a newer token');
    return this.#recent.has(ref) ? 'stale' : 'new';
  }

  #reasonAgainst(job: Job): Declined['reason'] | undefined {
    if (this.#draining) return 'draining';
    if (!this.#options.checkTypes.has(job.checkType)) return 'unsupported';
    const kind = this.#options.classOf(job);
    if (this.free(kind) > 0) return undefined;
    return this.blocked(kind) === 'spool' ? 'spool_full' : 'no_capacity';
  }

  #find({ runId, token }: RunRef): Run | undefined {
    const run = this.#runs.get(runId);
    return run?.job.token === token ? run : undefined;
  }

  #start(job: Job, leaseMs: number): void {
    const nowMs = this.now();
    const kind = this.#options.classOf(job);
    const run: Run = {
      job,
      kind,
      stop: new AbortController(),
      startedMs: nowMs,
      startedWallMs: wallMs(),
      fenceAtMs: nowMs + leaseMs * SELF_FENCE_SHARE,
      limitAtMs: nowMs + job.timeoutMs + HARD_LIMIT_MS,
      ending: undefined,
    };
    this.#shortestLeaseMs = Math.min(this.#shortestLeaseMs, leaseMs);
    this.#runs.set(job.runId, run);
    this.#running[kind]++;
    this.#options.recorder.tryStarted(job.checkType);
    void this.#carryOut(run);
    if (++this.#begun === this.#options.most) this.#options.onMost?.();
  }

  #end(run: Run, ending: Ending): void {
    if (run.ending !== undefined) return;
    run.ending = ending;
    run.stop.abort(new RunStopped(ending, ending === 'cancelled' || ending === 'over_limit'));
  }

  /** Never rejects: whatever happens, the place becomes free again. */
  async #carryOut(run: Run): Promise<void> {
    const { log, sink, recorder } = this.#options;
    try {
      const finished = (await this.#try(run)) ?? withoutFiles(this.#reportOfEnding(run));
      if (finished === undefined) recorder.tryAbandoned(run.job);
      else {
        const result = resultOf(run.job, finished);
        recorder.tryFinished(run.job, result);
        // A report that could not be read has no manifest, and the service takes no files without one.
        await sink.accept(result, run.job.lane, result.artifacts === undefined ? [] : finished.files);
      }
    } catch (error) {
      log.error({ runId: run.job.runId, detail: messageOf(error) }, 'a run could not be brought to its end');
    } finally {
      this.#forget(run);
    }
  }

  /** The report of the try, or undefined when it was ended from here. */
  async #try({ job, stop, startedWallMs }: Run): Promise<Finished | undefined> {
    try {
      return await this.#options.executor.run(job, stop.signal);
    } catch (error) {
      if (stop.signal.aborted) return undefined;
      const code = error instanceof ExecutorFault ? error.code : 'AGENT_FAULT';
      return withoutFiles(faultReport(code, messageOf(error), startedWallMs));
    }
  }

  /** A run that somebody else has or gets now leaves no result of ours. */
  #reportOfEnding(run: Run): TryReport | undefined {
    switch (run.ending) {
      case 'cancelled':
        return cancelledReport(run.startedWallMs);
      case 'over_limit':
        return faultReport('RUN_OVERDUE', 'the run exceeded its time by two minutes', run.startedWallMs);
      case 'lost':
      case 'fenced':
      case 'given_back':
        return undefined;
      case undefined:
        return faultReport('AGENT_FAULT', 'the try ended without a report', run.startedWallMs);
    }
  }

  #forget(run: Run): void {
    this.#running[run.kind]--;
    // A newer token may have taken the entry meanwhile.
    if (this.#runs.get(run.job.runId) === run) this.#runs.delete(run.job.runId);
    this.#recent.add(run.job);
    this.#link?.creditChanged();
    if (this.#runs.size > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers();
  }
}
