import type { Library, Target } from './library.ts';
import type { ApiRequestEvent, ApiResponseEvent, BrowserContext, LaunchOptions } from './playwright-types.ts';

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

/** A call of Playwright's client. */
export interface ApiCall {
  apiName?: string;
  title?: string;
  frames?: { file: string; line: number; column: number }[];
}

interface ServerBrowser {
  isConnected(): boolean;
  options: { tracesDir?: string | undefined };
}
interface ServerContext {
  _browser: { userAgent(): string };
  _options: { userAgent?: string };
}
type Launch = (
  type: unknown,
  progress: unknown,
  options: LaunchOptions,
  ...rest: unknown[]
) => Promise<ServerBrowser>;

/** Options that a browser may get, or not need, after its start. */
const LATE_OPTIONS = new Set(['tracesDir', 'timeout', 'handleSIGINT', 'handleSIGTERM', 'handleSIGHUP']);

/** The same for options that start the same browser. What is not said is off. */
const keyOf = (options: LaunchOptions): string =>
  JSON.stringify(
    Object.entries(options)
      .filter(([name, value]) => value !== undefined && value !== false && !LATE_OPTIONS.has(name))
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );

const BROWSER_TYPE: Target = ['playwright-core/lib/server/browserType.js', 'BrowserType'];
const CHROMIUM_CONTEXT: Target = ['playwright-core/lib/server/chromium/crBrowser.js', 'CRBrowserContext'];
const TRACING: Target = ['playwright-core/lib/client/tracing.js', 'Tracing'];
const CLIENT_BROWSER: Target = ['playwright-core/lib/client/browser.js', 'Browser'];
const API_REQUESTS: Target = ['playwright-core/lib/server/fetch.js', 'APIRequestContext'];
const GLOBAL_API_REQUESTS: Target = ['playwright-core/lib/server/fetch.js', 'GlobalAPIRequestContext'];
const API_RESPONSE: Target = ['playwright-core/lib/client/fetch.js', 'APIResponse'];

/** Has a say in, and sees, what Playwright does in this process, whoever asks for it. */
export class PlaywrightHooks {
  readonly #library: Library;
  /** In flight. */
  readonly #calls = new Set<ApiCall>();
  #launch: Launch | undefined;
  #ahead: { key: string; browser: Promise<ServerBrowser | undefined> } | undefined;

  constructor(library: Library) {
    this.#library = library;
  }

  /** Calls of the client that have not come back. */
  get calls(): number {
    return this.#calls.size;
  }

  /** The one of them that was begun last. */
  get lastCall(): ApiCall | undefined {
    return [...this.#calls].at(-1);
  }

  install(hooks: Hooks): void {
    this.#watchCalls();
    this.#hookLaunches(hooks);
    this.#hookContexts(hooks);
    this.#hookApiRequests(hooks);
    this.#timeApiResponses();
    this.#giveWayToOwnTraces();
  }

  /** Starts a browser that the first launch with the same options gets. */
  launchAhead(options: LaunchOptions): void {
    const launch = this.#launch!;
    const browser = this.#library
      .withProgress((progress) => launch(this.#library.serverChromium, progress, options))
      // Whoever launches it by himself then learns why.
      .catch(() => undefined);
    this.#ahead = { key: keyOf(options), browser };
  }

  #watchCalls(): void {
    this.#library.listen({
      onApiCallBegin: (call: ApiCall) => this.#calls.add(call),
      onApiCallEnd: (call: ApiCall) => this.#calls.delete(call),
    });
  }

