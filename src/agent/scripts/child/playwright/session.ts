import { existsSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { FromScript, LeftFile, RunScript, WarmUp } from '../../protocol.ts';
import { UserCode } from '../user-code/index.ts';
import { launchOptions, type BrowserPolicy } from './browsers.ts';
import { readCertificate, type Certificate } from './certificate.ts';
import { CACHE } from './configuration.ts';
import { FindingsSender } from './findings.ts';
import { FORK_EVENT, FORK_FLAGS, forkEnvironment, type FromFork } from './fork-orders.ts';
import { PlaywrightHooks } from './hooks.ts';
import { LeftFiles } from './left-files.ts';
import { Library, WITHOUT_MODULES, type ProcessHost } from './library.ts';
import { Observer } from './observer.ts';
import { PlainRun } from './plain-run.ts';
import { Recorder } from './recorder.ts';
import { areSpecs } from './specs.ts';
import { TestRun, type Ended } from './test-run.ts';

/** What Playwright Test gets for its own end when the time is up: less than the agent's patience. */
const LAST_WORDS_MS = 3_500;
/** Playwright changes its note of them. */
const FLAGS = [...process.execArgv];
const MAX_REASONS = 20;

/** One browser or multistep check, from the loading of Playwright to its verdict. */
export class PlaywrightSession {
  readonly #warmUp: WarmUp;
  readonly #send: (message: FromScript) => void;
  readonly #library: Library;
  readonly #hooks: PlaywrightHooks;
  readonly #code: UserCode;
  readonly #observer = new Observer(() => this.#findings.changed());
  readonly #findings: FindingsSender;
  #policy: BrowserPolicy;
  #recorder: Recorder | undefined;
  #tests: TestRun | undefined;
  #plain: PlainRun | undefined;
  #files: LeftFiles | undefined;
  #certificate: Certificate | undefined;
  #errorCount = 0;

  constructor(warmUp: WarmUp, send: (message: FromScript) => void) {
    const { folder, proxy, runtime, browser } = warmUp;
    this.#warmUp = warmUp;
    this.#send = send;
    this.#library = new Library(runtime.modules);
    this.#hooks = new PlaywrightHooks(this.#library);
    this.#code = new UserCode(warmUp, send);
    this.#findings = new FindingsSender(send, (isFinal) => this.#found(isFinal));
    this.#policy = {
      folder,
      proxy,
      sandbox: browser?.sandbox ?? false,
      checkType: browser === null ? 'MULTI_STEP' : 'BROWSER',
      full: browser?.full ?? false,
    };
  }

  async prepare(): Promise<void> {
    const { folder, runtime, isSpare } = this.#warmUp;
    // Read once, when Playwright is loaded.
    process.env['PLAYWRIGHT_BROWSERS_PATH'] = runtime.browsers;
    process.env['PWTEST_CACHE_DIR'] = join(folder, CACHE);
    process.env['PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS'] = '1';
    await mkdir(join(folder, 'src'), { recursive: true });
    this.#library.loadCore();
    this.#observer.install(this.#hooks, () => this.#policy);
    if (isSpare) this.#getAhead();
    // User code sees what the check gives it; Node itself keeps reading the true environment.
    this.#code.variables.install();
    this.#code.printer.install();
    this.#code.watchEnds();
    this.#code.watchUncaught();
    this.#code.watchWarnings();
  }

  /** While nobody waits. Most browser checks start the browser that is started here. */
  #getAhead(): void {
    this.#library.loadTests();
    this.#code.warm();
    if (this.#warmUp.browser !== null) this.#hooks.launchAhead(launchOptions('chromium', {}, this.#policy));
  }

  async run(message: RunScript): Promise<void> {
    const { folder } = this.#warmUp;
    this.#policy = { ...this.#policy, checkType: message.checkType };
    this.#files = new LeftFiles(folder);
    this.#code.variables.replaceAll(message.env);
    process.argv = [process.execPath, join(folder, 'src', message.entry)];
    // Files that come with the script are found by their path beside it.
    process.chdir(join(folder, 'src'));
    if (message.fullBrowser && !this.#policy.full) {
      this.#code.printer.say(
        'warn',
        'the browser is the headless shell of Chromium: the whole one starts only where it is installed and an agent gives each job a user of its own',
      );
    }
    const certificate = this.#readCertificate(message);
    const work = this.#prepareWork(message);
    const startTime = Date.now();
    this.#code.onEnd = (code) => {
      if (code !== 0 || this.#plain === undefined) {
        this.#errorCount++;
        this.#findings.finish();
        return false;
      }
      this.#recorder?.discard();
      this.#finish({ verdict: 'passed', errors: [] }, startTime, Date.now());
      return true;
    };
    const ended = await Promise.race([work(), this.#timeUp(message)]);
    const endTime = Date.now();
    await Promise.race([certificate, new Promise((resolve) => setTimeout(resolve, 0))]);
    await Promise.race([
      this.#recorder?.finish(ended.verdict !== 'passed', this.#observer.pages),
      new Promise((resolve) => setTimeout(resolve, LAST_WORDS_MS)),
    ]);
    this.#finish(ended, startTime, endTime);
  }

  /** Loads what this script needs and is not loaded yet. */
  #prepareWork(message: RunScript): () => Promise<Ended> {
    if (!this.#usesTestRunner()) return () => this.#runPlain(message, message.entry);
    const hasModules = this.#hasModules();
    this.#library.loadTests();
    if (hasModules) this.#library.registerModuleLoader();
    else this.#code.variables.hide(...WITHOUT_MODULES);
    const tests = new TestRun({
      library: this.#library,
      code: this.#code,
      runtimeId: this.#warmUp.runtime.id,
      onChange: () => this.#findings.changed(),
      fork: (host, start) => this.#fork(host, start, hasModules),
    });
    this.#tests = tests;
    return async () => {
      const ended = await tests.run(message, this.#warmUp.folder);
      return tests.isEmpty ? this.#runPlain(message, undefined) : ended;
    };
  }

  /** Whether Node would take a file of the user as an ES module. */
  #hasModules(): boolean {
    return this.#files!.given.some((file) => /\.m[jt]sx?$|(^|\/)package\.json$/.test(file));
  }

  #fork<T>(host: ProcessHost, start: () => T, hasModules: boolean): T {
    const env = this.#code.variables.all();
    const orders = { warmUp: this.#warmUp, policy: this.#policy, env, hasModules };
    host._extraEnv = { ...host._extraEnv, ...forkEnvironment(orders) };
    host.on(FORK_EVENT, (said) => {
      const message = said as FromFork;
      if (message.t === 'soft') this.#tests?.noteSoft(message.message);
      else if (message.t === 'observed') this.#observer.take(host, message.observed);
      else this.#send(message);
      this.#findings.changed();
    });
    // A fork is started with the flags that are noted here.
    process.execArgv = [...FLAGS, ...FORK_FLAGS];
    return start();
  }

  async #runPlain(message: RunScript, entry: string | undefined): Promise<Ended> {
    this.#recorder = new Recorder(this.#warmUp.folder, message.keepArtifacts);
    this.#observer.contexts = this.#recorder;
    this.#code.errors.install();
    this.#plain = new PlainRun(this.#hooks, this.#code);
    return this.#plain.run(entry);
  }

  #usesTestRunner(): boolean {
    const { root } = this.#code.files;
    const programs = this.#files!.given.filter((file) => /\.[cm]?[jt]sx?$/.test(file));
    return areSpecs(programs.map((file) => readFileSync(join(root, file), 'utf8')));
  }

  async #timeUp({ timeoutMs }: RunScript): Promise<Ended> {
    await new Promise((resolve) =>
      setTimeout(resolve, timeoutMs + (this.#recorder === undefined ? LAST_WORDS_MS : 0)).unref(),
    );
    return { verdict: 'timed_out', errors: this.#plain?.lastError ?? this.#tests?.errors ?? [] };
  }

  async #readCertificate({ sslCheckDomain }: RunScript): Promise<void> {
    if (sslCheckDomain === null || sslCheckDomain === '') return;
    this.#certificate = await readCertificate(sslCheckDomain);
    const { domain, error } = this.#certificate;
    if (error !== null) this.#code.printer.say('warn', `the certificate of ${domain}: ${error}`);
  }

  #finish({ verdict, errors }: Ended, startTime: number, endTime: number): void {
    const degraded = this.#degraded();
    const isSoft = verdict === 'failed' && errors.length > 0 && errors.every(({ soft }) => soft === true);
    this.#errorCount = errors.length;
    this.#files!.cleanReport(this.#code.files);
    const steps = this.#tests?.steps.leftOut ?? 0;
    if (steps > 0) this.#code.printer.say('warn', `${steps} more steps are not shown`);
    this.#code.printer.settle();
    this.#findings.finish();
    this.#send({
      t: 'done',
      startTime,
      endTime,
      verdict: isSoft && degraded.length > 0 ? 'passed' : verdict,
      errors,
      degraded,
    });
  }

  #found(isFinal: boolean): { detail: Record<string, unknown>; files: LeftFile[] } {
    const isBrowser = this.#policy.checkType === 'BROWSER';
    const { pages, errors, requests } = this.#observer.observed;
    const tests = this.#tests?.steps.tests ?? [];
    const detail = {
      ...(isBrowser
        ? {
            traceSummary: { ...errors, userScriptErrors: this.#errorCount },
            pages,
          }
        : {}),
      ...(requests.length > 0 || !isBrowser ? { requests } : {}),
      ...(tests.length > 0 ? { tests } : {}),
      ...(this.#certificate === undefined ? {} : { certificate: this.#certificate }),
    };
    return { detail, files: this.#files?.list(isFinal) ?? [] };
  }

  /** Reasons that the helper package wrote down. */
  #degraded(): string[] {
    const file = join(this.#warmUp.folder, 'src', 'degraded.json');
    if (!existsSync(file)) return [];
    try {
      const { messages } = JSON.parse(readFileSync(file, 'utf8')) as { messages?: unknown };
      return Array.isArray(messages) ? messages.map(String).slice(0, MAX_REASONS) : [];
    } catch {
      return [];
    }
  }
}
