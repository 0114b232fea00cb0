import { mkdir, writeFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { join, relative } from 'node:path';
import { z } from 'zod';
import type { SuiteJob, SuiteResult } from '../../checks/index.ts';
import type { Job } from '../../contract/index.ts';
import { monoMs, sleep, wallMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { OpenGate } from '../egress/index.ts';
import { ExecutorFault, RunStopped, type Finished } from '../ports.ts';
import { JobLog, scrubbedReport } from '../scripts/index.ts';
import { removeFolder, type JobLimits } from '../sandbox/index.ts';
import { createScrubber, secretsOf, type Scrubber } from '../scrub/index.ts';
import * as answers from './answers.ts';
import { INSTALL_VARIABLES, installCommand, NPM, packageOf, testCommand } from './commands.ts';
import type { Engine } from './engines.ts';
import { commandEnvironment, variablesOf } from './environment.ts';
import { EventFile } from './events.ts';
import { degradedReasons, keepFiles } from './left-files.ts';
import { LiveLog } from './live-log.ts';
import { SuiteProblem } from './problem.ts';
import { childText, Gone, SuiteProcess } from './process.ts';
import type { Ended, Project } from './protocol.ts';
import { reportOf } from './result.ts';
import type { SuiteServices } from './services.ts';
import { Tests } from './tests.ts';
import { earlyCut, judgeTests, ours, problem, type Cut, type Verdict } from './verdict.ts';
import { lastLines, wordsOf } from './words.ts';

type Stage = NonNullable<SuiteResult['error']>['stage'];

const INSTALL_MS = 300_000;
/** Playwright gets so long to end its tests and to write its reports. */
const STOP_MS = 5_000;
/** Of the whole time of a run, for what comes after the tests. */
const COLLECT_MS = 20_000;
const READ_MS = 200;
const REPORTER = 'reporter.mjs';
const TAIL_CHARS = 20_000;
/** More than that on one machine wait for one another. */
const MOST_WORKERS = 4;

export interface SuiteRunOptions {
  job: Job;
  suite: SuiteJob & { environmentVariables?: { key: string; value: string }[] | null };
  folder: string;
  limits: JobLimits;
  services: SuiteServices;
  /** Folder for the files that are kept. */
  into: string;
}

/** A run was ended from outside its own commands. */
class Stopped extends Error {
  readonly cut: Cut;
  constructor(cut: Cut) {
    super(cut.message);
    this.cut = cut;
  }
}

/** For programs that are none of Node's; they know no other way to the gate. */
function proxyVariables(port: number): Record<string, string> {
  const address = `http://127.0.0.1:${port}`;
  return { HTTP_PROXY: address, HTTPS_PROXY: address };
}

/** One run of a suite: archive → project → dependencies → browsers → tests → result. */
export class SuiteRun {
  readonly #options: SuiteRunOptions;
  readonly #project: string;
  readonly #log = new JobLog();
  readonly #scrubber: Scrubber;
  readonly #words: (text: string) => string;
  readonly #live: LiveLog | undefined;
  readonly #tests: Tests;
  readonly #startedMs = monoMs();
  readonly #startedWallMs = wallMs();
  #stage: Stage = 'fetch';
  #process: SuiteProcess | undefined;
  #gates: { tests: OpenGate | null; installs: OpenGate | null } = { tests: null, installs: null };
  #events: EventFile | undefined;
  #tail = '';
  #engine: Engine | undefined;
  #packageManager: SuiteResult['packageManager'] = null;
  #playwrightVersion: string | null = null;
  #install: SuiteResult['install'] = null;
  #testCommand: { startedMs: number; ended?: Ended } | undefined;
  #testCommandMs = 0;

  constructor(options: SuiteRunOptions) {
    const { job, suite, folder, services } = options;
    this.#options = options;
    this.#project = join(folder, 'project');
    this.#scrubber = createScrubber(secretsOf(job, services.ownSecrets));
    this.#words = wordsOf(folder, []);
    this.#tests = new Tests(folder, this.#words);
    if (suite.streamLogs) this.#live = new LiveLog(job, this.#scrubber, services.postLog);
  }

  get process(): SuiteProcess | undefined {
    return this.#process;
  }

  /** @returns undefined when somebody else has the run */
  async carryOut(signal: AbortSignal): Promise<Finished | undefined> {
    let cut: Cut | null = null;
    try {
      await this.#prepareAndTest(signal);
    } catch (error) {
      cut = this.#cutOf(error);
    }
    await this.#process?.end();
    await this.#takeEvents();
    await this.#events?.close();
    for (const gate of [this.#gates.tests, this.#gates.installs]) gate?.close();
    const reason: unknown = signal.reason;
    const isKept = !signal.aborted || (reason instanceof RunStopped && reason.isKept);
    if (isKept && cut !== null) this.#say('error', cut.message);
    await this.#live?.end();
    if (!isKept) return undefined;
    return this.#finish(cut, signal);
  }

  #cutOf(error: unknown): Cut {
    if (error instanceof Stopped) return error.cut;
    if (error instanceof SuiteProblem) return problem(this.#stage, error.code, error.message);
    if (error instanceof Gone) return earlyCut(this.#stage, error.end, this.#options.limits);
    const code = error instanceof ExecutorFault ? error.code : 'AGENT_FAULT';
    return ours(this.#stage, code, this.#words(messageOf(error)));
  }

  async #prepareAndTest(signal: AbortSignal): Promise<void> {
    const { suite, services } = this.#options;
    const archive = await services.bundles.take(suite.bundle, signal);
    try {
      await this.#start(archive);
      this.#stage = 'unpack';
      await this.#within(
        signal,
        this.#ask({ do: 'unpack', archive, into: this.#project, kind: 'bundle' }, z.unknown()),
      );
    } finally {
      services.bundles.release(suite.bundle.sha256);
    }
    this.#stage = 'prepare';
    const project = await this.#within(signal, this.#look());
    const path = await this.#within(signal, this.#tools(project));
    this.#stage = 'install';
    await this.#installDependencies(project, path, signal);
    this.#gates.installs?.close();
    this.#stage = 'browsers';
    const browsers = await this.#within(signal, this.#browsers(project));
    this.#stage = 'test';
    await this.#test(project, path, browsers, signal);
  }

  async #start(archive: string): Promise<void> {
    const { folder, limits, services } = this.#options;
    await mkdir(join(folder, 'tmp'), { mode: 0o700 });
    await mkdir(join(folder, 'out'), { mode: 0o700 });
    await writeFile(join(folder, REPORTER), childText('reporter'));
    // Playwright and others look for one upwards, and give up at one that they may not read.
    await writeFile(join(folder, 'tsconfig.json'), '{}');
    this.#events = await EventFile.create(join(folder, 'events.jsonl'));
    const [tests, installs] = await Promise.all([
      services.openGate(''),
      services.openGate(services.installTargets),
    ]);
    this.#gates = { tests, installs };
    const readable = [archive, services.dependencies.folder, ...services.readable()];
    this.#process = new SuiteProcess({
      folder,
      readable,
      executable: services.readable(),
      gates: [installs, tests].filter((gate) => gate !== null),
      env: services.processVariables,
      limits,
      may: services.may,
    });
    this.#process.onPrint = (level, chunk) => this.#print(level, chunk);
  }

  #print(level: 'info' | 'error', chunk: Buffer): void {
    this.#tail = (this.#tail + chunk.toString()).slice(-TAIL_CHARS);
    this.#log.print(level, chunk);
    this.#live?.print(chunk);
  }

  #say(level: 'info' | 'warn' | 'error', text: string): void {
    this.#log.add(level, text);
    this.#live?.print(Buffer.from(`${text}\n`));
  }

  #ask<S extends z.ZodType>(question: Parameters<SuiteProcess['ask']>[0], schema: S): Promise<z.infer<S>> {
    return this.#process!.ask(question, schema);
  }

  get #workingDir(): string {
    return join(this.#project, this.#options.suite.workingDir ?? '');
  }

  async #look(): Promise<Project> {
    const { configPath, testCommand: command } = this.#options.suite;
    const project = await this.#ask(
      { do: 'look', root: this.#project, workingDir: this.#workingDir, configPath, testCommand: command },
      answers.Project,
    );
    this.#playwrightVersion = project.playwrightVersion;
    return project;
  }

  /** @returns folders for the PATH */
  async #tools(project: Project): Promise<string[]> {
    const { suite, services } = this.#options;
    const { packageManager } = project;
    const { name, version } = packageOf(packageManager);
    this.#engine = await services.engines.choose(suite, project);
    if (this.#engine.note !== null) this.#say('info', `${this.#engine.note}: using ${this.#engine.version}`);
    const own = await services.toolbox.get(name, version);
    const npm = await services.toolbox.get('npm', name === 'npm' ? version : NPM);
    this.#packageManager = { name: packageManager.name, version };
    return [...this.#engine.path, join(own, 'commands'), join(npm, 'commands')];
  }

  async #installDependencies(project: Project, path: string[], signal: AbortSignal): Promise<void> {
    const { suite, services } = this.#options;
    const key = this.#dependenciesKey(project);
    const startedMs = monoMs();
    if (suite.refreshCache) await services.dependencies.remove(key);
    const archive = await services.dependencies.take(key);
    if (archive !== undefined) {
      try {
        const question = { do: 'unpack', archive, into: this.#project, kind: 'dependencies' } as const;
        await this.#within(signal, this.#ask(question, z.unknown()));
      } finally {
        services.dependencies.release(key);
      }
      this.#install = { ms: Math.round(monoMs() - startedMs), fromCache: true };
      return;
    }
    await this.#runInstall(project, path, signal);
    await this.#within(signal, this.#ask({ do: 'programs', root: this.#project }, z.unknown()));
    this.#install = { ms: Math.round(monoMs() - startedMs), fromCache: false };
    if (services.dependencies.isOff) return;
    const packed = join(this.#options.folder, 'dependencies.tar');
    await this.#within(signal, this.#ask({ do: 'pack', root: this.#project, into: packed }, answers.Packed));
    await services.dependencies.keep(key, this.#options.folder, 'dependencies.tar');
  }

  async #runInstall(project: Project, path: string[], signal: AbortSignal): Promise<void> {
    const { suite, services } = this.#options;
    const { packageManager, lockFolder } = project;
    const command = suite.installCommand ?? installCommand(packageManager, services.runsInstallScripts);
    const cwd = suite.installCommand === null ? join(this.#project, lockFolder) : this.#workingDir;
    const gate = this.#gates.installs;
    const native = packageManager.name === 'bun' && gate !== null ? proxyVariables(gate.port) : {};
    const more = { ...INSTALL_VARIABLES, ...services.packageVariables, ...native };
    const env = this.#environment(path, gate, more);
    this.#tail = '';
    const ran = this.#ask({ do: 'run', command, cwd, env }, answers.Ended);
    const limit = (): Cut =>
      problem(
        'install',
        'INSTALL_TIMEOUT',
        `the installation of the dependencies was not finished within ${INSTALL_MS / 1000} s: ${this.#lastPrinted()}`,
      );
    const { code, signal: by } = await this.#within(signal, ran, INSTALL_MS, limit);
    if (code === 0) return;
    const how = by === null ? `exit code ${code}` : `signal ${by}`;
    if (services.isNetworkFault(this.#tail)) {
      throw new ExecutorFault(
        'REGISTRY_UNREACHABLE',
        `this agent could not reach the package registry: ${this.#lastPrinted()}`,
      );
    }
    throw new SuiteProblem('INSTALL_FAILED', `\`${command}\` ended with ${how}: ${this.#lastPrinted()}`);
  }

  #lastPrinted(): string {
    return this.#words(lastLines(this.#tail, 12)) || 'it printed nothing';
  }

  #dependenciesKey({ dependenciesHash, packageManager }: Project): string {
    const { installCommand: command, workingDir, cacheHash } = this.#options.suite;
    const { name, version } = packageOf(packageManager);
    const parts = [
      dependenciesHash,
      cacheHash,
      command,
      workingDir,
      this.#engine?.version,
      name,
      version,
      process.arch,
    ];
    return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
  }

  async #browsers({ playwrightVersion, packageManager }: Project): Promise<string> {
    const { suite, services } = this.#options;
    const question = { do: 'playwright', root: this.#project, workingDir: this.#workingDir } as const;
    const found = await this.#ask(question, answers.InstalledPlaywright.nullable());
    const version = found?.version ?? suite.playwrightVersion ?? playwrightVersion;
    if (version === null || (found === null && !packageManager.pnp)) {
      throw new SuiteProblem(
        'NO_PLAYWRIGHT',
        'the project does not depend on @playwright/test: add it to package.json',
      );
    }
    this.#playwrightVersion = version;
    const installed = found ?? { version, browsers: await services.browsers.ofVersion(version) };
    return services.browsers.get(installed, suite.browsers);
  }

  async #test(project: Project, path: string[], browsers: string, signal: AbortSignal): Promise<void> {
    const { suite, services, folder, job } = this.#options;
    const { path: wrapper } = await this.#ask(
      {
        do: 'wrap',
        config: join(this.#project, project.config),
        additions: childText('additions'),
        options: {
          reporter: join(folder, REPORTER),
          events: this.#events!.path,
          out: join(folder, 'out'),
          workers: Math.max(1, Math.min(MOST_WORKERS, services.workers)),
          blob: suite.shard === null ? null : `blob-${suite.shard.index}.zip`,
        },
      },
      answers.Wrapped,
    );
    const config = relative(this.#workingDir, wrapper);
    const command = testCommand(suite, project.packageManager, config);
    const env = this.#environment(path, this.#gates.tests, { PLAYWRIGHT_BROWSERS_PATH: browsers });
    this.#tail = '';
    this.#testCommand = { startedMs: monoMs() };
    const ran = this.#ask({ do: 'run', command, cwd: this.#workingDir, env }, answers.Ended);
    ran.catch(() => {});
    const limitMs = Math.min(
      suite.timeoutSeconds * 1000,
      job.timeoutMs - COLLECT_MS - (monoMs() - this.#startedMs),
    );
    const limit = (): Cut =>
      problem(
        'test',
        'TIME_LIMIT',
        `the suite was not finished within ${Math.round(limitMs / 1000)} s: raise timeoutSeconds (3600 at most), run fewer tests or split it into shards`,
      );
    const reading = new AbortController();
    const read = this.#readEvents(reading.signal);
    try {
      this.#testCommand.ended = await this.#within(signal, ran, Math.max(0, limitMs), limit);
    } catch (error) {
      if (error instanceof Stopped) await this.#stopTests(ran);
      throw error;
    } finally {
      this.#testCommandMs = Math.round(monoMs() - this.#testCommand.startedMs);
      reading.abort();
      await read;
    }
  }

  /** As a Ctrl-C would, so that tests under way leave their traces; who does not end then is ended. */
  async #stopTests(ran: Promise<unknown>): Promise<void> {
    const { pid } = this.#tests;
    if (pid === undefined) return;
    void this.#ask({ do: 'interrupt', pid }, z.unknown()).catch(() => {});
    await Promise.race([ran.catch(() => {}), sleep(STOP_MS)]);
  }

  #environment(path: string[], gate: OpenGate | null, more: Record<string, string>): Record<string, string> {
    const { job, suite, folder, services } = this.#options;
    const { extraCaCerts } = services;
    return commandEnvironment({ folder, gate, path, extraCaCerts }, variablesOf(job, suite), more);
  }

  /** @throws Stopped when the run is stopped, or `ms` are over, before `work` is done */
  async #within<T>(signal: AbortSignal, work: Promise<T>, ms?: number, limit?: () => Cut): Promise<T> {
    work.catch(() => {});
    const leftMs = this.#options.job.timeoutMs - COLLECT_MS - (monoMs() - this.#startedMs);
    const isLimit = ms !== undefined && ms <= leftMs;
    const over = (): Cut =>
      isLimit && limit !== undefined
        ? limit()
        : problem(
            this.#stage,
            'TIME_LIMIT',
            `the run was not finished within ${this.#options.job.timeoutMs / 1000} s`,
          );
    const done = new AbortController();
    const stopped = new Promise<never>((_resolve, reject) => {
      const onAbort = (): void =>
        reject(new Stopped(problem(this.#stage, 'CANCELLED', 'the run was cancelled')));
      if (signal.aborted) return onAbort();
      signal.addEventListener('abort', onAbort, { once: true, signal: done.signal });
      const timer = setTimeout(
        () => reject(new Stopped(over())),
        Math.max(0, Math.min(ms ?? leftMs, leftMs)),
      );
      done.signal.addEventListener('abort', () => clearTimeout(timer));
    });
    try {
      return await Promise.race([work, stopped]);
    } finally {
      done.abort();
    }
  }

  async #readEvents(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#takeEvents();
      await sleep(READ_MS, signal).catch(() => {});
    }
  }

  async #takeEvents(): Promise<void> {
    for (const event of (await this.#events?.read()) ?? []) this.#tests.take(event);
  }

  async #finish(cut: Cut | null, signal: AbortSignal): Promise<Finished> {
    const { folder, suite, into } = this.#options;
    if (this.#events?.broken !== undefined) {
      this.#say('warn', `the list of tests is not whole: ${this.#events.broken}`);
    }
    for (const { sentence } of this.#gates.tests?.refusals ?? []) this.#say('warn', sentence);
    const { tests, files: left, metrics } = this.#tests.list();
    const degraded = await degradedReasons(folder, join('project', suite.workingDir ?? ''));
    const verdict = this.#verdict(cut, { tests, metrics, degraded }, signal);
    if (verdict.cut !== null && verdict.cut !== cut) this.#log.add('error', verdict.cut.message);
    const kept = await this.#keep(left, { tests, metrics });
    const scrubbed = this.#scrubber;
    const found = {
      tests,
      metrics,
      loose: this.#tests.loose,
      startTime: this.#startedWallMs,
      endTime: wallMs(),
      testCommandMs: this.#testCommandMs,
      playwrightVersion: this.#tests.playwrightVersion ?? this.#playwrightVersion,
      engine: this.#engine === undefined ? null : { name: this.#engine.name, version: this.#engine.version },
      packageManager: this.#packageManager,
      install: this.#install,
      degraded,
      shard: suite.shard,
      jobLog: this.#log.take(scrubbed).map((line) => ({ ...line, msg: this.#words(line.msg) })),
    };
    // Before anything is cut: half a secret is not recognised any more.
    const report = reportOf(scrubbed.value(found), scrubbed.value(verdict), kept.files);
    await (kept.files.length === 0 ? removeFolder(into) : undefined);
    return { report: scrubbedReport(report, scrubbed), ...kept };
  }

  #verdict(
    cut: Cut | null,
    { tests, metrics, degraded }: Pick<SuiteResult, 'tests' | 'metrics' | 'degraded'>,
    signal: AbortSignal,
  ): Verdict {
    if (signal.aborted) return { verdict: 'cancelled', cut };
    if (cut !== null) return { verdict: cut.isOurs ? 'error' : 'failed', cut };
    return judgeTests({
      tests,
      metrics,
      degraded,
      loose: this.#tests.loose,
      hasBegun: this.#tests.hasBegun,
      status: this.#tests.status,
      ended: this.#testCommand?.ended,
      printed: this.#words(this.#tail),
      onlySoft: this.#tests.onlySoft,
    });
  }

  /** A verdict without its files is worth more than none. */
  async #keep(
    left: Parameters<typeof keepFiles>[0]['left'],
    summary: Pick<SuiteResult, 'tests' | 'metrics'>,
  ): Promise<Pick<Finished, 'files' | 'refused'>> {
    const { folder, into, suite } = this.#options;
    try {
      const kept = await keepFiles({
        folder,
        into,
        left,
        summary,
        scrubber: this.#scrubber,
        shard: suite.shard,
      });
      for (const { name, size, reason } of kept.refused) {
        this.#log.add('warn', `${name} (${size} bytes) is not kept: ${reason}`);
      }
      return kept;
    } catch (error) {
      await removeFolder(into);
      this.#log.add('warn', `the files of this run could not be kept: ${messageOf(error)}`);
      return { files: [], refused: [] };
    }
  }
}
