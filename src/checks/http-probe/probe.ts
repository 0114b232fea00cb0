import { messageOf } from '../../kit/errors.ts';
import { validateHeaderName, validateHeaderValue } from '../../kit/node-http.ts';
import type { AgentFault } from '../check-type.ts';
import type { Limiter } from '../limiter.ts';
import type { Resolver } from '../resolve.ts';
import type { TargetPolicy } from '../target-policy/index.ts';
import type { TimingPhases, Timings } from '../timings.ts';
import { exchange, type Exchanged, type Head, single, type WireRequest } from './exchange.ts';
import { TargetFailure } from './failure.ts';
import { exchangeHttp2 } from './http2.ts';
import { basicOf, parseProxy, type Proxy, proxyRefuses } from './proxy.ts';
import { type HopRequest, isRedirect, redirected } from './redirect.ts';
import { openRoute, type Route } from './route.ts';
import type { TlsFacts } from './tls.ts';
import { type LogLine, Trip } from './trip.ts';

export interface ProbeContext {
  signal: AbortSignal;
  resolver: Resolver;
  targets: TargetPolicy;
  handshakes: Limiter;
  proxyUrl: string | null;
  noProxy?: string;
}

export interface ProbeRequest {
  method: string;
  /** http or https; may carry credentials. */
  url: URL;
  headers: readonly (readonly [name: string, value: string])[];
  body: Buffer | null;
  followRedirects: boolean;
  skipSSL: boolean;
  family: 4 | 6;
}

export interface ProbeResponse extends Head {
  /** Decoded, at most 25 MB; empty when the answer broke off. */
  body: Buffer;
  /** There was more. */
  truncated: boolean;
  /** Address that answered, after redirects, without credentials. */
  href: string;
  tls: TlsFacts | null;
}

export interface RedirectStep {
  status: number;
  /** Without credentials. */
  from: string;
  to: string;
}

export interface ProbeResult {
  /** Null when no answer came; its head alone when the body broke off. */
  response: ProbeResponse | null;
  /** The target's failure or the agent's fault; null when the whole answer is there. */
  error: TargetFailure | AgentFault | null;
  redirects: RedirectStep[];
  phases: TimingPhases;
  timings: Timings;
  /** Of the last connection; null through a proxy or when none was tried. */
  resolvedAddress: string | null;
  log: LogLine[];
}

const MAX_REDIRECTS = 10;

/**
 * Makes the request and follows its redirects. Only a cancelled run throws (the signal's reason).
 */
export async function probe(request: ProbeRequest, context: ProbeContext): Promise<ProbeResult> {
  const proxy = context.proxyUrl === null ? null : parseProxy(context.proxyUrl);
  const trip = new Trip({ ...context, family: request.family, skipSSL: request.skipSSL, proxy });
  const redirects: RedirectStep[] = [];
  const seen: { response: ProbeResponse | null } = { response: null };
  let error: ProbeResult['error'] = null;
  try {
    await travel(firstHop(request), request.followRedirects, trip, redirects, seen);
  } catch (thrown) {
    error = trip.verdictOn(thrown);
    trip.note(error.message, 'ERROR');
  } finally {
    trip.end();
  }
  return {
    response: seen.response,
    error,
    redirects,
    phases: trip.clock.phases(),
    timings: trip.clock.timings(),
    resolvedAddress: trip.address,
    log: trip.log,
  };
}

async function travel(
  first: HopRequest,
  follow: boolean,
  trip: Trip,
  redirects: RedirectStep[],
  seen: { response: ProbeResponse | null },
): Promise<void> {
  for (let hop = first; ;) {
    const { head } = await oneHop(hop, follow, trip, seen);
    const location = single(head, 'location');
    if (!follow || !isRedirect(head.status, location)) return;
    const next = redirected(hop, head.status, location);
    redirects.push({ status: head.status, from: plainHref(hop.url), to: plainHref(next.url) });
    trip.note(`${head.status}: redirected to ${plainHref(next.url)}`);
    if (redirects.length > MAX_REDIRECTS) throw tooManyRedirects(redirects);
    seen.response = null;
    trip.clock.enter('wait');
    hop = next;
  }
}

