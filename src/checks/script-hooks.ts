/**
 * What a run knows of the scripts around its request. The measurement stays where it is; the user's code
 * runs in a process of its own, and only these values go there and back.
 */

/** The request as scripts see it. A header or query parameter that is there twice is one entry here. */
export interface ScriptRequest {
  method: string;
  url: string;
  body: string;
  headers: Record<string, string>;
  queryParameters: Record<string, string>;
}

/** The answer as teardown scripts see it. */
export interface ScriptResponse {
  statusCode: number;
  statusText: string;
  /** By lower-case name; a list where the field is repeated and cannot be joined. */
  headers: Record<string, unknown>;
  /** At most SCRIPT_DATA_BYTES of it. */
  body: string;
  timings: Record<string, number>;
  timingPhases: Record<string, number>;
}

/** An exception of user code. Paths are as the author knows them: `/script.js:12:3`. */
export interface ScriptError {
  /** One sentence, without stack. */
  message: string;
  stack?: string;
  /** Where in the user's files. */
  file?: string;
  line?: number;
  column?: number;
  /** From `expect.soft`. */
  soft?: boolean;
}

/** One entry of `jobLog` as the interface shows it. */
export interface ScriptLogLine {
  /** Epoch ms. */
  time: number;
  msg: string;
  level: 'DEBUG' | 'INFO' | 'WARN' | 'ERROR';
}

export interface PhaseQuestion {
  phase: 'setup' | 'teardown';
  request: ScriptRequest;
  /** Null in setup, and in teardown when no answer came. */
  response: ScriptResponse | null;
  /** What the phase before left; null before the first, which begins with the variables of the run. */
  env: Record<string, string> | null;
}

export interface PhaseAnswer {
  request: ScriptRequest;
  response: ScriptResponse | null;
  /** All variables after the scripts. */
  env: Record<string, string>;
  log: ScriptLogLine[];
  /** Why the phase ended early. */
  error: ScriptError | null;
}

export interface ScriptHooks {
  /**
   * Runs the scripts of a phase, in order: setup once, then teardown once.
   *
   * @throws AgentFault when they could not be run through a fault of this machine; the signal's reason
   */
  run(question: PhaseQuestion): Promise<PhaseAnswer>;
}

/** Of each body, and of all that a script leaves in `request` or `process.env`. */
export const SCRIPT_DATA_BYTES = 256 * 1024;
/** Each script of an API check. */
export const SCRIPT_LIMIT_MS = 10_000;
