import { ZodError } from 'zod';
import type { RunResult } from '../contract/results.ts';
import { monoMs, wallMs } from '../kit/clock.ts';
import {
  AgentFault,
  type CheckType,
  type Outcome,
  type RunContext,
  TIMEOUT_DOUBT_MS,
  TimeLimit,
} from './check-type.ts';
import { warmTls } from './http-probe/index.ts';
import { Limiter } from './limiter.ts';
import { type Delays, LoopDelay, type Stopwatch } from './loop-delay.ts';
import { findCheckType } from './registry.ts';
import type { Resolver } from './resolve.ts';
import { createResolver, type ResolverOptions } from './resolver/index.ts';
import type { ScriptHooks } from './script-hooks.ts';
import { parsePolicy, type TargetPolicy } from './target-policy/index.ts';
import { roundMs } from './verdict.ts';

/** What all checks of one process share. Made once by the process that runs them. */
export interface Environment {
  readonly resolver: Resolver;
  readonly targets: TargetPolicy;
  readonly handshakes: Limiter;
  readonly loopDelay: LoopDelay;
  readonly noProxy: string;
}

/** One try of a check: the check type's name, its definition as the service stores it, its limits. */
export interface ExecuteJob {
  checkType: string;
  spec: unknown;
  timeoutMs: number;
  /** Proxy for HTTP targets; null without. */
  proxyUrl: string | null;
}

/** A result without the names that only the one who holds the lease knows. */
export type TryReport = Omit<
  RunResult,
  'resultId' | 'runId' | 'sequenceId' | 'token' | 'attempt' | 'artifacts'
>;

/** At once per process. Of 64 checks started together each takes 7 ms with 4, 13 with 8, 70 without a limit. */
const HANDSHAKES = 4;
/** A runner that does not stop this long after its time is up is left behind, ms. */
const STOP_GRACE_MS = 1000;
/** How often a try is made again because this process was too slow to judge it. */
const MAX_REPEATS = 2;

export interface EnvironmentOptions extends ResolverOptions {
  /** BLOCKED_TARGETS and ALLOWED_TARGETS as they were set. */
  policy?: { blocked: string; allowed: string } | undefined;
  /** Targets that the proxy of a location is not for. */
  noProxy?: string;
}

/** @throws RangeError when a name server or an entry of the policy is not one */
export function createEnvironment(options: EnvironmentOptions): Environment {
  const { blocked, allowed } = options.policy ?? { blocked: '', allowed: '' };
  warmTls();
  return {
    resolver: createResolver(options),
    targets: parsePolicy(blocked, allowed),
    handshakes: new Limiter(HANDSHAKES),
    loopDelay: new LoopDelay(),
    noProxy: options.noProxy ?? '',
  };
}

/**
 * Runs one try and reports it. Never throws: a failing target sets `hasFailures`, a fault of the agent
 * `hasErrors`, an abort of `signal` `isCancelled`. A verdict that only the time decides, and that this
 * process' own delays may have changed, is not believed: the check runs again, at most twice and within
 * the time of the one try. With scripts it does not, since what they did would be done twice.
 *
 * @param scripts runs the scripts around the request, when the check has any
 */
export async function execute(
  job: ExecuteJob,
  environment: Environment,
  signal: AbortSignal,
  scripts: ScriptHooks | null = null,
): Promise<TryReport> {
  const startedAt = new Date(wallMs()).toISOString();
  const startedMs = monoMs();
  let delays: Delays = { maxMs: 0, totalMs: 0 };
  const report = (found: Found): TryReport => ({
    startedAt,
    stoppedAt: new Date(wallMs()).toISOString(),
    ...found.report,
    measured: {
      eventLoopDelayMs: roundMs(delays.maxMs),
      resolvedAddress: found.resolvedAddress,
    },
  });
  const type = findCheckType(job.checkType);
  if (type === undefined) return report(faulty(unknownType(job.checkType)));
  for (let repeat = 0; ; repeat++) {
    const tryStartedMs = monoMs();
    const remainingMs = job.timeoutMs - (tryStartedMs - startedMs);
    const stopwatch = environment.loopDelay.stopwatch();
    const context = {
      ...environment,
      proxyUrl: job.proxyUrl,
      scripts: scripts && unmeasured(scripts, stopwatch),
    };
    const ended = await attempt(type, job, context, signal, Math.max(remainingMs, 1));
    delays = stopwatch.stop();
    if (signal.aborted) return report(cancelled());
    if ('fault' in ended) return report(faulty(ended.fault, type));
    // A repeat has less time than the check is entitled to, so it cannot prove that it took too long.
    const doubtful = isDistorted(ended.outcome, delays) || (repeat > 0 && isTimeout(ended.outcome));
    if (!doubtful) return report(judged(ended.outcome, type));
    const now = monoMs();
    const lastsMs = now - tryStartedMs;
    if (scripts !== null || repeat === MAX_REPEATS || job.timeoutMs - (now - startedMs) < 2 * lastsMs) {
      return report(faulty(overloaded(delays, ended.outcome), type));
    }
  }
}

type Ended = { outcome: Outcome } | { fault: unknown };

