import { clearTimeout, setTimeout } from 'node:timers';
import type { FromScript, RunPhase, ScriptError, WarmUp } from '../../protocol.ts';
import { Compiler } from './compile.ts';
import { Errors } from './errors.ts';
import { UserFiles } from './files.ts';
import { untilIdle } from './idle.ts';
import { Modules } from './modules.ts';
import { Printer } from './print.ts';
import { checkVariables, requestFrom, responseFrom } from './values.ts';
import { Variables } from './variables.ts';

type Script = RunPhase['scripts'][number];

/** What scripts find as global variables besides Node's own. */
interface Globals {
  request: unknown;
  response: unknown;
}

class TimeUp extends Error {}

/** The scripts of one API check: what setup leaves in memory is there in teardown. */
export class ApiSession {
  readonly #send: (message: FromScript) => void;
  readonly #modules: Modules;
  readonly #errors: Errors;
  readonly #variables: Variables;
  readonly #printer: Printer;
  readonly #globals = globalThis as unknown as Globals;
  /** Told what nobody catches while a script runs. */
  #onUncaught: ((thrown: unknown) => void) | undefined;

  constructor({ folder, runtime }: WarmUp, send: (message: FromScript) => void) {
    const files = new UserFiles(folder, runtime.modules);
    this.#send = send;
    this.#modules = new Modules(files, new Compiler(runtime.modules), runtime.id);
    this.#errors = new Errors(files, this.#modules);
    this.#variables = new Variables((value) => send({ t: 'secret', value }));
    this.#printer = new Printer((level, text) =>
      send({ t: 'log', at: Date.now(), level, text: files.clean(text) }),
    );
    this.#globals.request = undefined;
    this.#globals.response = undefined;
  }

  /** Takes over what user code sees of this process. Nothing of ours may print or throw afterwards. */
  install(): void {
    this.#errors.install();
    this.#variables.install();
    this.#printer.install();
    this.#watchEnds();
    this.#watchUncaught();
  }

  /** Runs the scripts of a phase in order. Setup stops at the first that fails; teardown cleans up as far as it can. */
  async run(phase: RunPhase): Promise<void> {
    this.#variables.replaceAll(phase.env);
    this.#globals.request = structuredClone(phase.request);
    this.#globals.response = phase.response === null ? undefined : structuredClone(phase.response);
    let error: ScriptError | null = null;
    for (const script of phase.scripts) {
      const failure = await this.#runScript(script, phase);
      if (failure === null) continue;
      if (error !== null) this.#printer.say('error', failure.message);
      error ??= failure;
      if (phase.phase === 'setup') break;
    }
    this.#printer.settle();
    this.#send({ t: 'phase-done', phase: phase.phase, error, ...this.#left(phase) });
  }

  async #runScript(script: Script, phase: RunPhase): Promise<ScriptError | null> {
    const { promise: stopped, reject: stop } = Promise.withResolvers<never>();
    const timer = setTimeout(() => stop(new TimeUp()), phase.timeoutMs);
    this.#onUncaught = stop;
    try {
      await Promise.race([this.#carryOut(script), stopped]);
      this.#take(phase);
      return null;
    } catch (thrown) {
      if (!(thrown instanceof TimeUp)) return this.#errors.explain(thrown, script.title);
      return { message: `the ${script.title} was not finished within ${phase.timeoutMs / 1000} s` };
    } finally {
      clearTimeout(timer);
      this.#onUncaught = undefined;
    }
  }

  /** A script may start something without awaiting it; that belongs to it for a while. */
  async #carryOut({ title, entry }: Script): Promise<void> {
    const isIdle = untilIdle();
    await this.#modules.run(entry);
    if (await isIdle()) return;
    this.#printer.say('warn', `the ${title} has ended, but something that it started goes on: await it`);
  }

  /** What the scripts left, checked. @throws Unusable */
  #take(phase: RunPhase): Pick<RunPhase, 'env' | 'request' | 'response'> {
    const { request, response } = this.#globals;
    const env = this.#variables.all();
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

  #watchUncaught(): void {
    const uncaught = (thrown: unknown): void => {
      if (this.#onUncaught !== undefined) return this.#onUncaught(thrown);
      this.#printer.say('error', this.#errors.explain(thrown, 'scripts').message);
    };
    process.on('uncaughtException', uncaught);
    process.on('unhandledRejection', uncaught);
    process.removeAllListeners('warning');
    process.on('warning', ({ name, message }) => {
      const isOfPackages = name === 'DeprecationWarning' || name === 'ExperimentalWarning';
      if (!isOfPackages) this.#printer.say('warn', `${name}: ${message}`);
    });
  }

  /** Calls that end the process are told, with their place, before they are made. */
  #watchEnds(): void {
    const tell = (call: string, code: number): void => {
      const error = { message: `${call} ended the process`, ...this.#errors.here() };
      this.#printer.settle();
      this.#send({ t: 'leaving', call, code, error });
    };
    const exit = process.exit.bind(process);
    const abort = process.abort.bind(process);
    const kill = process.kill.bind(process);
    process.exit = (code) => {
      tell(`process.exit(${code ?? ''})`, Number(code ?? process.exitCode ?? 0));
      return exit(code);
    };
    process.abort = () => {
      tell('process.abort()', 134);
      return abort();
    };
    process.kill = (pid, signal) => {
      if (pid === process.pid && signal !== 0) tell(`process.kill(process.pid, ${signal ?? 'SIGTERM'})`, 1);
      return kill(pid, signal);
    };
  }
}
