import { createRequire } from 'node:module';
import { join } from 'node:path';

/** A context, a page, a request as the client side of Playwright gives them. Only what is used here. */
export interface Page {
  url(): string;
  isClosed(): boolean;
  screenshot(options: { path: string; timeout: number; fullPage?: boolean }): Promise<unknown>;
  mainFrame(): unknown;
  video(): { path(): Promise<string> } | null;
}
export interface Frame {
  url(): string;
  parentFrame(): Frame | null;
  page(): Page;
}
export interface Request {
  url(): string;
  resourceType(): string;
  isNavigationRequest(): boolean;
  frame(): Frame;
  failure(): { errorText: string } | null;
}
export interface Response {
  url(): string;
  status(): number;
  request(): Request;
}
export interface BrowserContext {
  pages(): Page[];
  on(event: 'page', listener: (page: Page) => void): void;
  on(event: 'console', listener: (message: { type(): string }) => void): void;
  on(event: 'weberror', listener: () => void): void;
  on(event: 'response', listener: (response: Response) => void): void;
  on(event: 'requestfailed', listener: (request: Request) => void): void;
  addInitScript(script: { content: string }): Promise<void>;
  exposeBinding(
    name: string,
    callback: (source: { page: Page; frame: Frame }, value: unknown) => void,
  ): Promise<void>;
  tracing: {
    start(options: { screenshots: boolean; snapshots: boolean; sources: boolean }): Promise<void>;
    stop(options?: { path: string }): Promise<void>;
  };
}

/** Options of a launch as the server side gets them, after everybody has had a say. */
export interface LaunchOptions {
  args?: string[];
  channel?: string;
  chromiumSandbox?: boolean;
  downloadsPath?: string;
  env?: { name: string; value: string }[];
  executablePath?: string;
  headless?: boolean;
  ignoreDefaultArgs?: string[];
  ignoreAllDefaultArgs?: boolean;
  proxy?: { server: string; bypass?: string; username?: string; password?: string };
  slowMo?: number;
  tracesDir?: string;
  [other: string]: unknown;
}
/** One request of an API request context, each hop of a redirect by itself. */
export interface ApiRequestEvent {
  url: URL;
  method: string;
}
export interface ApiResponseEvent {
  requestEvent: ApiRequestEvent;
  statusCode: number;
  body?: Buffer;
  timings: Record<'send' | 'wait' | 'receive' | 'dns' | 'connect' | 'ssl' | 'blocked', number>;
}

export interface Hooks {
  /** Whatever is launched, by a fixture or by hand. May throw. */
  launch(browserName: string, options: LaunchOptions): LaunchOptions;
  /** What is added to the user agent of every page that sets none of its own. */
  userAgentSuffix: string;
  /** The user agent of API requests that set none of their own. */
  apiUserAgent: string;
  contextCreated(context: BrowserContext): Promise<void>;
  contextClosing(context: BrowserContext): Promise<void>;
  apiRequest(event: ApiRequestEvent): void;
  apiResponse(event: ApiResponseEvent): void;
}

interface ServerBrowser {
  isConnected(): boolean;
  options: { tracesDir?: string | undefined };
}
const LAUNCH_MS = 30_000;
/** Options that a browser may get, or not need, after its start. */
const LATE_OPTIONS = new Set(['tracesDir', 'timeout', 'handleSIGINT', 'handleSIGTERM', 'handleSIGHUP']);

/** The same for options that start the same browser. */
const keyOf = (options: LaunchOptions): string =>
  JSON.stringify(
    Object.entries(options)
      .filter(([name, value]) => value !== undefined && !LATE_OPTIONS.has(name))
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );

/** Keeps Playwright from starting the thread that ES modules need. */
export const WITHOUT_MODULES = ['PW_DISABLE_TS_ESM', '1'] as const;

type Callable = (this: unknown, ...args: never[]) => unknown;
type Prototype = Record<string, Callable>;
interface ServerClass {
  prototype: Prototype;
}

interface TestRunnerModule {
  runAllTestsWithConfig(config: unknown): Promise<RunStatus>;
}
interface RunnerModule {
  Runner: new (config: unknown) => { runAllTests(): Promise<RunStatus> };
}
export type RunStatus = 'passed' | 'failed' | 'timedout' | 'interrupted';

interface ConfigLoader {
  loadConfig(
    location: { resolvedConfigFile: string; configDir: string },
    overrides: object,
  ): Promise<unknown>;
}