interface Found {
  report: Omit<TryReport, 'startedAt' | 'stoppedAt' | 'measured'>;
  resolvedAddress: string | null;
}

/** One run of the runner, stopped when its time is up or the run is cancelled. */
async function attempt(
  type: CheckType,
  job: ExecuteJob,
  context: Omit<RunContext, 'signal'>,
  cancel: AbortSignal,
  limitMs: number,
): Promise<Ended> {
  const stop = new AbortController();
  const onCancel = (): void => stop.abort(cancel.reason);
  const { promise: overdue, resolve: giveUp } = Promise.withResolvers<Ended>();
  let grace: NodeJS.Timeout | undefined;
  const timer = setTimeout(() => stop.abort(new TimeLimit(job.timeoutMs)), limitMs);
  stop.signal.addEventListener('abort', () => {
    grace = setTimeout(() => giveUp({ outcome: timedOut(job.timeoutMs) }), STOP_GRACE_MS);
  });
  cancel.addEventListener('abort', onCancel, { once: true });
  if (cancel.aborted) onCancel();
  try {
    const ran = type.run(job.spec, { ...context, signal: stop.signal }).then(
      (outcome): Ended => ({ outcome }),
      (fault: unknown): Ended =>
        fault instanceof TimeLimit ? { outcome: timedOut(job.timeoutMs) } : { fault },
    );
    return await Promise.race([ran, overdue]);
  } finally {
    clearTimeout(timer);
    clearTimeout(grace);
    cancel.removeEventListener('abort', onCancel);
  }
}

/** While scripts run elsewhere, nothing is measured here that a delay could spoil. */
function unmeasured(scripts: ScriptHooks, stopwatch: Stopwatch): ScriptHooks {
  return { run: (question) => stopwatch.pausedWhile(() => scripts.run(question)) };
}

/** For runners that say nothing better themselves. */
function timedOut(limitMs: number): Outcome {
  const message = `the check was not finished within ${limitMs} ms`;
  return {
    verdict: 'failed',
    overMaxResponseTime: false,
    responseTimeMs: null,
    failures: [{ code: 'TIMEOUT', message, network: true }],
    lateByMs: TIMEOUT_DOUBT_MS,
    phases: {},
    statusCode: null,
    resolvedAddress: null,
    detail: {},
  };
}

function isDistorted({ verdict, lateByMs }: Outcome, { totalMs }: Delays): boolean {
  return verdict !== 'passed' && typeof lateByMs === 'number' && totalMs > 0 && lateByMs <= totalMs;
}

const isTimeout = ({ failures }: Outcome): boolean => failures.some(({ code }) => code === 'TIMEOUT');

function overloaded({ totalMs }: Delays, outcome: Outcome): AgentFault {
  const delay = Math.round(totalMs);
  const message = `this agent was too busy to judge the target: its own delays of ${delay} ms may be why the answer was late`;
  return new AgentFault('AGENT_OVERLOADED', message, outcome.detail);
}

function unknownType(name: string): AgentFault {
  return new AgentFault('UNKNOWN_CHECK_TYPE', `this agent does not run checks of type ${name}`);
}

function judged(outcome: Outcome, type: CheckType): Found {
  const { verdict, overMaxResponseTime, responseTimeMs, failures, phases, statusCode } = outcome;
  return {
    report: {
      responseTimeMs: responseTimeMs === null ? null : roundMs(responseTimeMs),
      flags: {
        hasFailures: verdict === 'failed',
        hasErrors: false,
        isDegraded: verdict === 'degraded',
        isCancelled: false,
        overMaxResponseTime,
      },
      errors: failures,
      phases,
      statusCode,
      detail: { [type.resultField]: outcome.detail },
    },
    resolvedAddress: outcome.resolvedAddress,
  };
}

function cancelled(): Found {
  return withoutVerdict('isCancelled', [], {});
}

/** @param fault whatever was thrown; only its sentence is shown, never where in our code it happened */
function faulty(fault: unknown, type?: CheckType): Found {
  const { code, message } = explain(fault);
  const detail = type && fault instanceof AgentFault ? { [type.resultField]: fault.detail } : {};
  return withoutVerdict('hasErrors', [{ code, message, network: false }], detail);
}

function withoutVerdict(
  flag: 'hasErrors' | 'isCancelled',
  errors: TryReport['errors'],
  detail: TryReport['detail'],
): Found {
  const flags = {
    hasFailures: false,
    hasErrors: false,
    isDegraded: false,
    isCancelled: false,
    overMaxResponseTime: false,
    [flag]: true,
  };
  return {
    report: { responseTimeMs: null, flags, errors, phases: {}, statusCode: null, detail },
    resolvedAddress: null,
  };
}

function explain(fault: unknown): { code: string; message: string } {
  if (fault instanceof AgentFault) return fault;
  if (fault instanceof ZodError) {
    const [issue] = fault.issues;
    const field = issue?.path.map(String).join('.') ?? '';
    return {
      code: 'INVALID_CHECK',
      message: `the check's definition is not valid: ${field} ${issue?.message ?? ''}`.trimEnd(),
    };
  }
  const kind = fault instanceof Error ? fault.name : typeof fault;
  return { code: 'AGENT_FAULT', message: `the agent itself failed while it ran the check (${kind})` };
}
