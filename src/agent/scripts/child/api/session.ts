import { clearTimeout, setTimeout } from 'node:timers';
import type { FromScript, RunPhase, ScriptError, WarmUp } from '../../protocol.ts';
import { UserCode, untilIdle } from '../user-code/index.ts';
import { checkVariables, requestFrom, responseFrom } from './values.ts';

type Script = RunPhase['scripts'][number];

/** What scripts find as global variables besides Node's own. */
interface Globals {
  request: unknown;
  response: unknown;
}

/** Told from what user code throws by identity alone: its proxies answer every other question as they like. */
const TIME_UP = Symbol('time up');

/** The scripts of one API check: what setup leaves in memory is there in teardown. */
export class ApiSession {
  readonly #send: (message: FromScript) => void;
  readonly #code: UserCode;
  readonly #globals = globalThis as unknown as Globals;

  constructor(warmUp: WarmUp, send: (message: FromScript) => void) {
    this.#send = send;
    this.#code = new UserCode(warmUp, send);
    if (warmUp.isSpare) this.#code.warm();
    this.#globals.request = undefined;
    this.#globals.response = undefined;
  }

  /** Takes over what user code sees of this process. Nothing of ours may print or throw afterwards. */
  install(): void {
    this.#code.errors.install();
    this.#code.variables.install();
    this.#code.printer.install();
    this.#code.watchEnds();
    this.#code.watchUncaught();
    this.#code.watchWarnings();
  }

  /** Runs the scripts of a phase in order. Setup stops at the first that fails; teardown cleans up as far as it can. */
  async run(phase: RunPhase): Promise<void> {
    this.#code.variables.replaceAll(phase.env);
    this.#globals.request = structuredClone(phase.request);
    this.#globals.response = phase.response === null ? undefined : structuredClone(phase.response);
    let error: ScriptError | null = null;
    for (const script of phase.scripts) {
      const failure = await this.#runScript(script, phase);
      if (failure === null) continue;
      if (error !== null) this.#code.printer.say('error', failure.message);
      error ??= failure;
      if (phase.phase === 'setup') break;
    }
    this.#code.printer.settle();
    this.#send({ t: 'phase-done', phase: phase.phase, error, ...this.#left(phase) });
  }

  async #runScript(script: Script, phase: RunPhase): Promise<ScriptError | null> {
    const { promise: stopped, reject: stop } = Promise.withResolvers<never>();
    const timer = setTimeout(() => stop(TIME_UP), phase.timeoutMs);
    this.#code.onUncaught = stop;
    try {
      await Promise.race([this.#carryOut(script), stopped]);
      this.#take(phase);
      return null;
    } catch (thrown) {
      if (thrown !== TIME_UP) return this.#code.errors.explain(thrown, script.title);
      return { message: `the ${script.title} was not finished within ${phase.timeoutMs / 1000} s` };
    } finally {
      clearTimeout(timer);
      this.#code.onUncaught = undefined;
    }
  }

  /** A script may start something without awaiting it; that belongs to it for a while. */
  async #carryOut({ title, entry }: Script): Promise<void> {
    const isIdle = untilIdle();
    await this.#code.modules.run(entry);
    if (await isIdle()) return;
    this.#code.printer.say('warn', `the ${title} has ended, but something that it started goes on: await it`);
  }

  /** What the scripts left, checked. @throws Unusable */
  #take(phase: RunPhase): Pick<RunPhase, 'env' | 'request' | 'response'> {
    const { request, response } = this.#globals;
    const env = this.#code.variables.all();
    checkVariables(env);
    return phase.phase === 'setup'
      ? { env, request: requestFrom(request), response: null }
      : { env, request: phase.request, response: responseFrom(response, phase.response) };
  }

  /** After a failure: as far as it is usable, so that what teardown blackened in an answer stays black. */
  #left(phase: RunPhase): Pick<RunPhase, 'env' | 'request' | 'response'> {
    try {
      return this.#take(phase);
    } catch {
      const { env, request, response } = phase;
      return { env, request, response };
    }
  }
}
