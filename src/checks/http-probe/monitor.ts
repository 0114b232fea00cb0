import { messageOf } from '../../kit/errors.ts';
import type { Assertion } from '../assertion-fields.ts';
import { type EvaluatedAssertion, evaluateAssertions, type Sources } from '../assertions.ts';
import { AgentFault, type Failure, type Outcome, type RunContext, TIMEOUT_DOUBT_MS } from '../check-type.ts';
import { cut, preview } from '../preview.ts';
import { SCRIPT_DATA_BYTES, type ScriptLogLine, type ScriptResponse } from '../script-hooks.ts';
import { judge } from '../verdict.ts';
import { probe, type ProbeRequest, type ProbeResponse, type ProbeResult } from './probe.ts';
import { mediaType, shownBody, textOf } from './shown-body.ts';

/** An HTTP check with its templates filled in: what URL monitors and API checks have in common. */
export interface HttpMonitor {
  /** Null when the address is not one: `shown.url` has what it came to. */
  request: ProbeRequest | null;
  assertions: readonly Assertion[];
  /** What stands in the result's `request`; without credentials. */
  shown: {
    method: string;
    url: string;
    data: string;
    headers: Record<string, string>;
    params: Record<string, string>;
  };
  shouldFail: boolean;
  degradedResponseTime: number | null;
  maxResponseTime: number | null;
}

/** Scripts around the request. */
export interface Scripted {
  setupLog: readonly ScriptLogLine[];
  /** Runs before anything is judged, whether or not an answer came. */
  teardown(response: ScriptResponse | null): Promise<Aftermath>;
}

/** What teardown scripts change. */
export interface Aftermath {
  /** What assertions see, and results show; null where it is the one that came. */
  body: string | null;
  assertions: readonly Assertion[];
  failures: readonly Failure[];
  log: readonly ScriptLogLine[];
}

/** A run so far. */
interface Run {
  monitor: HttpMonitor;
  /** Null when there was no address to ask. */
  result: ProbeResult | null;
  setupLog: readonly ScriptLogLine[];
  after: Aftermath;
}

/**
 * Makes the request and judges the answer: a status of 400 or more fails unless `shouldFail`, whatever
 * the assertions say; assertions decide on every answer; then the thresholds.
 *
 * @throws AgentFault with what was learned until then
 */
export async function runMonitor(
  monitor: HttpMonitor,
  context: RunContext,
  scripted: Scripted | null = null,
): Promise<Outcome> {
  const result = monitor.request === null ? null : await probe(monitor.request, context);
  const after = (await scripted?.teardown(responseForScripts(result, monitor))) ?? untouched(monitor);
  const run = { monitor, result, setupLog: scripted?.setupLog ?? [], after };
  if (result === null) return invalidAddress(run);
  if (result.error instanceof AgentFault) {
    const { code, message } = result.error;
    throw new AgentFault(code, message, detailOf(run, message, []), { cause: result.error });
  }
  return judged(run, result);
}

const untouched = ({ assertions }: HttpMonitor): Aftermath => ({
  body: null,
  assertions,
  failures: [],
  log: [],
});

function judged(run: Run, result: ProbeResult): Outcome {
  const { monitor, after } = run;
  const answered = result.error === null && result.response !== null;
  const assertions = answered ? evaluateAssertions(after.assertions, sourcesOf(result, run)) : [];
  const timedOut = result.error?.code === 'TIMEOUT';
  const total = result.response === null ? null : result.phases.total;
  return {
    ...judge({
      failures: [...failuresOf(result, monitor.shouldFail), ...after.failures],
      assertions,
      measuredMs: total,
      limits: monitor,
      measure: 'response time',
    }),
    ...(timedOut ? { lateByMs: TIMEOUT_DOUBT_MS } : {}),
    responseTimeMs: total,
    phases: result.phases,
    statusCode: result.response?.status ?? null,
    resolvedAddress: result.resolvedAddress,
    detail: detailOf(run, result.error?.message ?? null, assertions),
  };
}

/** A variable that is missing or was URI-encoded is the usual reason. */
function invalidAddress(run: Run): Outcome {
  const message = `with its variables filled in, the address is not a valid URL: ${preview(run.monitor.shown.url, 300)} ({{{NAME}}} inserts a value without encoding it)`;
  const failure = { code: 'INVALID_URL', message, network: false };
  return unsent([failure, ...run.after.failures], detailOf(run, message, []));
}

/** The outcome of a run that had nothing to send, or was not allowed to by its setup script. */
function unsent(failures: Failure[], detail: Outcome['detail']): Outcome {
  return {
    verdict: 'failed',
    overMaxResponseTime: false,
    responseTimeMs: null,
    failures,
    phases: {},
    statusCode: null,
    resolvedAddress: null,
    detail,
  };
}

