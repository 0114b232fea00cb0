/**
 * What the agent and a script child say to one another, as lines of JSON on file descriptor 3. The
 * child runs user code and may be made to say anything: the agent reads every line strictly and bounded,
 * and nothing of it leaves without the scrubber. The child's side runs under the Node of a runtime, so
 * this file has types only.
 *
 * One child, one job: `warm` → ready → `run` or a setup and a teardown `phase` → done → the child is ended.
 */

import type { ScriptError, ScriptRequest, ScriptResponse } from '../../checks/script-hooks.ts';

export type { ScriptError, ScriptRequest, ScriptResponse };

/** Lives in a runtime's process: its folder, its proxy, what is known before any job. */
export interface WarmUp {
  t: 'warm';
  /** `playwright` serves BROWSER and MULTI_STEP, `api` the scripts of one API check. */
  kind: 'playwright' | 'api';
  /** The job folder: the only one that can be written; cwd, HOME and TMPDIR. */
  folder: string;
  runtime: { id: string; modules: string; browsers: string };
  /** It waits for a job that is not there yet: whatever may be wanted is made ready. */
  isSpare: boolean;
  /** Everything the child connects to goes through it; null where every target may be reached. */
  proxy: { host: string; port: number } | null;
  /** Null where no browser may be started. */
  browser: {
    /** Chromium's own sandbox works inside ours. */
    sandbox: boolean;
    /** The whole Chromium can start here, and is what the job wants. */
    full: boolean;
  } | null;
}

/** One BROWSER or MULTI_STEP job. Its files lie in `<folder>/src` already. */
export interface RunScript {
  t: 'run';
  checkType: 'BROWSER' | 'MULTI_STEP';
  /** Path of the script below `<folder>/src`; shown to its author as `/<entry>`. */
  entry: string;
  /** Variables of the check and the built-in ones; nothing else is in process.env. */
  env: Record<string, string>;
  playwrightConfig: Record<string, unknown> | null;
  /** Wall clock for all of it, ms. The child tries to end with what it has before the agent ends it. */
  timeoutMs: number;
  /** Keep traces and videos of a passed run too. */
  keepArtifacts: boolean;
  sslCheckDomain: string | null;
  /** Full Chromium instead of the headless shell. */
  fullBrowser: boolean;
}

/** One script of an API check, or several in order: group setup, check setup. */
export interface RunPhase {
  t: 'phase';
  phase: 'setup' | 'teardown';
  scripts: { /** `group setup script` */ title: string; /** Below `<folder>/src`. */ entry: string }[];
  env: Record<string, string>;
  request: ScriptRequest;
  /** Null in setup. */
  response: ScriptResponse | null;
  /** For each script, ms. */
  timeoutMs: number;
}

export type ToScript = WarmUp | RunScript | RunPhase;

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** A file below the job folder that the run leaves behind. */
export interface LeftFile {
  /** Relative to the job folder. */
  path: string;
  kind: 'log' | 'trace' | 'video' | 'screenshot' | 'snapshot' | 'report' | 'file';
  /** How the result calls it: `screenshots/after-login.png`. */
  name: string;
}

/** What a job found out so far. Sent again when something was added; the last one counts, also of a child that was ended. */
export interface Findings {
  t: 'findings';
  /** Members of the type's result object: pages, traceSummary, steps, requests, …; JSON. */
  detail: Record<string, unknown>;
  files: LeftFile[];
}

export type FromScript =
  /** Warm: a job begins at once. */
  | { t: 'ready' }
  | { t: 'log'; at: number; level: LogLevel; text: string }
  /** A value that became secret while the script ran; sent before anything that may contain it. */
  | { t: 'secret'; value: string }
  | Findings
  | {
      t: 'done';
      /** Wall clock of the user's part, epoch ms. */
      startTime: number;
      endTime: number;
      verdict: 'passed' | 'failed' | 'timed_out';
      errors: ScriptError[];
      /** Reasons given to markCheckAsDegraded. */
      degraded: string[];
    }
  | {
      t: 'phase-done';
      phase: 'setup' | 'teardown';
      error: ScriptError | null;
      /** process.env after the scripts. */
      env: Record<string, string>;
      request: ScriptRequest;
      response: ScriptResponse | null;
    }
  /** User code is about to end the process: which call, and where. Written synchronously. */
  | { t: 'leaving'; call: string; code: number; error: ScriptError };
