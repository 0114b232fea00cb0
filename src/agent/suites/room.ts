import { availableParallelism } from 'node:os';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { SuiteJob } from '../../checks/index.ts';
import type { Job } from '../../contract/index.ts';
import { messageOf } from '../../kit/errors.ts';
import { untilAborted } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import type { EgressProxy, OpenGate } from '../egress/index.ts';
import { ExecutorFault, type Finished } from '../ports.ts';
import { MACHINE_FOLDERS, type Runtime } from '../runtimes/index.ts';
import {
  canNestChromiumSandbox,
  letJobsPass,
  removeFolder,
  type JobLimits,
  type Scheduling,
} from '../sandbox/index.ts';
import { resultIdOf, sweepWorkFolder } from '../scripts/index.ts';
import { Browsers } from './browsers.ts';
import { Bundles, type BundleSource } from './bundles.ts';
import { Dependencies } from './dependencies.ts';
import { Engines } from './engines.ts';
import { networkVariables, processVariables, type PackageNetwork } from './environment.ts';
import type { PostLogText } from './live-log.ts';
import type { SuiteServices } from './services.ts';
import { SuiteRun } from './suite-run.ts';
import { DEFAULT_REGISTRY, Toolbox } from './toolbox.ts';
import { Workshop } from './workshop.ts';

const GB = 1024 ** 3;
/** Four workers with a browser each, a web server and a package manager. */
const PROCESSES = 512;
/** Dependencies, traces and videos of one job. */
const DISK_BYTES = 8 * GB;
/** Native packages and large workspaces. */
const FILES = 400_000;

export interface SuiteRoomOptions {
  dataDir: string;
  /** Memory that one job may take, bytes. */
  memoryBytes: number;
  /** For tests: what a job may take besides. */
  limits?: Partial<JobLimits>;
  /** The way to targets; null where suites may reach every one by themselves. */
  egress: Pick<EgressProxy, 'open'> | null;
  extraCaCerts: string | undefined;
  /** Database of the authorities that browsers trust beside their own; undefined when there is none. */
  browserAuthorities?: () => string | undefined;
  ownSecrets: readonly string[];
  /** How registries are reached. */
  network: PackageNetwork;
  /** Settings of package managers and of Playwright's download, as the agent got them. */
  packageVariables: Readonly<Record<string, string>>;
  /** Lifecycle scripts of packages run at their installation. */
  runsInstallScripts: boolean;
  dependencyCache: { isOff: boolean; maxBytes: number };
  bundleCacheBytes: number;
  runtimes: () => readonly Runtime[];
  bundles: BundleSource;
  postLog: PostLogText;
  /** Where the files of a result wait to be accepted with it. */
  folderOf: (resultId: string) => string;
  log: Log;
}

/** The suites under way, and what they share. */
export class SuiteRoom {
  readonly #options: SuiteRoomOptions;
  readonly #workDir: string;
  readonly #services: SuiteServices;
  readonly #workshop: Workshop;
  readonly #running = new Set<SuiteRun>();
  readonly #prepared: Promise<void>;
  readonly #begin: () => void;
  #last = 0;