function failuresOf({ error, response }: ProbeResult, shouldFail: boolean): Failure[] {
  if (error !== null) {
    return [
      {
        code: error.code,
        message: error.message,
        network: error instanceof AgentFault ? false : error.network,
      },
    ];
  }
  if (response === null || isGood(response.status) || shouldFail) return [];
  const message = `${response.href} answered ${response.status} ${response.statusText}`.trimEnd();
  return [{ code: 'HTTP_STATUS', message, network: false }];
}

/** What is no status at all (099, 600) counts as a server error (RFC 9110, 15). */
const isGood = (status: number): boolean => status >= 100 && status < 400;

function sourcesOf({ response, phases }: ProbeResult, { monitor, after }: Run): Sources {
  if (response === null) return {};
  const { body } = after;
  const received = { ...response, contentType: contentTypeOf(response) };
  const read = (): string => body ?? textOf(received, wantsText(monitor));
  // Of a body that a script wrote, the server's content type and size say nothing.
  const readJson = (): unknown =>
    body === null ? parseJson(read(), received.contentType, response.truncated) : parseJson(body, '', false);
  return {
    STATUS_CODE: { kind: 'value', value: response.status },
    RESPONSE_TIME: { kind: 'value', value: phases.total },
    HEADERS: { kind: 'headers', headers: response.headers },
    TEXT_BODY: { kind: 'text', read },
    JSON_BODY: { kind: 'json', read: readJson },
  };
}

/** Without a content type the body may be anything, so it is tried. */
function parseJson(text: string, contentType: string, truncated: boolean): unknown {
  const type = mediaType(contentType);
  if (type !== '' && !/^(application|text)\/(json|.+\+json|x-json|problem\+json)$|\+json$/.test(type)) {
    throw new Error(`the answer is not JSON: its content type is ${type}`);
  }
  if (truncated) throw new Error('the answer is larger than 25 MB, too large to be read as JSON');
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Error(`the body is not valid JSON: ${messageOf(error)}`, { cause: error });
  }
}

/** A TEXT_BODY assertion wants binary content as it is. */
const wantsText = ({ assertions }: HttpMonitor): boolean =>
  assertions.some(({ source }) => source === 'TEXT_BODY');

function contentTypeOf(response: ProbeResponse): string {
  const value = response.headers['content-type'];
  return typeof value === 'string' ? value : '';
}

/** The result object, as far as the run came. */
function detailOf(
  { monitor, result, setupLog, after }: Run,
  requestError: string | null,
  assertions: EvaluatedAssertion[],
): Outcome['detail'] {
  return {
    assertions,
    request: monitor.shown,
    response: result === null ? null : shownResponse(monitor, result, after.body),
    requestError,
    jobLog: { setup: setupLog, request: result?.log ?? [], teardown: after.log },
    jobAssets: null,
    pcapDataUrl: null,
  };
}

/** The outcome when setup failed: nothing was sent, nothing is judged. */
export function stoppedInSetup(
  monitor: HttpMonitor,
  failure: Failure,
  setupLog: readonly ScriptLogLine[],
): Outcome {
  const run = { monitor, result: null, setupLog, after: untouched(monitor) };
  return unsent([failure], detailOf(run, failure.message, []));
}

/** The answer as scripts see it: text as assertions see it, cut to what may be passed on. */
function responseForScripts(result: ProbeResult | null, monitor: HttpMonitor): ScriptResponse | null {
  if (result?.response == null || result.error !== null) return null;
  const { response, timings, phases } = result;
  const received = { ...response, contentType: contentTypeOf(response) };
  return {
    statusCode: response.status,
    statusText: response.statusText,
    headers: response.headers,
    body: cut(textOf(received, wantsText(monitor)), SCRIPT_DATA_BYTES),
    timings: { ...timings },
    timingPhases: phases,
  };
}

function shownResponse(
  monitor: HttpMonitor,
  result: ProbeResult,
  ownBody: string | null,
): Record<string, unknown> | null {
  const { response, timings, phases, redirects, resolvedAddress } = result;
  if (response === null) return null;
  const { status, statusText, httpVersion, headers, href, tls } = response;
  const received = { ...response, contentType: contentTypeOf(response) };
  const body =
    ownBody === null ? shownBody(received, wantsText(monitor)) : { body: ownBody, truncated: false };
  return {
    status,
    statusText,
    httpVersion,
    ...body,
    headers,
    href,
    timings,
    timingPhases: phases,
    redirects,
    remoteAddress: resolvedAddress,
    tls,
  };
}
