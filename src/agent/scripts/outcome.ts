import type { TryReport } from '../../checks/execute.ts';
import type { OpenGate, Refusal } from '../egress/index.ts';
import type { Child } from '../sandbox/index.ts';
import type { ScriptError, FromScript } from './protocol.ts';
import type { EarlyEnd } from './script-child.ts';

export type Done = Extract<FromScript, { t: 'done' }>;
export type Leaving = Extract<FromScript, { t: 'leaving' }>;

/** How a job came to its end. */
export type JobEnd = { how: 'done'; done: Done } | { how: 'overdue' } | EarlyEnd;

/** What the end says about the check. */
export interface Judged {
  /** `error`: this machine is at fault, and nothing is known about the target. */
  verdict: 'passed' | 'degraded' | 'failed' | 'error';
  /** As the result's detail shows them. */
  errors: ScriptError[];
  failures: TryReport['errors'];
  /** Only the clock was against it: the agent's own slowness may be why. */
  isLate: boolean;
}

export interface JobFacts {
  timeoutMs: number;
  heapMb: number;
  memoryBytes: number;
  processes: number;
  diskBytes: number;
  shouldFail: boolean;
  /** Of its way to targets; null where it goes there directly. */
  gate: Pick<OpenGate, 'refusals' | 'wasInterrupted'> | null;
  /** What the script was about to do when its process ended. */
  leaving: Leaving | undefined;
}

/** Transport failures as Node and Chromium name them: what `onlyOn: NETWORK_ERROR` retries. */
const NETWORK =
  /\b(ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|socket hang up)\b|net::ERR_(CONNECTION|NAME_|ADDRESS_|TIMED_OUT|EMPTY_RESPONSE|TUNNEL|PROXY|SOCK|NETWORK|INTERNET|SSL|CERT)/;
const LATE = /\bnot finished within\b|\btime(d)?[ -]?out\b|\bTimeoutError\b|\bexceeded while\b/i;

/** Code of a result that says nothing about its target, since this machine was too slow. */
export const OVERLOADED = 'AGENT_OVERLOADED';

/** A time that ran out proves nothing when this machine stood still for a good part of it. */
export function judge(end: JobEnd, facts: JobFacts, isStarved: boolean): Judged {
  const judged = bounded(withGate(judgeEnd(end, facts), end, facts));
  if (!judged.isLate || !isStarved) return judged;
  const message =
    'this agent was too busy to judge the target: its own delays may be why the time of the script ran out';
  return { ...judged, verdict: 'error', failures: [failureOf(OVERLOADED, message)] };
}

/**
 * A script that failed for want of what this agent keeps from it says nothing about the target. Of a browser
 * only what its script names: what else was on a page may be missing without harm, and does not hide that a
 * target is down.
 */
function withGate(judged: Judged, end: JobEnd, { gate }: JobFacts): Judged {
  const hasFailed = judged.verdict === 'failed' || (end.how === 'done' && end.done.verdict !== 'passed');
  if (gate === null || judged.verdict === 'error' || !hasFailed) return judged;
  const named = ({ sentence }: Refusal): boolean =>
    judged.errors.some((each) => each.message.includes(sentence));
  const reason = gate.refusals.find((refusal) => refusal.by === 'script' || named(refusal));
  if (reason !== undefined) return keptBy(reason.code, reason.sentence, judged);
  if (gate.wasInterrupted) {
    const message =
      'the connections of the script were cut: the egress process of this agent ended meanwhile';
    return keptBy('EGRESS_FAULT', message, judged);
  }
  const [missing] = gate.refusals;
  const [failure, ...others] = judged.failures;
  if (missing === undefined || failure === undefined) return judged;
  const message = `${failure.message} (meanwhile ${missing.sentence})`;
  return { ...judged, failures: [{ ...failure, message }, ...others] };
}

const keptBy = (code: string, message: string, { errors }: Judged): Judged => ({
  verdict: 'error',
  errors,
  failures: [{ code, message, network: false }],
  isLate: false,
});

/** User code may throw texts of any length, any number of times. */
const MAX_ERRORS = 20;
const MAX_TEXT_CHARS = 4_000;

function bounded(judged: Judged): Judged {
  const errors = judged.errors.slice(0, MAX_ERRORS).map(boundedError);
  const failures = judged.failures
    .slice(0, MAX_ERRORS)
    .map((failure) => ({ ...failure, message: cut(failure.message) }));
  return { ...judged, errors, failures };
}

/** As a result shows it. Secrets in it have to be masked before. */
export const boundedError = (error: ScriptError): ScriptError => ({
  ...error,
  message: cut(error.message),
  ...(error.stack === undefined ? {} : { stack: cut(error.stack) }),
  ...(error.file === undefined ? {} : { file: cut(error.file) }),
});

