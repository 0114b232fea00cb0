import type { Assertion } from '../assertion-fields.ts';
import type { CommonSpec } from '../check-type.ts';
import { fillTemplate, variablesOf, type Variables } from '../templates.ts';
import type { HttpMonitor } from './monitor.ts';
import type { ProbeRequest } from './probe.ts';
import { basicAuthorization } from './proxy.ts';

interface KeyValue {
  key: string;
  value: string;
}

/** The request fields of an API check; a URL monitor fills in what it lacks. */
export interface HttpTarget {
  method: string;
  url: string;
  followRedirects: boolean;
  skipSSL: boolean;
  ipFamily: 'IPv4' | 'IPv6';
  body: string;
  bodyType: 'JSON' | 'FORM' | 'RAW' | 'GRAPHQL' | 'NONE';
  headers: readonly KeyValue[];
  queryParameters: readonly KeyValue[];
  assertions: readonly Assertion[];
  basicAuth: { username: string; password: string } | null;
}

interface Thresholds {
  degradedResponseTime: number | null;
  maxResponseTime: number | null;
}

type Header = readonly [name: string, value: string];

/** In place of credentials in results; always nine, so that it says nothing about their length. */
const MASK = '*********';
const SHOWN_BODY_BYTES = 256 * 1024;
const SECRET_HEADERS = new Set([
  'authorization',
  'cookie',
  'proxy-authorization',
  'x-api-key',
  'x-auth-token',
]);

const DEFAULT_HEADERS: readonly Header[] = [
  ['User-Agent', 'Vedette/1.0'],
  ['accept-encoding', 'gzip, deflate'],
];
const CONTENT_TYPES = {
  JSON: 'application/json',
  GRAPHQL: 'application/json',
  FORM: 'application/x-www-form-urlencoded',
  RAW: null,
  NONE: null,
} as const;

/** The check with its templates filled in, from its own variables unless scripts changed them. */
export function monitorOf(
  target: HttpTarget,
  spec: CommonSpec & Thresholds,
  variables: Variables = variablesOf(spec.environmentVariables),
): HttpMonitor {
  const address = fillTemplate(target.url, variables);
  const url = addressOf(address, target.queryParameters, variables);
  const body = bodyOf(target, variables);
  const headers = headersOf(target, body !== null, variables);
  return {
    request: url === null ? null : requestOf(target, url, headers, body),
    assertions: filledAssertions(target.assertions, variables),
    shown: {
      method: target.method,
      url: url === null ? address : maskedHref(url),
      data: body?.toString('utf8', 0, SHOWN_BODY_BYTES) ?? '',
      headers: Object.fromEntries(headers.map(masked)),
      params: Object.fromEntries(filled(target.queryParameters, variables)),
    },
    shouldFail: spec.shouldFail,
    degradedResponseTime: spec.degradedResponseTime,
    maxResponseTime: spec.maxResponseTime,
  };
}

export function filledAssertions(assertions: readonly Assertion[], variables: Variables): Assertion[] {
  return assertions.map((each) => ({ ...each, target: fillTemplate(each.target, variables, 'raw') }));
}

function requestOf(
  target: HttpTarget,
  url: URL,
  headers: readonly Header[],
  body: Buffer | null,
): ProbeRequest {
  const { method, followRedirects, skipSSL, ipFamily } = target;
  return { method, url, headers, body, followRedirects, skipSSL, family: ipFamily === 'IPv6' ? 6 : 4 };
}

/** Null when the filled-in text is no address that HTTP can go to. */
function addressOf(text: string, query: readonly KeyValue[], variables: Variables): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === '') return null;
  // Appended by hand: URLSearchParams would rewrite what the user wrote in the address itself.
  const added = filled(query, variables).map(([key, value]) => `${encode(key)}=${encode(value)}`);
  if (added.length > 0) url.search = [url.search.slice(1), ...added].filter((part) => part !== '').join('&');
  return url;
}

const encode = (text: string): string => encodeURIComponent(text.toWellFormed());

/** Query values are encoded as a whole afterwards, so both forms of a template mean the raw value. */
function filled(list: readonly KeyValue[], variables: Variables): [string, string][] {
  return list.map(({ key, value }) => [key, fillTemplate(value, variables, 'raw')]);
}

function bodyOf({ body, bodyType }: HttpTarget, variables: Variables): Buffer | null {
  if (bodyType === 'NONE' || body === '') return null;
  const text = fillTemplate(body, variables);
  return Buffer.from(bodyType === 'GRAPHQL' ? graphQlEnvelope(text) : text, 'utf8');
}

/** The text is the query; a whole envelope is accepted too. */
function graphQlEnvelope(text: string): string {
  try {
    const envelope: unknown = JSON.parse(text);
    if (typeof envelope === 'object' && envelope !== null && 'query' in envelope) return text;
  } catch {
    // GraphQL is not JSON: the usual case.
  }
  return JSON.stringify({ query: text });
}

function headersOf(target: HttpTarget, hasBody: boolean, variables: Variables): Header[] {
  const own = target.headers.map(({ key, value }): Header => [key.trim(), fillTemplate(value, variables)]);
  const given = new Set(own.map(([name]) => name.toLowerCase()));
  const headers = [...DEFAULT_HEADERS.filter(([name]) => !given.has(name.toLowerCase())), ...own];
  const contentType = hasBody ? CONTENT_TYPES[target.bodyType] : null;
  if (contentType !== null && !given.has('content-type')) headers.push(['Content-Type', contentType]);
  const { basicAuth } = target;
  if (basicAuth !== null && basicAuth.username + basicAuth.password !== '' && !given.has('authorization')) {
    const [username, password] = [basicAuth.username, basicAuth.password].map((each) =>
      fillTemplate(each, variables),
    );
    headers.push(['Authorization', basicAuthorization(username ?? '', password ?? '')]);
  }
  return headers;
}

function masked([name, value]: Header): Header {
  return [name, SECRET_HEADERS.has(name.toLowerCase()) ? MASK : value];
}

function maskedHref(url: URL): string {
  if (url.username === '' && url.password === '') return url.href;
  const shown = new URL(url);
  shown.username = MASK;
  if (url.password !== '') shown.password = MASK;
  return shown.href;
}