interface Instrumentation {
  addListener(listener: object): void;
}
interface Client {
  chromium: { launch(): Promise<unknown> };
  _instrumentation: Instrumentation;
}

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
  /** In-flight calls of the client. */
  #calls = 0;
  #ahead: { key: string; browser: Promise<ServerBrowser> } | undefined;
  #launchOnServer: (options: LaunchOptions) => Promise<ServerBrowser> = () =>
    Promise.reject(new Error('no hooks are installed'));

  constructor(modules: string) {
    this.#modules = modules;
    this.#require = createRequire(join(modules, 'playwright', 'package.json'));
  }

  get version(): string {
    return (this.#load('playwright/package.json') as { version: string }).version;
  }
  /** Calls of the client that have not come back. */
  get calls(): number {
    return this.#calls;
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
      babelTransform(code: string, file: string, isModule: boolean, before: [], after: []): unknown;
    };
    babelTransform('import "node:os"; export const a: number = 1;', '/warm-up.ts', false, [], []);
  }

  /** For files that are ES modules: it starts a thread and costs more than all the rest. */
  registerModuleLoader(): void {
    const { registerESMLoader } = this.#load('playwright/lib/common/esmLoaderHost.js') as {
      registerESMLoader(): unknown;
    };
    registerESMLoader();
  }

  /** Starts a browser that the first launch with the same options gets. */
  launchAhead(options: LaunchOptions): void {
    const key = keyOf(options);
    const browser = this.#launchOnServer(options);
    // Whoever launches it by himself then learns why.
    browser.catch(() => {});
    this.#ahead = { key, browser };
  }

  /** Whether text is a program in that language. */
  parses(code: string, file: string): boolean {
    const { babelParse } = this.#load('playwright/lib/transform/babelBundle.js') as {
      babelParse(code: string, file: string, isModule: boolean): unknown;
    };
    try {
      babelParse(code, file, true);
      return true;
    } catch {
      return false;
    }
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
    const { ProcessHost } = this.#load('playwright/lib/runner/processHost.js') as {
      ProcessHost: ServerClass;
    };
    const { startRunner } = ProcessHost.prototype;
    ProcessHost.prototype['startRunner'] = function (this: ProcessHost, params: unknown, options: unknown) {
      return take(
        this,
        params,
        () => startRunner!.call(this, params as never, options as never) as Promise<unknown>,
      );
    } as unknown as Callable;
  }

  createWorker(script: string, params: unknown): WorkerMain {
    const { create } = this.#require(script) as { create(params: unknown): WorkerMain };
    return create(params);
  }

  /** Errors that `expect.soft` noted: a test goes on after them. */
  onSoftError(note: (message: string) => void): void {
    const { TestInfoImpl } = this.#load('playwright/lib/worker/testInfo.js') as { TestInfoImpl: ServerClass };
    const original = TestInfoImpl.prototype['_addStep']!;
    TestInfoImpl.prototype['_addStep'] = function (...args: never[]) {
      const step = original.apply(this, args) as { complete(result: { error?: unknown }): void };
      const { infectParentStepsWithError } = (args[0] ?? {}) as { infectParentStepsWithError?: boolean };
      if (infectParentStepsWithError !== true) return step;
      const { complete } = step;
      step.complete = function (result) {
        if (result.error instanceof Error) note(result.error.message);
        complete.call(step, result);
      };
      return step;
    };
  }

  install(hooks: Hooks): void {
    this.#watchCalls();
    this.#hookLaunches(hooks);
    this.#hookContexts(hooks);
    this.#hookApiRequests(hooks);
  }

  #watchCalls(): void {
    const seen = new WeakSet<object>();
    this.#client._instrumentation.addListener({
      onApiCallBegin: (call: object) => {
        seen.add(call);
        this.#calls++;
      },
      onApiCallEnd: (call: object) => {
        if (seen.delete(call)) this.#calls--;
      },
    });
  }

  /** On the server side, where the options of fixtures, configuration and scripts are one. */
  #hookLaunches(hooks: Hooks): void {
    const { BrowserType } = this.#load('playwright-core/lib/server/browserType.js') as {
      BrowserType: ServerClass;
    };
    const { launch, launchPersistentContext } = BrowserType.prototype;
    this.#launchOnServer = (options) =>
      this.#withProgress(
        (progress) =>
          launch!.call(this.#serverChromium, progress, options as never) as Promise<ServerBrowser>,
      );
    const takeAhead = (options: LaunchOptions): Promise<ServerBrowser | undefined> =>
      this.#takeAhead(options);
    BrowserType.prototype['launch'] = async function (
      this: { name(): string },
      context: never,
      asked: LaunchOptions,
      ...rest: never[]
    ) {
      const options = hooks.launch(this.name(), asked);
      return (await takeAhead(options)) ?? launch!.call(this, context, options as never, ...rest);
    } as unknown as Callable;
    BrowserType.prototype['launchPersistentContext'] = async function (
      this: { name(): string },
      context: never,
      folder: never,
      options: LaunchOptions,
      ...rest: never[]
    ) {
      return launchPersistentContext!.call(
        this,
        context,
        folder,
        hooks.launch(this.name(), options) as never,
        ...rest,
      );
    } as unknown as Callable;
    const { CRBrowser } = this.#load('playwright-core/lib/server/chromium/crBrowser.js') as {
      CRBrowser: ServerClass;
    };
    const { doCreateNewContext } = CRBrowser.prototype;
    CRBrowser.prototype['doCreateNewContext'] = function (
      this: { userAgent(): string },
      options: { userAgent?: string },
    ) {
      options.userAgent ??= `${this.userAgent()} ${hooks.userAgentSuffix}`;
      return doCreateNewContext!.call(this, options as never);
    } as unknown as Callable;
  }

  async #takeAhead(options: LaunchOptions): Promise<ServerBrowser | undefined> {
    const ahead = this.#ahead;
    if (ahead === undefined || ahead.key !== keyOf(options)) return undefined;
    this.#ahead = undefined;
    const browser = await ahead.browser.catch(() => undefined);
    if (browser === undefined || !browser.isConnected()) return undefined;
    browser.options.tracesDir = options.tracesDir;
    return browser;
  }

  get #serverChromium(): unknown {
    return (this.#client as unknown as { _toImpl(client: unknown): unknown })._toImpl(this.#client.chromium);
  }

  /** What the server side calls a call: a way to give it up, in older versions notes about it. */
  #withProgress<T>(work: (progress: never) => Promise<T>): Promise<T> {
    if (this.#isBefore158) {
      const { serverSideCallMetadata } = this.#load('playwright-core/lib/server/instrumentation.js') as {
        serverSideCallMetadata(): unknown;
      };
      return work(serverSideCallMetadata() as never);
    }
    const { ProgressController } = this.#load('playwright-core/lib/server/progress.js') as {
      ProgressController: new () => {
        run<R>(task: (progress: never) => Promise<R>, timeoutMs: number): Promise<R>;
      };
    };
    return new ProgressController().run(work, LAUNCH_MS);
  }

  #hookContexts(hooks: Hooks): void {
    this.#client._instrumentation.addListener({
      runAfterCreateBrowserContext: (context: BrowserContext) => hooks.contextCreated(context),
      runBeforeCloseBrowserContext: (context: BrowserContext) => hooks.contextClosing(context),
    });
    const { Browser } = this.#load('playwright-core/lib/client/browser.js') as { Browser: ServerClass };
    const { close } = Browser.prototype;
    Browser.prototype['close'] = async function (this: { contexts(): BrowserContext[] }, ...args: never[]) {
      for (const context of this.contexts()) await hooks.contextClosing(context);
      return close!.apply(this, args);
    } as unknown as Callable;
  }

  #hookApiRequests(hooks: Hooks): void {
    const { APIRequestContext, GlobalAPIRequestContext } = this.#load(
      'playwright-core/lib/server/fetch.js',
    ) as Record<'APIRequestContext' | 'GlobalAPIRequestContext', ServerClass>;
    const time = this.#timeApiResponses();
    const { emit } = APIRequestContext.prototype;
    APIRequestContext.prototype['emit'] = function (event: unknown, detail: unknown) {
      if (event === 'request') hooks.apiRequest(detail as ApiRequestEvent);
      if (event === 'requestfinished') {
        time(detail as ApiResponseEvent);
        hooks.apiResponse(detail as ApiResponseEvent);
      }
      return emit!.call(this, event as never, detail as never);
    };
    const { _defaultOptions } = GlobalAPIRequestContext.prototype;
    GlobalAPIRequestContext.prototype['_defaultOptions'] = function () {
      const options = _defaultOptions!.call(this) as { userAgent: string };
      const isOwn = options.userAgent.startsWith('Playwright/');
      return isOwn ? { ...options, userAgent: hooks.apiUserAgent } : options;
    };
  }

  /**
   * Playwright measures requests of its own and does not hand that on; `getAPIResponseTime` asks for it. Server
   * and client share this process, and the bytes of an answer tell whose times they are.
   */
  #timeApiResponses(): (event: ApiResponseEvent) => void {
    const ofBody = new WeakMap<Buffer, number>();
    const ofResponse = new Map<string, number>();
    const server = this.#load('playwright-core/lib/server/fetch.js') as Record<
      'APIRequestContext',
      ServerClass
    >;
    const { _storeResponseBody } = server.APIRequestContext.prototype;
    server.APIRequestContext.prototype['_storeResponseBody'] = function (body: Buffer) {
      const id = _storeResponseBody!.call(this, body as never) as string;
      const total = ofBody.get(body);
      if (total !== undefined) ofResponse.set(id, total);
      return id;
    };
    const client = this.#load('playwright-core/lib/client/fetch.js') as Record<'APIResponse', ServerClass>;
    client.APIResponse.prototype['timing'] = function (this: { _initializer: { fetchUid: string } }) {
      return { responseEnd: ofResponse.get(this._initializer.fetchUid) ?? -1 };
    } as unknown as Callable;
    return ({ body, timings: { send, wait, receive } }) => {
      if (body !== undefined) ofBody.set(body, send + wait + receive);
    };
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
