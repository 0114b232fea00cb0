import type { z } from 'zod';
import type { Resolver } from './resolve.ts';
import type { Limiter } from './limiter.ts';
import type { PhaseScripts } from './api-scripts.ts';
import type { ScriptHooks } from './script-hooks.ts';
import type { TargetPolicy } from './target-policy/index.ts';

/** What a runner may touch. No globals, no process.env, no child processes but through `ping`. */
export interface RunContext {
  /** Aborts when the run is cancelled or its time is up. */
  readonly signal: AbortSignal;
  /** Proxy for HTTP targets, or null. */
  readonly proxyUrl: string | null;
  /** Targets that are reached without it, as in NO_PROXY. */
  readonly noProxy?: string;
  readonly resolver: Resolver;
  /** What may be connected to; asked with every address, right before. */
  readonly targets: TargetPolicy;
  /** Bounds TLS handshakes under way in this process: 64 at once would add 33–56 ms to each. */
  readonly handshakes: Limiter;
  /** Runs the scripts around an API check's request; null where nothing can. */
  readonly scripts: ScriptHooks | null;
}

/**
 * What a run needs of the machine: `light` runs share a probe process, `script` runs get a process of
 * their own (about 150 MB), `browser` runs a process tree with a browser (about 1.5 GB), `suite` runs one
 * with several browsers and a package manager (about 4 GB).
 */
export type JobClass = 'light' | 'script' | 'browser' | 'suite';

export interface Failure {
  /** Stable word: `ECONNREFUSED`, `ASSERTION`, `MAX_RESPONSE_TIME`, … */
  code: string;
  /** One sentence for a person. */
  message: string;
  /** A transport failure: what `onlyOn: NETWORK_ERROR` retries. */
  network: boolean;
}

/** What one try found out about its target. */
export interface Outcome {
  verdict: 'passed' | 'degraded' | 'failed';
  overMaxResponseTime: boolean;
  /** ms; null when nothing answered. */
  responseTimeMs: number | null;
  /** Empty unless failed. */
  failures: Failure[];
  /**
   * By how much, ms, the answer was late for a better verdict: a busy agent may have made it so. Null
   * or absent where time is not the reason.
   */
  lateByMs?: number | null;
  /** Durations in ms. */
  phases: Record<string, number>;
  statusCode: number | null;
  /** Address that was contacted. */
  resolvedAddress: string | null;
  /** The type's result object, as the REST interface shows it. */
  detail: Record<string, unknown>;
}

/**
 * Thrown by a runner when the agent, not the target, is at fault: no working resolver, no permission
 * for ICMP, a network that is down here. The result gets `hasErrors`, never `hasFailures`.
 */
export class AgentFault extends Error {
  readonly code: string;
  /** What was learned before, shown with the result. */
  readonly detail: Record<string, unknown>;
  constructor(code: string, message: string, detail: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(message, options);
    this.name = 'AgentFault';
    this.code = code;
    this.detail = detail;
  }
}

/** Reason of the run's signal when the time of the try is up; any other reason is a cancelled run. */
export class TimeLimit extends Error {
  readonly limitMs: number;
  constructor(limitMs: number) {
    super(`not finished within ${limitMs} ms`);
    this.name = 'TimeLimit';
    this.limitMs = limitMs;
  }
}

/** `lateByMs` of a try that timed out: a process that stood still for so long may have missed the answer. */
export const TIMEOUT_DOUBT_MS = 1000;

export interface Runner<Spec> {
  run(spec: Spec, context: RunContext): Promise<Outcome>;
}

