import { z } from 'zod';
import type { Job } from '../../contract/index.ts';
import { wallMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import { ExecutorFault, RunStopped, type Finished } from '../ports.ts';
import type { JobLimits } from '../sandbox/index.ts';
import { createScrubber, secretsOf, type Scrubber } from '../scrub/index.ts';
import * as answers from './answers.ts';
import type { Course, RunContext, Suite } from './context.ts';
import { FULL_DISK, saysFull } from './full-disk.ts';
import { installDependencies, takeTools } from './installation.ts';
import { Patience, Stopped } from './patience.ts';
import { SuiteProblem } from './problem.ts';
import { Gone, type SuiteProcess } from './process.ts';
import type { Project } from './protocol.ts';
import { RunLog } from './run-log.ts';
import type { SuiteServices } from './services.ts';
import { Shortage } from './shortage.ts';
import { Site } from './site.ts';
import { summaryOf } from './summary.ts';
import { runTests, takeBrowsers } from './test-stage.ts';
import { earlyCut, ours, problem, type Cut } from './verdict.ts';
import { wordsOf } from './words.ts';

export interface SuiteRunOptions {
  job: Job;
  suite: Suite;
  folder: string;
  limits: JobLimits;
  services: SuiteServices;
  /** Folder for the files that are kept. */
  into: string;
}

/** One run of a suite: archive → project → dependencies → browsers → tests → result. */
export class SuiteRun {
  readonly #options: SuiteRunOptions;
  readonly #scrubber: Scrubber;
  readonly #words: (text: string) => string;
  readonly #shortage: Shortage;
  readonly #site: Site;
  readonly #log: RunLog;
  readonly #startTime = wallMs();
  readonly #course: Course = {
    stage: 'fetch',
    engine: undefined,
    packageManager: null,
    playwrightVersion: null,
    install: null,
    ended: undefined,
    testCommandMs: 0,
  };

  constructor(options: SuiteRunOptions) {
    const { job, suite, folder, services } = options;
    this.#options = options;
    this.#scrubber = createScrubber(secretsOf(job, services.ownSecrets));
    this.#words = wordsOf(folder, []);
    const words = this.#words;
    this.#shortage = new Shortage(services.processors);
    this.#site = new Site({ ...options, words });
    const post = suite.streamLogs ? services.postLog : undefined;
    this.#log = new RunLog({ job, scrubber: this.#scrubber, words, post });
  }

  get process(): SuiteProcess | undefined {
    return this.#site.process;
  }

  /** @returns undefined when somebody else has the run */
  async carryOut(signal: AbortSignal): Promise<Finished | undefined> {
    const { job, suite, limits, services, into } = this.#options;
    const patience = new Patience({
      job,
      signal,
      stage: () => this.#course.stage,
      isStarvedSince: (startedMs) => this.#shortage.isStarved(startedMs),
    });
    const [site, log, course] = [this.#site, this.#log, this.#course];
    const context: RunContext = { job, suite, limits, services, site, log, patience, course };
    const cut = await this.#stages(context).then(
      () => null,
      (error: unknown) => this.#cutOf(error),
    );
    this.#shortage.stop();
    await site.close();
    const reason: unknown = signal.reason;
    const isKept = !signal.aborted || (reason instanceof RunStopped && reason.isKept);
    // As it is now: a lease that ends from here on is no cancellation.
    const isCancelled = signal.aborted;
    if (isKept && cut !== null) log.say('error', cut.message);
    await log.endLive();
    if (!isKept) return undefined;
    const [scrubber, shortage, startTime] = [this.#scrubber, this.#shortage, this.#startTime];
    return summaryOf({ context, scrubber, shortage, cut, isCancelled, startTime, into });
  }

  async #stages(context: RunContext): Promise<void> {
    const { patience, site, course } = context;
    await this.#unpack(context);
    course.stage = 'prepare';
    const project = await patience.within(this.#look(context));
    const path = await patience.within(takeTools(context, project));
    course.stage = 'install';
    await installDependencies(context, project, path);
    site.gates.installs?.close();
    course.stage = 'browsers';
    const browsers = await patience.within(takeBrowsers(context, project));
    course.stage = 'test';
    await runTests(context, project, path, browsers);
  }

  async #unpack({ suite, services, site, course, patience, log }: RunContext): Promise<void> {
    const archive = await services.bundles.take(suite.bundle, patience.signal);
    try {
      await site.begin(archive, (level, chunk) => log.print(level, chunk));
      this.#shortage.watch(site.process!);
      course.stage = 'unpack';
      const question = { do: 'unpack', archive, into: site.project, kind: 'bundle' } as const;
      await patience.within(site.ask(question, z.unknown()));
    } finally {
      services.bundles.release(suite.bundle.sha256);
    }
  }

  async #look({ suite, site, course }: RunContext): Promise<Project> {
    const { configPath, testCommand, installCommand } = suite;
    const where = { root: site.project, workingDir: site.workingDir };
    const project = await site.ask(
      { do: 'look', ...where, configPath, testCommand, installCommand },
      answers.Project,
    );
    course.playwrightVersion = project.playwrightVersion;
    return project;
  }

  #cutOf(error: unknown): Cut {
    const { stage } = this.#course;
    if (error instanceof Stopped) return error.cut;
    if (error instanceof SuiteProblem) return problem(stage, error.code, error.message);
    if (error instanceof Gone) return earlyCut(stage, error.end, this.#options.limits);
    const message = this.#words(messageOf(error));
    if (saysFull(message)) return ours(stage, FULL_DISK.code, FULL_DISK.message);
    return ours(stage, error instanceof ExecutorFault ? error.code : 'AGENT_FAULT', message);
  }
}
