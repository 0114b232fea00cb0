import type { Job } from '../../contract/index.ts';
import { createScrubber, secretsOf, type Scrubber } from '../scrub/index.ts';
import { snippetFiles, variablesOf, type Surroundings } from './definition.ts';
import { writeUserFiles } from './job-folder.ts';
import { JobLog, type LogLine } from './job-log.ts';
import { judge, type JobEnd, type Leaving } from './outcome.ts';
import { heapMbOf } from './program.ts';
import type { FromScript, ScriptError, ScriptRequest, ScriptResponse } from './protocol.ts';
import type { RunSurroundings } from './script-run.ts';
import type { ScriptChild } from './script-child.ts';

/** Each script of an API check. */
const SCRIPT_MS = 10_000;
/** The child ends a script by itself when its time is up, and gets this long to say so. */
const GRACE_MS = 5_000;

/** A script of an API check, by the name that its author knows it by. */
export interface ApiScript {
  /** `group setup script` */
  title: string;
  /** `setup.js` */
  path: string;
  code: string;
}

export interface PhaseQuestion {
  phase: 'setup' | 'teardown';
  request: ScriptRequest;
  /** Null in setup. */
  response: ScriptResponse | null;
  /** What the phase before left; null before the first. */
  env: Record<string, string> | null;
}

export interface PhaseAnswer {
  request: ScriptRequest;
  response: ScriptResponse | null;
  env: Record<string, string>;
  log: LogLine[];
  /** Why the phase ended early. */
  error: ScriptError | null;
}

type PhaseDone = Extract<FromScript, { t: 'phase-done' }>;

/** The scripts of one API check in their process: a set-up, a request elsewhere, a teardown. */
export class ApiScripts {
  readonly scrubber: Scrubber;
  readonly #job: Job;
  readonly #surroundings: Surroundings;
  readonly #scripts: Readonly<Record<PhaseQuestion['phase'], readonly ApiScript[]>>;
  readonly #child: ScriptChild;
  readonly #around: RunSurroundings;
  readonly #log = new JobLog();
  #done = Promise.withResolvers<PhaseDone>();
  #leaving: Leaving | undefined;

  constructor(
    job: Job,
    surroundings: Surroundings,
    scripts: Readonly<Record<PhaseQuestion['phase'], readonly ApiScript[]>>,
    child: ScriptChild,
    around: RunSurroundings,
  ) {
    this.#job = job;
    this.#surroundings = surroundings;
    this.#scripts = scripts;
    this.#child = child;
    this.#around = around;
    this.scrubber = createScrubber(secretsOf(job, around.ownSecrets));
    child.listen({
      message: (message) => this.#receive(message),
      print: (level, chunk) => this.#log.print(level, chunk),
    });
  }

  /** Before the first phase: none of the user's code has run yet. */
  async prepare(): Promise<void> {
    const own = [...this.#scripts.setup, ...this.#scripts.teardown];
    const files = own.map(({ path, code }) => ({ path, content: code }));
    await writeUserFiles(this.#child.folder, [...files, ...snippetFiles(this.#surroundings.snippets)]);
  }

  /** Runs the scripts of a phase, in order. A process that is gone is an error of the phase. */
  async run(question: PhaseQuestion, signal: AbortSignal): Promise<PhaseAnswer> {
    const scripts = this.#scripts[question.phase];
    const { phase, request, response } = question;
    const env = question.env ?? variablesOf(this.#job, this.#child.runtime.id, this.#surroundings);
    if (scripts.length === 0) return { request, response, env, log: [], error: null };
    const howStarved = this.#around.starvation.measure();
    this.#done = Promise.withResolvers();
    this.#child.send({
      t: 'phase',
      phase,
      scripts: scripts.map(({ title, path }) => ({ title, entry: path })),
      env,
      request,
      response,
      timeoutMs: SCRIPT_MS,
    });
    const found = await this.#untilDone(scripts.length * SCRIPT_MS + GRACE_MS, signal);
    const { isStarved } = howStarved();
    const log = this.#log.take(this.scrubber);
    if ('t' in found) {
      return { request: found.request, response: found.response, env: found.env, log, error: found.error };
    }
    await this.#child.end();
    const { limits } = this.#around;
    const facts = {
      ...limits,
      timeoutMs: SCRIPT_MS,
      shouldFail: false,
      heapMb: heapMbOf('api'),
      leaving: this.#leaving,
    };
    const { errors, failures } = judge(found, facts, isStarved);
    const message = failures[0]?.message ?? 'the scripts ended early';
    return { request, response, env, log, error: { ...errors[0], message } };
  }

  #receive(message: FromScript): void {
    if (message.t === 'log') this.#log.add(message.level, message.text, message.at);
    else if (message.t === 'secret') this.scrubber.add(message.value);
    else if (message.t === 'phase-done') this.#done.resolve(message);
    else if (message.t === 'leaving') this.#leaving = message;
  }

  async #untilDone(limitMs: number, signal: AbortSignal): Promise<PhaseDone | JobEnd> {
    const { promise: stopped, resolve: stop } = Promise.withResolvers<JobEnd>();
    const onAbort = (): void => stop({ how: 'overdue' });
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    const timer = setTimeout(onAbort, limitMs);
    try {
      return await Promise.race([this.#done.promise, this.#child.ended, stopped]);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  }
}