const cut = (text: string): string =>
  text.length > MAX_TEXT_CHARS ? `${text.slice(0, MAX_TEXT_CHARS)}…` : text;

function judgeEnd(end: JobEnd, facts: JobFacts): Judged {
  if (end.how === 'done') return judgeDone(end.done, facts);
  if (end.how === 'overdue') return timedOut([], facts);
  if (end.how === 'broken') {
    return ended('CHANNEL', `the script wrote to file descriptor 3, which belongs to the agent (${end.why})`);
  }
  if (end.how === 'exceeded') return overLimit(end.what, facts);
  return exited(end.exit, facts);
}

function judgeDone({ verdict, errors, degraded }: Done, facts: JobFacts): Judged {
  if (verdict === 'timed_out') return timedOut(errors, facts);
  const failed = verdict === 'failed';
  if (failed === facts.shouldFail) {
    const isDegraded = !failed && degraded.length > 0;
    return { verdict: isDegraded ? 'degraded' : 'passed', errors, failures: [], isLate: false };
  }
  if (!failed) return ended('SHOULD_FAIL', 'the script passed, but this check is meant to fail');
  const shown = errors.length > 0 ? errors : [{ message: 'the script failed without an error' }];
  return {
    verdict: 'failed',
    errors: shown,
    failures: shown.map((error) => failureOf('SCRIPT_ERROR', sentenceOf(error))),
    isLate: shown.some(({ message }) => LATE.test(message)),
  };
}

function timedOut(errors: ScriptError[], { timeoutMs }: JobFacts): Judged {
  const message = `the script was not finished within ${timeoutMs / 1000} s`;
  return {
    verdict: 'failed',
    errors: errors.length > 0 ? errors : [{ message }],
    failures: [failureOf('TIMEOUT', message), ...errors.map((e) => failureOf('SCRIPT_ERROR', sentenceOf(e)))],
    isLate: true,
  };
}

const MB = 1024 * 1024;

function overLimit(what: Awaited<Child['exceeded']>, facts: JobFacts): Judged {
  const { memoryBytes, processes, diskBytes } = facts;
  switch (what) {
    case 'memory':
      return ended(
        'MEMORY_LIMIT',
        `the run took more memory than the ${Math.round(memoryBytes / MB)} MB that it may have`,
      );
    case 'processes':
      return ended(
        'PROCESS_LIMIT',
        `the run started more processes than the ${processes} that it may have at once`,
      );
    case 'disk':
      return ended(
        'DISK_LIMIT',
        `the run wrote more than the ${Math.round(diskBytes / MB)} MB that its files may have`,
      );
  }
}

function exited(exit: Extract<EarlyEnd, { how: 'exited' }>['exit'], facts: JobFacts): Judged {
  const { leaving, heapMb } = facts;
  if (leaving !== undefined) {
    return {
      ...ended('PROCESS_EXIT', `the script ended its process with ${leaving.call}${placeOf(leaving.error)}`),
      errors: [leaving.error],
    };
  }
  if (exit.cause === 'out_of_memory') {
    return ended('OUT_OF_MEMORY', `the script ran out of memory: its JavaScript heap may have ${heapMb} MB`);
  }
  if (exit.cause === 'not_started') {
    return ourFault('SCRIPT_START', 'the process for the script could not be started');
  }
  if (exit.signal === 'SIGKILL') {
    return ourFault(
      'KILLED_BY_SYSTEM',
      'the system ended the process of the script, most likely because this machine ran out of memory',
    );
  }
  const how = exit.signal === null ? `exit code ${exit.code}` : `signal ${exit.signal}`;
  return ended('PROCESS_EXIT', `the process of the script ended by itself, with ${how}`);
}

function ended(code: string, message: string): Judged {
  return { verdict: 'failed', errors: [{ message }], failures: [failureOf(code, message)], isLate: false };
}

function ourFault(code: string, message: string): Judged {
  return { verdict: 'error', errors: [], failures: [failureOf(code, message)], isLate: false };
}

function failureOf(code: string, message: string): TryReport['errors'][number] {
  return { code, message, network: NETWORK.test(message) };
}

/** The message with the place in the author's file, unless it names the place already. */
function sentenceOf(error: ScriptError): string {
  const place = placeOf(error);
  return error.message.includes(place.trim()) ? error.message : `${error.message}${place}`;
}

function placeOf({ file, line, column }: ScriptError): string {
  if (file === undefined) return '';
  return ` (${[file, line, column].filter((part) => part !== undefined).join(':')})`;
}
