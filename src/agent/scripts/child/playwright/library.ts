import { createRequire } from 'node:module';
import { join } from 'node:path';
import { understandingTypes, type Translate } from './any-language.ts';

/** Keeps Playwright from starting the thread that ES modules need. */
export const WITHOUT_MODULES = ['PW_DISABLE_TS_ESM', '1'] as const;

/** A class of Playwright: its file and its name. */
export type Target = readonly [path: string, name: string];
type Method = (self: unknown, ...args: unknown[]) => unknown;
type Prototype = Record<string, (this: unknown, ...args: unknown[]) => unknown>;

interface TestRunnerModule {
  runAllTestsWithConfig: (config: unknown) => Promise<RunStatus>;
}
interface RunnerModule {
  Runner: new (config: unknown) => { runAllTests(): Promise<RunStatus> };
}
export type RunStatus = 'passed' | 'failed' | 'timedout' | 'interrupted';

interface ConfigLoader {
  loadConfig: (
    location: { resolvedConfigFile: string; configDir: string },
    overrides: object,
  ) => Promise<unknown>;
}

interface Client {
  chromium: object;
  _instrumentation: { addListener(listener: object): void };
  _connection: { toImpl(client: object): unknown };
}

interface TestStep {
  infectParentStepsWithError?: boolean;
  error?: { message?: string };
}

const PROCESS_HOST: Target = ['playwright/lib/runner/processHost.js', 'ProcessHost'];
const TEST_INFO: Target = ['playwright/lib/worker/testInfo.js', 'TestInfoImpl'];
const INTERRUPTS: Target = ['playwright/lib/runner/sigIntWatcher.js', 'SigIntWatcher'];
const LAUNCH_MS = 30_000;

/** What the runner talks to where Playwright would fork a worker. */
export interface WorkerMain {
  dispatchEvent(method: string, params: unknown): void;
  sendRequest?(method: string, params: unknown): Promise<unknown>;
  gracefullyClose(): Promise<void>;
  [method: string]: unknown;
}
export interface ProcessHost {
  process: unknown;
  _extraEnv: Record<string, string>;
  _runnerScript: string;
  _didSendStop: boolean;
  _processDidExit: boolean;
  _didExitAndRanOnExit: boolean;
  _callbacks: Map<number, { resolve(value: unknown): void; reject(error: Error): void }>;
  _requestHandlers?: Map<string, (params: unknown) => Promise<unknown>>;
  onExit(): Promise<void>;
  emit(event: string, params: unknown): boolean;
  on(event: string, listener: (params: unknown) => void): void;
  startRunner(params: unknown, options: unknown): Promise<unknown>;
}

/**
 * The Playwright of a runtime, with the handles on its inside that this needs. They are those of the locked
 * versions of the runtimes; a runtime with another version has to be tried first (test/scripts does).
 */
export class Library {
  readonly #require: NodeJS.Require;
  readonly #modules: string;
  constructor(modules: string) {
    this.#modules = modules;
    this.#require = createRequire(join(modules, 'playwright', 'package.json'));
  }

  get version(): string {
    return (this.#load('playwright/package.json') as { version: string }).version;
  }
  /** Loads what every script uses. */
  loadCore(): void {
    this.#load('playwright');
  }

  /** Loads what specs use besides: the test runner, and Babel, which comes with the first file. */
  loadTests(): void {
    this.#load('playwright/test');
    this.#load('playwright/lib/worker/workerMain.js');
    this.#load('playwright/lib/common/configLoader.js');
    this.#load(this.#isBefore158 ? 'playwright/lib/runner/runner.js' : 'playwright/lib/runner/testRunner.js');
    const { babelTransform } = this.#load('playwright/lib/transform/babelBundle.js') as {
      babelTransform: (code: string, file: string, isModule: boolean, before: [], after: []) => unknown;
    };
    babelTransform('import "node:os"; export const a: number = 1;', '/warm-up.ts', false, [], []);
  }

