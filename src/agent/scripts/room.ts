import { join } from 'node:path';
import type { Job } from '../../contract/index.ts';
import { monoMs, sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import type { EgressProxy, OpenGate } from '../egress/index.ts';
import { ExecutorFault, type Finished } from '../ports.ts';
import type { Runtime } from '../runtimes/index.ts';
import { canNestChromiumSandbox, letJobsPass, removeFolder } from '../sandbox/index.ts';
import { ApiScripts } from './api-scripts.ts';
import { readDefinition, readApiDefinition, resultIdOf, wantsFullBrowser } from './definition.ts';
import { InstalledRuntimes } from './installed.ts';
import { giveAuthorities, makeJobFolder, sweepWorkFolder } from './job-folder.ts';
import { limitsOf, programOf, SCRIPT_ENTRY, type ScriptKind } from './program.ts';
import { Pressure } from './pressure.ts';
import { OVERLOADED } from './outcome.ts';
import { Quiet } from './quiet.ts';
import { ScriptChild } from './script-child.ts';
import { ScriptRun, type RunSurroundings } from './script-run.ts';
import { Starvation } from './starvation.ts';
import { WarmPool, type Purpose } from './warm-pool.ts';

export interface ScriptRoomOptions {
  dataDir: string;
  /** Jobs at once, by kind. */
  places: Readonly<Record<ScriptKind, number>>;
  /** Memory that one job may take, bytes. */
  memoryOf: (kind: ScriptKind) => number;
  /** Whether memory allows a spare process of this kind. */
  mayWarm: (kind: ScriptKind) => boolean;
  /** The way to targets; null where scripts may reach every one by themselves. */
  egress: Pick<EgressProxy, 'open'> | null;
  extraCaCerts: string | undefined;
  /** Database of the authorities that browsers trust beside their own; undefined when there is none. */
  browserAuthorities?: () => string | undefined;
  /** What no result may show besides the secrets of its check. */
  ownSecrets: readonly string[];
  /** Where the files of a result wait to be accepted with it. */
  folderOf: (resultId: string) => string;
  log: Log;
  events: {
    /** There may be room for jobs now, or no more. */
    onChange(): void;
    /** A job's process ended before its job did; `cause` is a word. */
    onEnded(kind: ScriptKind, cause: string): void;
  };
  /** For tests. */
  entry?: URL;
  findRuntimes?: () => readonly Runtime[];
  /** How often runtimes are looked for and spares counted, ms. */
  runtimesEveryMs?: number;
}

const LOOK_MS = 5_000;
/** Longer runs are not repeated: both together have to be over before the run is overdue. */
const MAX_FIRST_MS = 60_000;

/** What a job asks of its process. */
interface Need {
  kind: ScriptKind;
  runtimeId: string | null;
  purpose: Exclude<Purpose, 'spare'>;
  /** Of its location; null without. */
  proxyUrl: string | null;
}

type Work = (child: ScriptChild, around: RunSurroundings) => Promise<Finished | undefined>;

/** The processes that run user code, one per job. */
export class ScriptRoom {
  readonly #options: ScriptRoomOptions;
  readonly #workDir: string;
  readonly #runtimes: InstalledRuntimes;
  readonly #starvation = new Starvation();
  readonly #pressure = new Pressure();
  readonly #quiet = new Quiet();
  readonly #pool: WarmPool;
  readonly #busy = new Set<ScriptChild>();

  constructor(options: ScriptRoomOptions) {
    const { dataDir, places, mayWarm, log, events, findRuntimes } = options;
    this.#options = options;
    this.#workDir = join(dataDir, 'work');
    this.#runtimes = new InstalledRuntimes(findRuntimes);
    this.#pool = new WarmPool({
      start: (kind, runtime, purpose) => this.#start(kind, runtime, purpose),
      places,
      usual: () => this.#runtimes.usual(),
      mayWarm: (kind) => !this.#quiet.isAsked && mayWarm(kind),
      log,
      onChange: () => events.onChange(),
    });
  }

  /** Ids of the runtimes that are installed here. */
  get runtimes(): string[] {
    return this.#runtimes.ids;
  }
  /** Why no user code can run here now; null when it can. */
  get blocked(): string | null {
    if (this.#runtimes.usual() === undefined) {
      return 'no runtime is installed; `vedette runtime install` installs one';
    }
    const { ready, startError } = this.#pool;
    const none = ready.browser + ready.multistep + ready.api === 0;
    return none && startError !== undefined ? `script processes do not start: ${startError}` : null;
  }
  /** Spare processes that wait for a job, by kind. */
  get spares(): Record<ScriptKind, number> {
    return this.#pool.ready;
  }
  /** Jobs under way. */
  get jobs(): { kind: ScriptKind; pid: number | undefined; memoryBytes: number }[] {
    return [...this.#busy].map(({ kind, pid, memoryBytes }) => ({ kind, pid, memoryBytes }));
  }

  /** The part of the processor time that jobs could have used and did not get since this was asked last, 0 to 1. */
  waitShare(): number {
    return this.#pressure.since(this.#busy);
  }

  /** Removes what an agent that was killed left behind, then keeps spares until `signal` aborts. */
  async keep(signal: AbortSignal): Promise<void> {
    await this.prepare();
    this.#pool.start();
    while (!signal.aborted) {
      await sleep(this.#options.runtimesEveryMs ?? LOOK_MS, signal).catch(() => {});
      if (this.#runtimes.look()) {
        this.#options.log.info({ runtimes: this.runtimes }, 'runtimes');
        this.#options.events.onChange();
      }
      this.#pool.look();
    }
    await this.stop();
  }

  async prepare(): Promise<void> {
    const left = await sweepWorkFolder(this.#workDir);
    const areReached = [this.#options.dataDir, this.#workDir]
      .map((folder) => letJobsPass(folder))
      .every(Boolean);
    if (!areReached) {
      this.#options.log.warn(
        { folder: this.#workDir },
        'user code runs as root, since no other user gets to this folder; set AGENT_DATA_DIR to another one',
      );
    }
    if (left > 0) this.#options.log.info({ folders: left }, 'removed what earlier jobs left behind');
  }

  /** Ends spares and jobs. */
  async stop(): Promise<void> {
    await Promise.all([this.#pool.stop(), ...[...this.#busy].map((child) => this.#discard(child))]);
  }

  /** New processes for the jobs to come: authorities or the proxy have changed. */
  renewAll(): void {
    void this.#pool.renew();
  }

  /**
   * Runs a browser or multistep check.
   *
   * @returns what was found, or undefined when `signal` aborts first
   * @throws ExecutorFault
   */
  async run(job: Job, signal: AbortSignal): Promise<Finished | undefined> {
    const definition = readDefinition(job);
    const kind = job.checkType === 'BROWSER' ? 'browser' : 'multistep';
    const work = (child: ScriptChild, around: RunSurroundings): Promise<Finished | undefined> =>
      new ScriptRun(job, definition, child, around).carryOut(signal);
    const purpose = kind === 'browser' && wantsFullBrowser(definition) ? 'full-browser' : 'job';
    return this.#observe(
      job,
      { kind, purpose, runtimeId: definition.runtimeId ?? null, proxyUrl: job.proxyUrl },
      signal,
      work,
    );
  }

  /**
   * Holds a process for the scripts of an API check while `work` runs.
   *
   * @returns what `work` gives, or undefined when `signal` aborts first
   * @throws ExecutorFault
   */
  async withApiScripts(
    job: Job,
    signal: AbortSignal,
    work: (scripts: ApiScripts) => Promise<Finished | undefined>,
  ): Promise<Finished | undefined> {
    const definition = readApiDefinition(job);
    const runtimeId = definition.runtimeId ?? null;
    const need = { kind: 'api', purpose: 'job', runtimeId, proxyUrl: job.proxyUrl } as const;
    return this.#observe(job, need, signal, async (child, around) => {
      const scripts = new ApiScripts(job, definition, child, around, signal);
      await scripts.prepare();
      return work(scripts);
    });
  }

  /**
   * Runs a job beside others. What only this machine's slowness may have made fail is run once more, when
   * no other job runs here: an answer is worth more than an excuse.
   */
  async #observe(job: Job, need: Need, signal: AbortSignal, work: Work): Promise<Finished | undefined> {
    const { ownSecrets, folderOf, memoryOf } = this.#options;
    const around: RunSurroundings = {
      limits: limitsOf(need.kind, memoryOf(need.kind)),
      ownSecrets,
      into: folderOf(resultIdOf(job)),
      starvation: this.#starvation,
    };
    const observe = (): Promise<Finished | undefined> =>
      this.#inChild(need, signal, (child) => work(child, around));
    const begunMs = monoMs();
    const first = await this.#quiet.beside(observe, signal);
    if (!first?.report.errors.some(({ code }) => code === OVERLOADED)) return first;
    if (monoMs() - begunMs > MAX_FIRST_MS) return first;
    const second = await this.#quiet.alone(async () => {
      await removeFolder(around.into);
      return { finished: await observe() };
    }, signal);
    this.#options.log.info(
      { runId: job.runId, again: second !== undefined },
      'this machine was too busy to judge a run',
    );
    return second === undefined ? first : second.finished;
  }

  async #inChild<T>(
    { kind, runtimeId, purpose, proxyUrl }: Need,
    signal: AbortSignal,
    work: (child: ScriptChild) => Promise<T>,
  ): Promise<T | undefined> {
    const child = await this.#pool.take(kind, this.#runtimes.choose(runtimeId), signal, purpose);
    if (child === undefined) return undefined;
    this.#busy.add(child);
    // Its way to targets was opened before anybody knew whose job it would get.
    await child.gate?.lead(proxyUrl);
    void child.ended.then((end) => {
      const cause = causeOf(end);
      // Ended from here.
      if (cause !== 'killed') this.#options.events.onEnded(kind, cause);
    });
    try {
      return await work(child);
    } finally {
      await this.#discard(child);
      this.#busy.delete(child);
      this.#pool.gaveBack(kind);
    }
  }

  async #start(kind: ScriptKind, runtime: Runtime, purpose: Purpose): Promise<ScriptChild> {
    const { memoryOf, extraCaCerts, browserAuthorities, entry = SCRIPT_ENTRY } = this.#options;
    const gate = await this.#openGate();
    const folder = await makeJobFolder(this.#workDir, runtime.modules);
    if (kind === 'browser') await giveAuthorities(folder, browserAuthorities?.());
    const limits = limitsOf(kind, memoryOf(kind));
    const port = gate?.port;
    const program = programOf({
      kind,
      fullBrowser: purpose === 'full-browser',
      runtime,
      folder,
      limits,
      egressPort: port,
      extraCaCerts,
      entry,
    });
    return new ScriptChild(kind, runtime, program, gate, {
      t: 'warm',
      kind: kind === 'api' ? 'api' : 'playwright',
      folder,
      runtime: { id: runtime.id, modules: runtime.modules, browsers: runtime.browsers },
      isSpare: purpose === 'spare',
      proxy: port === undefined ? null : { host: '127.0.0.1', port },
      browser: kind === 'browser' ? { sandbox: canNestChromiumSandbox(), full: false } : null,
    });
  }

  async #openGate(): Promise<OpenGate | null> {
    try {
      return (await this.#options.egress?.open()) ?? null;
    } catch (error) {
      throw new ExecutorFault('EGRESS_FAULT', messageOf(error));
    }
  }

  /** A process that cannot be killed must not cost the result. */
  async #discard(child: ScriptChild): Promise<void> {
    await child.discard().catch((error: unknown) => {
      this.#options.log.error(
        { pid: child.pid, detail: messageOf(error) },
        'a job left something that cannot be removed',
      );
    });
  }
}

function causeOf(end: Awaited<ScriptChild['ended']>): string {
  switch (end.how) {
    case 'exceeded':
      return end.what;
    case 'broken':
      return 'channel';
    case 'exited':
      return end.exit.cause;
  }
}