  /** On the server side, where the options of fixtures, configuration and scripts are one. */
  #hookLaunches(hooks: Hooks): void {
    const nameOf = (type: unknown): string => (type as { name(): string }).name();
    this.#library.override(BROWSER_TYPE, 'launch', (original) => {
      const launch = original as Launch;
      this.#launch = launch;
      return async (type, progress, asked, ...rest) => {
        const options = hooks.launch(nameOf(type), asked as LaunchOptions);
        return (await this.#takeAhead(options)) ?? launch(type, progress, options, ...rest);
      };
    });
    this.#library.override(
      BROWSER_TYPE,
      'launchPersistentContext',
      (launch) =>
        async (type, progress, folder, asked, ...rest) =>
          launch(type, progress, folder, hooks.launch(nameOf(type), asked as LaunchOptions), ...rest),
    );
    this.#library.override(CHROMIUM_CONTEXT, '_initialize', (initialize) => (context) => {
      const { _browser: browser, _options: options } = context as ServerContext;
      options.userAgent ??= `${browser.userAgent()} ${hooks.userAgentSuffix}`;
      return initialize(context);
    });
  }

  async #takeAhead(options: LaunchOptions): Promise<ServerBrowser | undefined> {
    const ahead = this.#ahead;
    if (ahead === undefined || ahead.key !== keyOf(options)) return undefined;
    this.#ahead = undefined;
    const browser = await ahead.browser;
    if (browser === undefined || !browser.isConnected()) return undefined;
    // Without, it has a folder of its own.
    if (options.tracesDir !== undefined) browser.options.tracesDir = options.tracesDir;
    return browser;
  }

  #hookContexts(hooks: Hooks): void {
    this.#library.listen({
      runAfterCreateBrowserContext: (context: BrowserContext) => hooks.contextCreated(context),
      runBeforeCloseBrowserContext: (context: BrowserContext) => hooks.contextClosing(context),
    });
    this.#library.override(CLIENT_BROWSER, 'close', (close) => async (browser, ...args) => {
      for (const context of (browser as { contexts(): BrowserContext[] }).contexts()) {
        await hooks.contextClosing(context);
      }
      return close(browser, ...args);
    });
  }

  /**
   * A script that records a trace of its own does not know of ours, which ends then. Playwright Test notes at
   * the tracing, under a symbol, that it has one there.
   */
  #giveWayToOwnTraces(): void {
    this.#library.override(TRACING, 'start', (start) => async (tracing, ...args) => {
      try {
        return await start(tracing, ...args);
      } catch (error) {
        if (!(error instanceof Error) || !error.message.includes('already started')) throw error;
        const notes = tracing as Record<symbol, unknown> & { stop(): Promise<void> };
        for (const symbol of Object.getOwnPropertySymbols(notes)) {
          if (symbol.description === 'kTracingStarted') notes[symbol] = false;
        }
        await notes.stop();
        return start(tracing, ...args);
      }
    });
  }

  #hookApiRequests(hooks: Hooks): void {
    this.#library.override(API_REQUESTS, 'emit', (emit) => (context, event, detail) => {
      if (event === 'request') hooks.apiRequest(detail as ApiRequestEvent);
      if (event === 'requestfinished') hooks.apiResponse(detail as ApiResponseEvent);
      return emit(context, event, detail);
    });
    this.#library.override(GLOBAL_API_REQUESTS, '_defaultOptions', (original) => (context) => {
      const options = original(context) as { userAgent: string };
      const isOwn = options.userAgent.startsWith('Playwright/');
      return isOwn ? { ...options, userAgent: hooks.apiUserAgent } : options;
    });
  }

  /**
   * Playwright measures requests of its own and does not hand that on; `getAPIResponseTime` asks for it.
   * Server and client share this process, and the bytes of an answer tell whose times they are.
   */
  #timeApiResponses(): void {
    const ofBody = new WeakMap<object, number>();
    const ofResponse = new Map<unknown, number>();
    this.#library.override(API_REQUESTS, 'emit', (emit) => (context, event, detail) => {
      if (event === 'requestfinished') {
        const { body, timings } = detail as ApiResponseEvent;
        if (body !== undefined) ofBody.set(body, timings.send + timings.wait + timings.receive);
      }
      return emit(context, event, detail);
    });
    this.#library.override(API_REQUESTS, '_storeResponseBody', (store) => (context, body) => {
      const id = store(context, body);
      const total = ofBody.get(body as object);
      if (total !== undefined) ofResponse.set(id, total);
      return id;
    });
    this.#library.override(API_RESPONSE, 'timing', () => (response) => {
      const { fetchUid } = (response as { _initializer: { fetchUid: string } })._initializer;
      return { responseEnd: ofResponse.get(fetchUid) ?? -1 };
    });
  }
}