  /** For files that are ES modules: it starts a thread and costs more than all the rest. */
  registerModuleLoader(): void {
    const { registerESMLoader } = this.#load('playwright/lib/common/esmLoaderHost.js') as {
      registerESMLoader: () => unknown;
    };
    registerESMLoader();
  }

  /** From now on files of the user may have types, whatever they are called. */
  understandTypes(isOwn: (file: string) => boolean): void {
    const path = 'playwright/lib/transform/babelBundle.js';
    const bundle = this.#load(path) as { babelTransform: Translate };
    const babelTransform = understandingTypes(bundle.babelTransform, isOwn);
    // Whoever translates asks for the module each time. Its members cannot be set.
    this.#require.cache[this.#require.resolve(join(this.#modules, path))]!.exports = {
      ...bundle,
      babelTransform,
    };
  }

  /** The returned function ends the run that begins next as ^C would: its tests are interrupted. */
  interrupter(): () => void {
    const watchers: { _sigintHandler: () => void }[] = [];
    this.override(INTERRUPTS, 'promise', (promise) => (watcher) => {
      watchers.push(watcher as (typeof watchers)[number]);
      return promise(watcher);
    });
    return () => {
      for (const { _sigintHandler: interrupt } of watchers) interrupt();
    };
  }

  /** Runs Playwright Test with a configuration file. */
  async runTests(resolvedConfigFile: string, configDir: string): Promise<RunStatus> {
    const { loadConfig } = this.#load('playwright/lib/common/configLoader.js') as ConfigLoader;
    const config = await loadConfig({ resolvedConfigFile, configDir }, {});
    if (this.#isBefore158) {
      const { Runner } = this.#load('playwright/lib/runner/runner.js') as RunnerModule;
      return new Runner(config).runAllTests();
    }
    const { runAllTestsWithConfig } = this.#load('playwright/lib/runner/testRunner.js') as TestRunnerModule;
    return runAllTestsWithConfig(config);
  }

  /** @param take gives undefined where the original is to start a process */
  replaceWorkers(
    take: (host: ProcessHost, params: unknown, original: () => Promise<unknown>) => Promise<unknown>,
  ): void {
    this.override(PROCESS_HOST, 'startRunner', (start) => (host, params, options) => {
      const original = async (): Promise<unknown> => start(host, params, options);
      return take(host as ProcessHost, params, original);
    });
  }

  createWorker(script: string, params: unknown): WorkerMain {
    const { create } = this.#require(script) as { create: (params: unknown) => WorkerMain };
    return create(params);
  }

  /** Errors that `expect.soft` noted: a test goes on after them. The step of such an expectation is marked. */
  onSoftError(note: (message: string) => void): void {
    this.override(TEST_INFO, '_failWithError', (fail) => (info, error) => {
      const steps = [...(info as { _stepMap: Map<string, TestStep> })._stepMap.values()];
      const isSoft = (step: TestStep): boolean =>
        step.infectParentStepsWithError === true && step.error?.message !== undefined;
      if (
        error instanceof Error &&
        steps.some((step) => isSoft(step) && step.error!.message!.includes(error.message))
      ) {
        note(error.message);
      }
      return fail(info, error);
    });
  }

  /** Puts a method in the place of one of a class, or adds it. */
  override([path, name]: Target, method: string, replacement: (original: Method) => Method): void {
    const { prototype } = (this.#load(path) as Record<string, { prototype: Prototype }>)[name]!;
    const before = prototype[method];
    const now = replacement((self, ...args) => before?.apply(self, args));
    prototype[method] = function (...args) {
      return now(this, ...args);
    };
  }

  /** Joins those that Playwright's client tells what it does. */
  listen(listener: object): void {
    this.#client._instrumentation.addListener(listener);
  }

  /** Where the client and the browsers meet: both sides live in this process. */
  get serverChromium(): unknown {
    return this.#client._connection.toImpl(this.#client.chromium);
  }

  /** What the server side calls a call: a way to give it up, in older versions notes about it. */
  withProgress<T>(work: (progress: unknown) => Promise<T>): Promise<T> {
    if (this.#isBefore158) {
      const { serverSideCallMetadata } = this.#load('playwright-core/lib/server/instrumentation.js') as {
        serverSideCallMetadata: () => unknown;
      };
      return work(serverSideCallMetadata());
    }
    const { ProgressController } = this.#load('playwright-core/lib/server/progress.js') as {
      ProgressController: new () => {
        run<R>(task: (progress: unknown) => Promise<R>, timeoutMs: number): Promise<R>;
      };
    };
    return new ProgressController().run(work, LAUNCH_MS);
  }

  get #client(): Client {
    return this.#load('playwright-core') as Client;
  }

  get #isBefore158(): boolean {
    const [, minor = 0] = this.version.split('.').map(Number);
    return minor < 58;
  }

  /** By its path: packages do not export their insides by name. */
  #load(path: string): unknown {
    return this.#require(join(this.#modules, path));
  }
}