export interface Definition<Fields extends z.ZodObject> {
  /** Name in the interface: `TCP`. */
  name: string;
  /** Path segment of `/v1/checks/{route}`. */
  route: string;
  /** How the agent executes it: in a shared probe, one script process, or one process tree per run. */
  lane: 'probe' | 'script' | 'suite';
  /** `ping`: its process may use native code and start the ping program. */
  needs?: 'ping';
  /** Member of a check result that holds the detail. */
  resultField: `${string}CheckResult`;
  /** The fields that only this type has, with defaults and bounds; unknown fields are refused. */
  fields: Fields;
  /** Longest time one try may take, ms, on top of nothing: the agent kills the try then. */
  timeoutMs(spec: z.infer<Fields> & Partial<CommonSpec>): number;
  /** What one run needs; `light` for the lane `probe` and `browser` for others when absent. */
  jobClass?(spec: z.infer<Fields> & Partial<CommonSpec>): JobClass;
  /** What no single field can say: which field, and what is wrong with it. */
  problems?(spec: z.infer<Fields>): [field: string, message: string][];
  /** Loaded by the probe only, so that the service never loads network code. Absent in other lanes. */
  runner?(): Promise<Runner<z.infer<Fields> & CommonSpec>>;
}

/** The common fields that a runner needs besides its own; what groups and snippets add is in them. */
export interface CommonSpec {
  shouldFail: boolean;
  /** Merged: check before group before account. */
  environmentVariables?: readonly { key: string; value: string; secret?: boolean }[] | null | undefined;
  /** Scripts of the check's group. */
  groupScripts?: PhaseScripts | null | undefined;
  /** The code behind the check's setupSnippetId and tearDownSnippetId. */
  snippetScripts?: PhaseScripts | null | undefined;
  /** Code by the snippet's name, for `./snippets/NAME.js`. */
  snippets?: Readonly<Record<string, string>> | null | undefined;
  /** Chosen by check, group or account. */
  runtimeId?: string | null | undefined;
}

/** A check type with its own types closed over: callers hold `unknown`, never a cast. */
export interface CheckType {
  readonly name: string;
  readonly route: string;
  readonly lane: 'probe' | 'script' | 'suite';
  readonly needs: 'ping' | null;
  readonly resultField: `${string}CheckResult`;
  readonly fields: z.ZodObject;
  timeoutMs(spec: unknown): number;
  jobClass(spec: unknown): JobClass;
  problems(spec: unknown): [field: string, message: string][];
  /** @throws AgentFault, or a ZodError when the spec is not this type's */
  run(spec: unknown, context: RunContext): Promise<Outcome>;
}

export function defineCheckType<Fields extends z.ZodObject>(def: Definition<Fields>): CheckType {
  const own = def.fields.strip();
  let runner: Promise<Runner<z.infer<Fields> & CommonSpec>> | undefined;
  return {
    name: def.name,
    route: def.route,
    lane: def.lane,
    needs: def.needs ?? null,
    resultField: def.resultField,
    fields: def.fields,
    timeoutMs: (spec) => def.timeoutMs({ ...(own.parse(spec) as z.infer<Fields>), ...commonOf(spec) }),
    jobClass: (spec) =>
      def.jobClass?.({ ...(own.parse(spec) as z.infer<Fields>), ...commonOf(spec) }) ??
      (def.lane === 'probe' ? 'light' : 'browser'),
    problems: (spec) => {
      // What is wrong with single fields has been said by then.
      const parsed = own.safeParse(spec);
      return parsed.success ? (def.problems?.(parsed.data as z.infer<Fields>) ?? []) : [];
    },
    run: async (spec, context) => {
      if (def.runner === undefined) {
        throw new AgentFault('UNSUPPORTED', `checks of type ${def.name} do not run in a probe process`);
      }
      runner ??= def.runner();
      const fields = own.parse(spec) as z.infer<Fields>;
      return (await runner).run({ ...fields, ...commonOf(spec) }, context);
    },
  };
}

function commonOf(spec: unknown): CommonSpec {
  const { shouldFail, environmentVariables, groupScripts, snippetScripts, snippets, runtimeId } =
    spec as Partial<CommonSpec>;
  return {
    shouldFail: shouldFail === true,
    environmentVariables: environmentVariables ?? null,
    groupScripts: groupScripts ?? null,
    snippetScripts: snippetScripts ?? null,
    snippets: snippets ?? null,
    runtimeId: runtimeId ?? null,
  };
}
