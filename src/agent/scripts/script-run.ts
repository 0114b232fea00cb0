import type { Job } from '../../contract/index.ts';
import { wallMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import { collect } from '../artifacts/index.ts';
import type { Finished } from '../ports.ts';
import { removeFolder, type JobLimits } from '../sandbox/index.ts';
import { createScrubber, secretsOf, type Scrubber } from '../scrub/index.ts';
import { filesOf, runMessage, type Definition } from './definition.ts';
import { JobLog } from './job-log.ts';
import { judge, type Done, type JobEnd, type Judged, type Leaving } from './outcome.ts';
import { heapMbOf } from './program.ts';
import type { Findings, FromScript } from './protocol.ts';
import { fitting, reportOf, scrubbedReport } from './report.ts';
import type { ScriptChild } from './script-child.ts';
import type { Starvation } from './starvation.ts';

/** The child ends its run by itself when the time is up, and gets this long to say what it has. */
const GRACE_MS = 5_000;

export interface RunSurroundings {
  limits: JobLimits;
  /** Secrets of the agent itself. */
  ownSecrets: readonly string[];
  /** Folder for the files that are kept. */
  into: string;
  starvation: Starvation;
}

/** One browser or multistep run in its process. */
export class ScriptRun {
  readonly #job: Job;
  readonly #definition: Definition;
  readonly #child: ScriptChild;
  readonly #around: RunSurroundings;
  readonly #log = new JobLog();
  readonly #scrubber: Scrubber;
  readonly #done = Promise.withResolvers<Done>();
  #findings: Findings = { t: 'findings', detail: {}, files: [] };
  #leaving: Leaving | undefined;

  constructor(job: Job, definition: Definition, child: ScriptChild, around: RunSurroundings) {
    this.#job = job;
    this.#definition = definition;
    this.#child = child;
    this.#around = around;
    this.#scrubber = createScrubber(secretsOf(job, around.ownSecrets));
    child.listen({
      message: (message) => this.#receive(message),
      print: (level, chunk) => this.#log.print(level, chunk),
    });
  }

  /** @returns undefined when `signal` aborts first. The child has no process any more, but its folder. */
  async carryOut(signal: AbortSignal): Promise<Finished | undefined> {
    await this.#child.writeFiles(filesOf(this.#definition));
    const howStarved = this.#around.starvation.measure(this.#child);
    const begunMs = wallMs();
    this.#child.send(runMessage(this.#job, this.#definition, this.#child.runtime.id));
    const end = await this.#untilEnd(signal);
    const endedMs = wallMs();
    const { isStarved, longestMs } = howStarved();
    await this.#child.end();
    if (end === undefined) return undefined;
    for (const { sentence } of this.#child.gate?.refusals ?? []) this.#log.add('warn', sentence);
    // Before anything is cut: half a secret is not recognised any more.
    const judged = judge(this.#masked(end), this.#facts(), isStarved);
    // The clock of the child is the user's to set.
    const within = (ms: number): number => Math.min(Math.max(ms, begunMs), endedMs);
    const times =
      end.how === 'done'
        ? { startTime: within(end.done.startTime), endTime: within(end.done.endTime) }
        : { startTime: begunMs, endTime: endedMs };
    return this.#finish(judged, { ...times, eventLoopDelayMs: Math.round(longestMs) }, signal);
  }

  #masked(end: JobEnd): JobEnd {
    if (end.how !== 'done') return end;
    const { errors, degraded } = end.done;
    return { ...end, done: { ...end.done, ...this.#scrubber.value({ errors, degraded }) } };
  }

  #receive(message: FromScript): void {
    switch (message.t) {
      case 'log':
        this.#log.add(message.level, message.text, message.at || wallMs());
        break;
      case 'secret':
        this.#scrubber.add(message.value);
        break;
      case 'findings':
        this.#findings = message;
        break;
      case 'done':
        this.#done.resolve(message);
        break;
      case 'leaving':
        this.#leaving = message;
        break;
      case 'ready':
      case 'phase-done':
        break;
    }
  }

  async #untilEnd(signal: AbortSignal): Promise<JobEnd | undefined> {
    const { promise: stopped, resolve: stop } = Promise.withResolvers<JobEnd | undefined>();
    const onAbort = (): void => stop(undefined);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    const timer = setTimeout(() => stop({ how: 'overdue' }), this.#job.timeoutMs + GRACE_MS);
    try {
      const done = this.#done.promise.then((message): JobEnd => ({ how: 'done', done: message }));
      return await Promise.race([done, this.#child.ended, stopped]);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  }

  #facts(): Parameters<typeof judge>[1] {
    const { timeoutMs } = this.#job;
    const { limits } = this.#around;
    const { shouldFail } = this.#definition;
    const { kind, gate } = this.#child;
    return { ...limits, timeoutMs, shouldFail, gate, heapMb: heapMbOf(kind), leaving: this.#leaving };
  }

  async #finish(
    judged: Judged,
    measured: { startTime: number; endTime: number; eventLoopDelayMs: number },
    signal: AbortSignal,
  ): Promise<Finished | undefined> {
    const collected = await this.#collect(signal);
    if (collected === undefined) return undefined;
    const { files, refused } = collected;
    for (const { name, size, reason } of refused) {
      this.#log.add('warn', `${name} (${size} bytes) is not kept: ${reason}`);
    }
    const report = reportOf({
      ...measured,
      checkType: this.#child.kind === 'browser' ? 'BROWSER' : 'MULTI_STEP',
      runtimeId: this.#child.runtime.id,
      judged,
      detail: this.#findings.detail,
      log: this.#log.take(this.#scrubber).map((line) => ({ ...line, msg: this.#withoutPaths(line.msg) })),
      files,
    });
    return { report: fitting(scrubbedReport(report, this.#scrubber)), files, refused };
  }

  /** What Node prints when it gives up names files of this machine. */
  #withoutPaths(text: string): string {
    const { folder, runtime } = this.#child;
    return text.replaceAll(runtime.modules, 'node_modules').replaceAll(folder, '~');
  }

  /** A verdict without its files is worth more than none. */
  async #collect(signal: AbortSignal): Promise<Pick<Finished, 'files' | 'refused'> | undefined> {
    const { folder } = this.#child;
    const { into } = this.#around;
    try {
      const wanted = this.#findings.files;
      return await collect({ folder, wanted, scrubber: this.#scrubber, into, signal });
    } catch (error) {
      await removeFolder(into);
      if (signal.aborted) return undefined;
      this.#log.add('warn', `the files of this run could not be kept: ${messageOf(error)}`);
      return { files: [], refused: [] };
    }
  }
}