async function oneHop(
  hop: HopRequest,
  follow: boolean,
  trip: Trip,
  seen: { response: ProbeResponse | null },
): Promise<Exchanged> {
  trip.begin(hop.url);
  const { proxy } = trip;
  const route = await openAnyRoute(hop.url, trip);
  const href = plainHref(hop.url);
  const wire = wireRequest(hop, proxy);
  const onHead = (head: Head): void => {
    trip.note(`${head.status} ${head.statusText} from ${href}`);
    seen.response = { ...head, body: Buffer.alloc(0), truncated: false, href, tls: route.tls };
  };
  const exchanged = route.http2
    ? await exchangeHttp2(route.socket, wire, hop.url.host, trip, follow, onHead)
    : await exchange(route.socket, wire, trip, follow, onHead);
  if (proxy && exchanged.head.status === 407 && hop.url.protocol === 'http:') throw proxyRefuses(proxy);
  if (seen.response) {
    seen.response.body = exchanged.body.bytes;
    seen.response.truncated = exchanged.body.truncated;
  }
  return exchanged;
}

/**
 * HTTP/1.1 unless the server refuses it in the handshake, then HTTP/2. Offering both would let most
 * servers choose HTTP/2, which costs more and says less about phases.
 */
async function openAnyRoute(url: URL, trip: Trip): Promise<Route> {
  try {
    return await openRoute(url, trip, ['http/1.1']);
  } catch (error) {
    if (!(error instanceof TargetFailure) || !/NO_APPLICATION_PROTOCOL/.test(error.code)) throw error;
    trip.note('the server refuses HTTP/1.1, trying HTTP/2');
    return await openRoute(url, trip, ['h2']);
  }
}

function firstHop(request: ProbeRequest): HopRequest {
  const { method, url, headers, body } = request;
  return { method, url, headers: sendable(headers), body };
}

/** Without credentials, which belong into no result. */
function plainHref(url: URL): string {
  if (url.username === '' && url.password === '') return url.href;
  const plain = new URL(url);
  plain.username = '';
  plain.password = '';
  return plain.href;
}

/** As HTTP/1.1 writes them: each byte of UTF-8 as one character. @throws TargetFailure */
function sendable(headers: ProbeRequest['headers']): ProbeRequest['headers'] {
  return headers.map(([name, text]) => {
    const value = Buffer.from(text, 'utf8').toString('latin1');
    try {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    } catch (error) {
      throw new TargetFailure(
        'INVALID_HEADER',
        `the check's header cannot be sent: ${messageOf(error)}`,
        false,
      );
    }
    return [name, value];
  });
}

const FRAMING_HEADERS = new Set(['content-length', 'transfer-encoding']);

function wireRequest(hop: HopRequest, proxy: Proxy | null): WireRequest {
  const { url, method, body } = hop;
  const given = new Set(hop.headers.map(([name]) => name.toLowerCase()));
  const headers: string[] = given.has('host') ? [] : ['Host', url.host];
  for (const [name, value] of hop.headers) {
    if (!FRAMING_HEADERS.has(name.toLowerCase())) headers.push(name, value);
  }
  const credentials = given.has('authorization') ? null : basicOf(url);
  if (credentials !== null) headers.push('Authorization', credentials);
  if (body !== null || method === 'POST' || method === 'PUT' || method === 'PATCH') {
    headers.push('Content-Length', String(body?.length ?? 0));
  }
  if (!given.has('connection')) headers.push('Connection', 'close');
  const throughProxy = proxy !== null && url.protocol === 'http:';
  if (throughProxy && proxy.authorization !== null) headers.push('Proxy-Authorization', proxy.authorization);
  const path = `${url.pathname}${url.search}`;
  return { method, path: throughProxy ? `http://${url.host}${path}` : path, headers, body };
}

function tooManyRedirects(redirects: RedirectStep[]): TargetFailure {
  const chain = [...redirects.map(({ from }) => from), redirects.at(-1)?.to ?? ''];
  const shown = chain.slice(0, 4).join(' → ');
  return new TargetFailure(
    'TOO_MANY_REDIRECTS',
    `more than ${MAX_REDIRECTS} redirects: ${shown}${chain.length > 4 ? ' → …' : ''}`,
    false,
  );
}
