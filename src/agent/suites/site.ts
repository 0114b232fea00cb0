import { constants } from 'node:fs';
import { chmod, copyFile, mkdir, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { z } from 'zod';
import type { Job } from '../../contract/index.ts';
import type { OpenGate, Refusal } from '../egress/index.ts';
import type { JobLimits } from '../sandbox/index.ts';
import { giveAuthorities } from '../scripts/index.ts';
import type { Suite } from './context.ts';
import { commandEnvironment, processVariables, variablesOf } from './environment.ts';
import { EventFile } from './events.ts';
import { childText, commonJsOf, SuiteProcess } from './process.ts';
import type { SuiteServices } from './services.ts';
import { Tests } from './tests.ts';

interface SiteOptions {
  job: Job;
  suite: Suite;
  folder: string;
  limits: JobLimits;
  services: SuiteServices;
  words: (text: string) => string;
}

/**
 * CommonJS, whatever the project is: from its own loader of modules Playwright 1.51 gets no reporter under
 * Node 24 and later, and waits for it for ever.
 */
const REPORTER = 'reporter.cjs';
const AUTHORITIES = 'authorities.pem';
/** The project's own servers, which no proxy of the location knows. */
const LOOPBACK = 'localhost,127.0.0.0/8,::1';
const MB = 1024 ** 2;
/** Less is as good as nothing: a trace alone takes more. */
const FULL_BYTES = 16 * MB;
/** What programs that ran out of room may have freed when they ended. */
const SHORT_BYTES = 256 * MB;

/** Where a run takes place: its folder, its process, the ways out of it, and what is heard of its tests. */
export class Site {
  readonly folder: string;
  /** Of what the archive holds. */
  readonly project: string;
  readonly workingDir: string;
  readonly tests: Tests;
  readonly #options: SiteOptions;
  #process: SuiteProcess | undefined;
  #gates: { tests: OpenGate | null; installs: OpenGate | null } = { tests: null, installs: null };
  #events: EventFile | undefined;
  #extraCaCerts: string | undefined;

  constructor(options: SiteOptions) {
    const { folder, suite, words } = options;
    this.#options = options;
    this.folder = folder;
    this.project = join(folder, 'project');
    this.workingDir = join(this.project, suite.workingDir ?? '');
    this.tests = new Tests(folder, words);
  }

  /** Makes everything that code of the project may find, and starts the process that will run it. */
  async begin(archive: string, onPrint: SuiteProcess['onPrint']): Promise<void> {
    const { job, folder, limits, services } = this.#options;
    await mkdir(join(folder, 'tmp'), { mode: 0o700 });
    await mkdir(join(folder, 'out'), { mode: 0o700 });
    await writeFile(this.reporter, commonJsOf(childText('reporter')));
    // Playwright and others look for one upwards, and give up at one that they may not read.
    await writeFile(join(folder, 'tsconfig.json'), '{}');
    await this.#takeAuthorities();
    this.#events = await EventFile.create(join(folder, 'events.jsonl'));
    const [tests, installs] = await Promise.all([
      services.openGate(''),
      services.openGate(services.installTargets),
    ]);
    this.#gates = { tests, installs };
    await tests?.lead(job.proxyUrl, LOOPBACK);
    this.#process = new SuiteProcess({
      folder,
      readable: [archive, ...services.readable()],
      executable: services.readable(),
      gates: [installs, tests].filter((gate) => gate !== null),
      env: processVariables(this.#extraCaCerts),
      limits,
      may: services.may,
    });
    this.#process.onPrint = onPrint;
  }

  /** A run trusts whom the agent trusted when it began, whatever changes meanwhile. */
  async #takeAuthorities(): Promise<void> {
    const { folder, services } = this.#options;
    await giveAuthorities(folder, services.browserAuthorities());
    if (services.extraCaCerts === undefined) return;
    this.#extraCaCerts = join(folder, AUTHORITIES);
    await copyFile(services.extraCaCerts, this.#extraCaCerts);
  }

  get process(): SuiteProcess | undefined {
    return this.#process;
  }
  /** Our reporter, as a file for the project's Playwright. */
  get reporter(): string {
    return join(this.folder, REPORTER);
  }
  /** Undefined before `begin`. */
  get eventFile(): EventFile | undefined {
    return this.#events;
  }
  /** Null where every target may be reached. */
  get gates(): Readonly<{ tests: OpenGate | null; installs: OpenGate | null }> {
    return this.#gates;
  }
  /** What was kept from the tests. */
  get refusals(): readonly Refusal[] {
    return this.#gates.tests?.refusals ?? [];
  }

  /** As `SuiteProcess.ask`. Only between `begin` and `close`. */
  ask<S extends z.ZodType>(question: Parameters<SuiteProcess['ask']>[0], schema: S): Promise<z.infer<S>> {
    return this.#process!.ask(question, schema);
  }

  /** Gives it a copy of a file of the agent's. Only before code of the project runs. */
  async give(file: string, name: string): Promise<string> {
    const copy = join(this.folder, name);
    await copyFile(file, copy, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
    await chmod(copy, 0o600);
    this.#process!.give(copy);
    return copy;
  }

  /** Of a command: what the check says, and `more` for its stage. */
  environment(path: string[], gate: OpenGate | null, more: Record<string, string>): Record<string, string> {
    const { job, suite, folder } = this.#options;
    const around = { folder, gate, path, extraCaCerts: this.#extraCaCerts };
    return commandEnvironment(around, variablesOf(job, suite), more);
  }

  /** Takes what the reporter has written since the last time. */
  async hear(): Promise<void> {
    for (const event of (await this.#events?.read()) ?? []) this.tests.take(event);
  }

  /** Whether its disk has no room left; or hardly any where somebody has said so. */
  async isFull(isSaid: boolean): Promise<boolean> {
    const { bavail, bsize, files, ffree } = await statfs(this.folder);
    return bavail * bsize < (isSaid ? SHORT_BYTES : FULL_BYTES) || (files > 0 && ffree === 0);
  }

  /** Ends everything of the run; its files are at rest then. */
  async close(): Promise<void> {
    await this.#process?.end();
    await this.hear();
    await this.#events?.close();
    for (const gate of [this.#gates.tests, this.#gates.installs]) gate?.close();
  }
}
