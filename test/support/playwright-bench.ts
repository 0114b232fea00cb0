import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { EgressProxy } from '../../src/agent/egress/index.ts';
import { findRuntimes, type Runtime } from '../../src/agent/runtimes/index.ts';
import { removeFolder } from '../../src/agent/sandbox/index.ts';
import { ScriptRoom } from '../../src/agent/scripts/index.ts';
import type { TryReport } from '../../src/checks/execute.ts';
import type { Artifact, Job } from '../../src/contract/index.ts';
import { demoSite } from '../../src/cli/demo-site/index.ts';
import { createLog } from '../../src/kit/log.ts';
import { scriptJob } from './scripts.ts';
import { listenOn } from './targets/ports.ts';
import { temporaryFolder } from './temporary-folder.ts';

const MB = 1024 * 1024;

export interface ShownError {
  message: string;
  stack?: string;
  file?: string;
  line?: number;
  column?: number;
  soft?: boolean;
}
interface ShownStep {
  title: string;
  duration: number | null;
  error?: string;
  steps: ShownStep[];
}

/** The result's detail, as far as tests look at it. */
export interface Shown {
  errors: ShownError[];
  jobLog: { time: number; msg: string; level: string }[];
  jobAssets: string[];
  playwrightTestTraces: string[];
  playwrightTestVideos?: string[];
  playwrightTestJsonReportFile?: string;
  runtimeVersion: string;
  startTime: number;
  endTime: number;
  pages?: { url: string; webVitals: Record<string, { score: string; value: number }> }[];
  traceSummary?: Record<'consoleErrors' | 'networkErrors' | 'documentErrors' | 'userScriptErrors', number>;
  requests?: {
    method: string;
    url: string;
    status: number | null;
    duration: number | null;
    timings: Record<string, number>;
  }[];
  tests?: { title: string; status: string; duration: number | null; steps: ShownStep[] }[];
  certificate?: {
    domain: string;
    validTo: string | null;
    daysRemaining: number | null;
    error: string | null;
  };
}

export interface Ran {
  report: TryReport;
  /** `passed`, `degraded`, `failed`, `error`. */
  verdict: string;
  /** Why it failed, code and sentence each. */
  failures: string[];
  shown: Shown;
  /** `INFO text` each. */
  log: string[];
  /** Kept files by name, with their bytes. */
  files: Map<string, Buffer>;
  refused: readonly Artifact[];
}

export interface RunOptions {
  type?: 'BROWSER' | 'MULTI_STEP';
  timeoutMs?: number;
  /** Of the job. */
  more?: Partial<Job>;
  env?: Record<string, string>;
  [field: string]: unknown;
}

const ROOT = join(import.meta.dirname, '../..');

/**
 * Runs scripts of browser and multistep checks in an agent's own rooms, with real runtimes and walls. Whatever
 * they do, no result may show a path of this machine.
 */
export class PlaywrightBench implements AsyncDisposable {
  readonly #room: ScriptRoom;
  readonly #egress: EgressProxy;
  readonly #folder = temporaryFolder();
  readonly #ending = new AbortController();
  readonly #kept: Promise<void>;

  readonly #places: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** @param places runs at once */
  constructor(runtimes: readonly Runtime[], places = 2) {
    this.#places = places;
    const log = createLog({ level: 'silent', format: 'json', name: 'playwright' });
    this.#egress = new EgressProxy({
      setup: { useOsResolver: false, policy: { blocked: '', allowed: '' } },
      log,
      onLost: () => {},
    });
    this.#room = new ScriptRoom({
      dataDir: this.#folder.path,
      places: { browser: places, multistep: places, api: 0 },
      memoryOf: (kind) => (kind === 'browser' ? 1536 : 768) * MB,
      mayWarm: (kind) => kind !== 'api',
      egress: this.#egress,
      extraCaCerts: undefined,
      ownSecrets: [],
      folderOf: (id) => join(this.#folder.path, 'kept', id),
      log,
      events: { onChange: () => {}, onEnded: () => {} },
      findRuntimes: () => runtimes,
    });
    this.#kept = this.#room.keep(this.#ending.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#kept;
    await this.#egress.stop();
    await removeFolder(this.#folder.path);
  }

  async run(script: string, options: RunOptions = {}): Promise<Ran> {
    const { type = 'MULTI_STEP', timeoutMs = 30_000, more = {}, env = {}, ...spec } = options;
    const own = Object.entries(env).map(([key, value]) => ({ key, value }));
    const environmentVariables = [...own, ...((spec['environmentVariables'] as object[] | undefined) ?? [])];
    const job = scriptJob(type, script, { ...spec, environmentVariables }, { timeoutMs, ...more });
    const finished = await this.#inPlace(() => this.#room.run(job, new AbortController().signal));
    const { report, files, refused } = finished!;
    const shown = Object.values(report.detail)[0] as Shown;
    const kept = files.flatMap(({ name, path }) =>
      existsSync(path) ? [[name, readFileSync(path)] as const] : [],
    );
    this.#lookForPaths([report, ...kept.filter(([name]) => name === 'report.json').map(String)]);
    return {
      report,
      verdict: verdictOf(report),
      failures: report.errors.map(({ code, message }) => `${code} ${message}`),
      shown,
      log: shown.jobLog.map(({ level, msg }) => `${level} ${msg}`),
      files: new Map(kept),
      refused,
    };
  }

  async #inPlace<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#places) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#running++;
    try {
      return await work();
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  #lookForPaths(shown: unknown): void {
    const text = JSON.stringify(shown);
    for (const path of [ROOT, this.#folder.path]) {
      const at = text.indexOf(path);
      if (at >= 0)
        throw new Error(`a path of this machine is shown: ${text.slice(Math.max(0, at - 100), at + 200)}`);
    }
  }
}

/** A bench for the tests of one file, and the demo shop for its pages. */
export function usePlaywright(places?: number): { run: PlaywrightBench['run']; site: () => string } {
  const server = createServer(demoSite());
  let bench: PlaywrightBench;
  let site = '';
  beforeAll(async () => {
    bench = new PlaywrightBench(findRuntimes(), places);
    site = `http://127.0.0.1:${await listenOn(server)}`;
  });
  afterAll(async () => {
    await bench[Symbol.asyncDispose]();
    server.close();
    server.closeAllConnections();
  });
  const run = (script: string, options?: RunOptions): Promise<Ran> =>
    bench.run(script, { ...options, env: { SITE_URL: site, ...options?.env } });
  return { run, site: () => site };
}

function verdictOf({ flags }: TryReport): string {
  if (flags.hasErrors) return 'error';
  if (flags.hasFailures) return 'failed';
  return flags.isDegraded ? 'degraded' : 'passed';
}
