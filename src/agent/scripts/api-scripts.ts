import { apiCodeOf, type ApiCode } from '../../checks/api-scripts.ts';
import {
  SCRIPT_LIMIT_MS,
  type PhaseAnswer,
  type PhaseQuestion,
  type ScriptHooks,
} from '../../checks/script-hooks.ts';
import type { Job } from '../../contract/index.ts';
import { wallMs } from '../../kit/clock.ts';
import type { Refusal } from '../egress/index.ts';
import { ExecutorFault } from '../ports.ts';
import { createScrubber, secretsOf, type Scrubber } from '../scrub/index.ts';
import { snippetFiles, variablesOf, type ApiDefinition } from './definition.ts';
import { JobLog } from './job-log.ts';
import { boundedError, judge, type JobEnd, type Leaving } from './outcome.ts';
import { heapMbOf } from './program.ts';
import type { FromScript, ScriptError } from './protocol.ts';
import type { RunSurroundings } from './script-run.ts';
import type { ScriptChild } from './script-child.ts';

/** The child ends a script by itself when its time is up, and gets this long to say so. */
const GRACE_MS = 2_000;

type PhaseDone = Extract<FromScript, { t: 'phase-done' }>;

/** The scripts of one API check in their process: a set-up, a request elsewhere, a teardown. */
export class ApiScripts implements ScriptHooks {
  /** Knows what became secret while the scripts ran, too. */
  readonly scrubber: Scrubber;
  readonly #job: Job;
  readonly #code: ApiCode;
  readonly #definition: ApiDefinition;
  readonly #child: ScriptChild;
  readonly #around: RunSurroundings;
  readonly #signal: AbortSignal;
  readonly #log = new JobLog();
  #done = Promise.withResolvers<PhaseDone>();
  #leaving: Leaving | undefined;
  #refusalsNoted = 0;

  constructor(
    job: Job,
    definition: ApiDefinition,
    child: ScriptChild,
    around: RunSurroundings,
    signal: AbortSignal,
  ) {
    this.#job = job;
    this.#code = apiCodeOf(definition);
    this.#definition = definition;
    this.#child = child;
    this.#around = around;
    this.#signal = signal;
    this.scrubber = createScrubber(secretsOf(job, around.ownSecrets));
    child.listen({
      message: (message) => this.#receive(message),
      print: (level, chunk) => this.#log.print(level, chunk),
    });
  }

  /** Before the first phase: none of the user's code has run yet. */
  async prepare(): Promise<void> {
    const { files } = this.#code;
    const snippets = snippetFiles(this.#definition.snippets);
    const free = snippets.filter(({ path }) => !files.some((file) => file.path === path));
    await this.#child.writeFiles([...files, ...free]);
  }

  /** A process that is gone is an error of the phase. */
  async run({ phase, request, response, env: before }: PhaseQuestion): Promise<PhaseAnswer> {
    this.#signal.throwIfAborted();
    const env = before ?? variablesOf(this.#job, this.#child.runtime.id, this.#definition);
    const scripts = this.#code[phase];
    if (scripts.length === 0) return { request, response, env, log: [], error: null };
    const howStarved = this.#around.starvation.measure(this.#child);
    this.#done = Promise.withResolvers();
    this.#child.send({ t: 'phase', phase, scripts, env, request, response, timeoutMs: SCRIPT_LIMIT_MS });
    const found = await this.#untilDone(scripts.length * SCRIPT_LIMIT_MS + GRACE_MS);
    const { isStarved } = howStarved();
    this.#signal.throwIfAborted();
    const refusals = await this.#noteRefusals();
    const log = this.#log.take(this.scrubber);
    if ('t' in found) {
      if (found.error !== null) this.#errorOf(failedWith(found.error), refusals, isStarved);
      return {
        request: found.request,
        response: found.response,
        env: found.env,
        log,
        error: this.#shown(found.error),
      };
    }
    await this.#child.end();
    return { request, response, env, log, error: this.#errorOf(found, refusals, isStarved) };
  }

  /** @returns what the policy closed the way to in this phase */
  async #noteRefusals(): Promise<Refusal[]> {
    // What was refused was said before the script heard of it, but on another line.
    await new Promise((resolve) => setImmediate(resolve));
    const fresh = this.#child.gate?.refusals.slice(this.#refusalsNoted) ?? [];
    this.#refusalsNoted += fresh.length;
    for (const { sentence } of fresh) this.#log.add('warn', sentence);
    return fresh;
  }

  #shown(error: PhaseAnswer['error']): PhaseAnswer['error'] {
    return error === null ? null : boundedError(this.scrubber.value(error));
  }

  /** @throws ExecutorFault when this machine is at fault */
  #errorOf(end: JobEnd, refusals: Refusal[], isStarved: boolean): PhaseAnswer['error'] {
    const { gate } = this.#child;
    const facts = {
      ...this.#around.limits,
      timeoutMs: SCRIPT_LIMIT_MS,
      shouldFail: false,
      gate: gate === null ? null : { refusals, wasInterrupted: gate.wasInterrupted },
      heapMb: heapMbOf('api'),
      leaving: this.#leaving,
    };
    const { verdict, errors, failures } = judge(end, facts, isStarved);
    const [failure] = failures;
    const message = failure?.message ?? 'the scripts ended early';
    if (verdict === 'error') throw new ExecutorFault(failure?.code ?? 'SCRIPT_FAULT', message);
    return { ...errors[0], message };
  }

  #receive(message: FromScript): void {
    if (message.t === 'log') this.#log.add(message.level, message.text, message.at || wallMs());
    else if (message.t === 'secret') this.scrubber.add(message.value);
    else if (message.t === 'phase-done') this.#done.resolve(message);
    else if (message.t === 'leaving') this.#leaving = message;
  }

  async #untilDone(limitMs: number): Promise<PhaseDone | JobEnd> {
    const { promise: stopped, resolve: stop } = Promise.withResolvers<JobEnd>();
    const giveUp = (): void => stop({ how: 'overdue' });
    this.#signal.addEventListener('abort', giveUp, { once: true });
    const timer = setTimeout(giveUp, limitMs);
    try {
      return await Promise.race([this.#done.promise, this.#child.ended, stopped]);
    } finally {
      clearTimeout(timer);
      this.#signal.removeEventListener('abort', giveUp);
    }
  }
}

const failedWith = (error: ScriptError): JobEnd => ({
  how: 'done',
  done: { t: 'done', startTime: 0, endTime: 0, verdict: 'failed', errors: [error], degraded: [] },
});
