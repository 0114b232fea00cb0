import { wallMs } from '../../kit/clock.ts';
import { AgentFault, type Failure, type Outcome, type RunContext, TimeLimit } from '../check-type.ts';
import {
  type Aftermath,
  filledAssertions,
  type HttpMonitor,
  monitorOf,
  runMonitor,
  stoppedInSetup,
} from '../http-probe/index.ts';
import { cut } from '../preview.ts';
import {
  type PhaseAnswer,
  SCRIPT_DATA_BYTES,
  type ScriptError,
  type ScriptHooks,
  type ScriptLogLine,
  type ScriptRequest,
  type ScriptResponse,
} from '../script-hooks.ts';
import { type Variables, variablesOf } from '../templates.ts';
import { draftOf, draftProblem } from './draft.ts';
import type { ApiSpec } from './run.ts';
import { REQUEST_LIMIT_MS } from './spec.ts';

/** Of each phase: two logs, two bodies and the rest fit a result of 1 MiB. */
const MAX_LOG_CHARS = 100_000;
/** A body that was cut is shorter than the limit by less than this. */
const MAX_CHARACTER_BYTES = 4;

/**
 * Setup, then the request from what setup left, then teardown, then the verdict. A setup that fails ends
 * the run; a teardown that fails fails it too, after everything else was judged. Teardown also runs when no
 * answer came: what setup made may have to be removed.
 */
export async function runScripted(spec: ApiSpec, context: RunContext): Promise<Outcome> {
  const { scripts } = context;
  if (scripts === null) {
    throw new AgentFault('SCRIPTS_UNAVAILABLE', 'the scripts of the check cannot be run here');
  }
  const draft = draftOf(spec.request, variablesOf(spec.environmentVariables));
  const setup = await scripts.run({ phase: 'setup', request: draft.seen, response: null, env: null });
  const variables = variablesIn(setup);
  const monitor = monitorOf(draft.finish(setup.request), spec, variables);
  const setupLog = boundedLog(setup, cutNote('request.body', draft.seen.body));
  const problem = setup.error === null ? draftProblem(setup.request) : sentenceOf(setup.error);
  if (problem !== null) {
    return stoppedInSetup(monitor, { code: 'SETUP_SCRIPT', message: problem, network: false }, setupLog);
  }
  const teardown = (response: ScriptResponse | null): Promise<Aftermath> =>
    tearDown(scripts, spec, requestSent(monitor), response, setup.env);
  return withinRequestLimit(context, (limited) => runMonitor(monitor, limited, { setupLog, teardown }));
}

async function tearDown(
  scripts: ScriptHooks,
  spec: ApiSpec,
  request: ScriptRequest,
  response: ScriptResponse | null,
  env: Record<string, string>,
): Promise<Aftermath> {
  const answer = await scripts.run({ phase: 'teardown', request, response, env });
  const body = answer.response?.body;
  const failures: Failure[] =
    answer.error === null
      ? []
      : [{ code: 'TEARDOWN_SCRIPT', message: sentenceOf(answer.error), network: false }];
  return {
    body: body === undefined || body === response?.body ? null : cut(body, SCRIPT_DATA_BYTES),
    assertions: filledAssertions(spec.request.assertions, variablesIn(answer)),
    failures,
    log: boundedLog(answer, cutNote('response.body', response?.body)),
  };
}

const variablesIn = ({ env }: PhaseAnswer): Variables => new Map(Object.entries(env));

/** The request as it went out; scripts of the check may know its credentials. */
function requestSent({ request, shown }: HttpMonitor): ScriptRequest {
  return {
    method: shown.method,
    url: request?.url.href ?? shown.url,
    body: cut(request?.body?.toString('utf8') ?? '', SCRIPT_DATA_BYTES),
    headers: Object.fromEntries(request?.headers ?? []),
    queryParameters: shown.params,
  };
}

/** The time of the whole run has room for the scripts; the request has its own. */
async function withinRequestLimit<T>(
  context: RunContext,
  work: (limited: RunContext) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(new TimeLimit(REQUEST_LIMIT_MS)), REQUEST_LIMIT_MS);
  try {
    return await work({ ...context, signal: AbortSignal.any([context.signal, stop.signal]) });
  } finally {
    clearTimeout(timer);
  }
}

/** The message with the place in the author's file, unless it names the place already. */
function sentenceOf({ message, file, line, column }: ScriptError): string {
  const place = [file, line, column].filter((part) => part !== undefined).join(':');
  return file === undefined || message.includes(place) ? message : `${message} (${place})`;
}

function cutNote(what: string, body = ''): ScriptLogLine[] {
  if (Buffer.byteLength(body) < SCRIPT_DATA_BYTES - MAX_CHARACTER_BYTES) return [];
  return [line('WARN', `${what} is cut: scripts see the first ${SCRIPT_DATA_BYTES / 1024} kB of it`)];
}

function boundedLog({ log, error }: PhaseAnswer, notes: ScriptLogLine[]): ScriptLogLine[] {
  let room = MAX_LOG_CHARS;
  const kept = [...notes, ...log.filter(({ msg }) => (room -= msg.length) >= 0)];
  const dropped = log.length + notes.length - kept.length;
  if (dropped > 0) {
    kept.push(line('WARN', `${dropped} more lines were left out: the log of a phase holds 100 kB`));
  }
  if (error !== null) kept.push(line('ERROR', error.stack ?? sentenceOf(error)));
  return kept;
}

const line = (level: ScriptLogLine['level'], msg: string): ScriptLogLine => ({ time: wallMs(), level, msg });
