import { messageOf } from '../../kit/errors.ts';
import type { Assertion } from '../assertion-fields.ts';
import { type EvaluatedAssertion, evaluateAssertions, type Sources } from '../assertions.ts';
import { AgentFault, type Failure, type Outcome, type RunContext, TIMEOUT_DOUBT_MS } from '../check-type.ts';
import { preview } from '../preview.ts';
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

/**
 * Makes the request and judges the answer: a status of 400 or more fails unless `shouldFail`, whatever
 * the assertions say; assertions decide on every answer; then the thresholds.
 *
 * @throws AgentFault with what was learned until then
 */
export async function runMonitor(monitor: HttpMonitor, context: RunContext): Promise<Outcome> {
  if (monitor.request === null) return invalidAddress(monitor);
  const result = await probe(monitor.request, context);
  if (result.error instanceof AgentFault) {
    const { code, message } = result.error;
    throw new AgentFault(code, message, detailOf(monitor, result, []), { cause: result.error });
  }
  const answered = result.error === null && result.response !== null;
  const assertions = answered ? evaluateAssertions(monitor.assertions, sourcesOf(result, monitor)) : [];
  const timedOut = result.error?.code === 'TIMEOUT';
  const total = result.response === null ? null : result.phases.total;
  return {
    ...judge({
      failures: failuresOf(result, monitor.shouldFail),
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
    detail: detailOf(monitor, result, assertions),
  };
}

/** A variable that is missing or was URI-encoded is the usual reason. */
function invalidAddress(monitor: HttpMonitor): Outcome {
  const message = `with its variables filled in, the address is not a valid URL: ${preview(monitor.shown.url, 300)} ({{{NAME}}} inserts a value without encoding it)`;
  return {
    verdict: 'failed',
    overMaxResponseTime: false,
    responseTimeMs: null,
    failures: [{ code: 'INVALID_URL', message, network: false }],
    phases: {},
    statusCode: null,
    resolvedAddress: null,
    detail: {
      assertions: [],
      request: monitor.shown,
      response: null,
      requestError: message,
      jobLog: { setup: [], request: [], teardown: [] },
      jobAssets: null,
      pcapDataUrl: null,
    },
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

function sourcesOf({ response, phases }: ProbeResult, monitor: HttpMonitor): Sources {
  if (response === null) return {};
  const received = { ...response, contentType: contentTypeOf(response) };
  const read = (): string => textOf(received, wantsText(monitor));
  return {
    STATUS_CODE: { kind: 'value', value: response.status },
    RESPONSE_TIME: { kind: 'value', value: phases.total },
    HEADERS: { kind: 'headers', headers: response.headers },
    TEXT_BODY: { kind: 'text', read },
    JSON_BODY: { kind: 'json', read: () => parseJson(read(), received.contentType, response.truncated) },
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

function detailOf(
  monitor: HttpMonitor,
  result: ProbeResult,
  assertions: EvaluatedAssertion[],
): Outcome['detail'] {
  return {
    assertions,
    request: monitor.shown,
    response: shownResponse(monitor, result),
    requestError: result.error?.message ?? null,
    jobLog: { setup: [], request: result.log, teardown: [] },
    jobAssets: null,
    pcapDataUrl: null,
  };
}

function shownResponse(monitor: HttpMonitor, result: ProbeResult): Record<string, unknown> | null {
  const { response, timings, phases, redirects, resolvedAddress } = result;
  if (response === null) return null;
  const { status, statusText, httpVersion, headers, href, tls } = response;
  const received = { ...response, contentType: contentTypeOf(response) };
  const body = shownBody(received, wantsText(monitor));
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