  constructor(options: SuiteRoomOptions) {
    const { dataDir, runtimes, log, extraCaCerts, dependencyCache, bundleCacheBytes, bundles } = options;
    this.#options = options;
    const folder = join(dataDir, 'suites');
    this.#workDir = join(folder, 'work');
    const network = networkVariables(options.network);
    const packageVariables = { ...network, ...options.packageVariables };
    const installTargets = targetsOf({ ...USUAL_SOURCES, ...packageVariables });
    const openGate = (allowed: string): Promise<OpenGate | null> => this.#openGate(allowed);
    this.#workshop = new Workshop({
      folder: join(folder, 'workshop'),
      openGate: () => openGate(installTargets),
      env: { ...processVariables(extraCaCerts), ...network, NODE_USE_ENV_PROXY: '1' },
      readable: () => this.#readable(),
    });
    const registry = Object.entries(options.packageVariables).find(([name]) =>
      /^npm_config_registry$/i.test(name),
    )?.[1];
    const toolbox = new Toolbox(join(folder, 'tools'), this.#workshop, registry);
    const env = { ...processVariables(extraCaCerts), ...packageVariables };
    const workshop = this.#workshop;
    this.#services = {
      bundles: new Bundles(join(folder, 'bundles'), bundleCacheBytes, bundles),
      dependencies: new Dependencies(join(folder, 'dependencies'), dependencyCache),
      toolbox,
      engines: new Engines(toolbox, runtimes),
      browsers: new Browsers({ folder: join(folder, 'browsers'), workshop, toolbox, runtimes, env, log }),
      openGate,
      installTargets,
      registryProxy: proxyOf(registry ?? DEFAULT_REGISTRY, options.network),
      readable: () => this.#readable(),
      packageVariables,
      runsInstallScripts: options.runsInstallScripts,
      postLog: options.postLog,
      ownSecrets: [...options.ownSecrets, ...secretsIn(packageVariables)],
      extraCaCerts,
      browserAuthorities: options.browserAuthorities ?? (() => undefined),
      processors: availableParallelism(),
      may: ['listen', 'unix-sockets', ...(canNestChromiumSandbox() ? (['nested-sandbox'] as const) : [])],
    };
    ({ promise: this.#prepared, resolve: this.#begin } = Promise.withResolvers<void>());
  }

  /** Jobs under way. */
  get jobs(): { pid: number | undefined; memoryBytes: number; scheduling(): Scheduling }[] {
    return [...this.#running].flatMap(({ process }) => (process === undefined ? [] : [process]));
  }

  /** Removes what an agent that was killed left behind, then keeps what suites share until `signal` aborts. */
  async keep(signal: AbortSignal): Promise<void> {
    await this.prepare();
    await untilAborted(signal);
    await Promise.all(
      [...this.#running].flatMap(({ process }) => (process === undefined ? [] : [process.end()])),
    );
  }

  async prepare(): Promise<void> {
    const { dataDir } = this.#options;
    await mkdir(join(dataDir, 'suites'), { recursive: true, mode: 0o700 });
    for (const folder of [dataDir, join(dataDir, 'suites')]) letJobsPass(folder);
    await sweepWorkFolder(this.#workDir);
    letJobsPass(this.#workDir);
    const { bundles, dependencies, toolbox, browsers } = this.#services;
    await Promise.all(
      [bundles, dependencies, toolbox, browsers, this.#workshop].map((each) => each.prepare()),
    );
    this.#begin();
  }

  /**
   * Runs a suite.
   *
   * @returns what was found, or undefined when somebody else has the run
   * @throws ExecutorFault
   */
  async run(job: Job, signal: AbortSignal): Promise<Finished | undefined> {
    const suite = readSuite(job);
    await Promise.race([this.#prepared, untilAborted(signal)]);
    const folder = join(this.#workDir, String(++this.#last));
    await mkdir(folder, { mode: 0o700 });
    const limits: JobLimits = {
      memoryBytes: this.#options.memoryBytes,
      processes: PROCESSES,
      diskBytes: DISK_BYTES,
      files: FILES,
      ...this.#options.limits,
    };
    const into = this.#options.folderOf(resultIdOf(job));
    const run = new SuiteRun({ job, suite, folder, limits, services: this.#services, into });
    this.#running.add(run);
    try {
      return await run.carryOut(signal);
    } finally {
      this.#running.delete(run);
      await removeFolder(folder).catch((error: unknown) => {
        this.#options.log.error(
          { folder, detail: messageOf(error) },
          'a suite left something that cannot be removed',
        );
      });
    }
  }

  async #openGate(allowed: string): Promise<OpenGate | null> {
    try {
      return (await this.#options.egress?.open(allowed)) ?? null;
    } catch (error) {
      throw new ExecutorFault('EGRESS_FAULT', messageOf(error));
    }
  }

  #readable(): string[] {
    const { toolbox, engines, browsers, extraCaCerts } = this.#services;
    const authorities = extraCaCerts === undefined ? [] : [extraCaCerts];
    return [
      ...toolbox.readable,
      ...engines.readable,
      ...browsers.readable,
      ...MACHINE_FOLDERS,
      ...authorities,
    ];
  }
}

/** @throws ExecutorFault when the job is no suite */
function readSuite(job: Job): SuiteJob & { environmentVariables?: { key: string; value: string }[] | null } {
  const parsed = SuiteJob.safeParse(job.spec);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new ExecutorFault(
      'INVALID_CHECK',
      `the check's definition is not valid: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trimEnd(),
    );
  }
  const variables = Variables.safeParse(job.spec['environmentVariables']);
  return { ...parsed.data, environmentVariables: variables.data ?? null };
}

const Variables = z.array(z.object({ key: z.string(), value: z.string() })).nullish();

function proxyOf(registry: string, { httpsProxy, httpProxy }: PackageNetwork): string | null {
  const isPlain = registry.startsWith('http:');
  return (isPlain ? httpProxy : httpsProxy) ?? null;
}

/** Where installations get what they need when no setting says otherwise. */
const USUAL_SOURCES = {
  npm_registry: DEFAULT_REGISTRY,
  yarn_registry: 'https://registry.yarnpkg.com',
  playwright_download_host: 'https://cdn.playwright.dev',
};

/** Hosts of registries, mirrors and proxies in the form of a target policy. */
function targetsOf(variables: Readonly<Record<string, string>>): string {
  const hosts = Object.entries(variables).flatMap(([name, value]) => {
    if (!/proxy|registry|download_host/i.test(name) || !URL.canParse(value)) return [];
    const { hostname, port, protocol } = new URL(value);
    return [`${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`];
  });
  return [...new Set(hosts)].join(' ');
}

/** Tokens and passwords for registries and proxies. */
function secretsIn(variables: Readonly<Record<string, string>>): string[] {
  return Object.entries(variables).flatMap(([name, value]) => {
    if (/_auth|token|password/i.test(name)) return [value];
    return URL.canParse(value)
      ? [decodeURIComponent(new URL(value).password)].filter((text) => text !== '')
      : [];
  });
}
