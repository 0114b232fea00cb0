import type { ScriptRequest, ScriptResponse } from '../../protocol.ts';
import { Unusable } from '../user-code/index.ts';

/** All that a script leaves in `request`, in `process.env` or as a body. */
const MAX_BYTES = 256 * 1024;

/**
 * What `request` came to. Scripts may put in its place, or into it, whatever means the same: an URL, Headers,
 * URLSearchParams, numbers; a body that is an object becomes JSON.
 *
 * @throws Unusable
 */
export function requestFrom(left: unknown): ScriptRequest {
  if (!isRecord(left)) throw new Unusable('request is no object any more');
  const headers = textsFrom(left['headers'], 'request.headers');
  const { text, contentType } = bodyFrom(left['body'], 'request.body');
  const names = Object.keys(headers).map((name) => name.trim().toLowerCase());
  const request: ScriptRequest = {
    method: textFrom(left['method'], 'request.method') ?? 'GET',
    url: textFrom(left['url'], 'request.url') ?? '',
    body: text,
    headers: {
      ...headers,
      ...(contentType !== undefined && !names.includes('content-type')
        ? { 'Content-Type': contentType }
        : {}),
    },
    queryParameters: textsFrom(left['queryParameters'], 'request.queryParameters'),
  };
  limit(JSON.stringify(request), 'request has');
  return request;
}

/** What `response` came to: of it only the body can be changed. @throws Unusable */
export function responseFrom(left: unknown, given: ScriptResponse | null): ScriptResponse | null {
  if (given === null) return null;
  if (!isRecord(left)) throw new Unusable('response is no object any more');
  const { text } = bodyFrom(left['body'], 'response.body');
  if (text !== given.body) limit(text, 'response.body has');
  return { ...given, body: text };
}

/** @throws Unusable */
export function checkVariables(env: Readonly<Record<string, string>>): void {
  limit(JSON.stringify(env), 'the variables in process.env have');
}

function limit(text: string, what: string): void {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_BYTES) throw new Unusable(`${what} ${bytes} bytes; at most ${MAX_BYTES} are allowed`);
}

function bodyFrom(body: unknown, what: string): { text: string; contentType?: string } {
  if (typeof body === 'string') return { text: body };
  if (body === undefined || body === null) return { text: '' };
  if (body instanceof Uint8Array) return { text: Buffer.from(body).toString('utf8') };
  if (body instanceof URLSearchParams) {
    return { text: body.toString(), contentType: 'application/x-www-form-urlencoded' };
  }
  if (!isRecord(body) && !Array.isArray(body)) return { text: textFrom(body, what) ?? '' };
  return { text: jsonFrom(body, what), contentType: 'application/json' };
}

function jsonFrom(value: object, what: string): string {
  try {
    return JSON.stringify(value) ?? '';
  } catch {
    throw new Unusable(`${what} cannot be written as JSON`);
  }
}

function textsFrom(map: unknown, what: string): Record<string, string> {
  if (map === undefined || map === null) return {};
  if (typeof map !== 'object') throw new Unusable(`${what} is no object`);
  const entries =
    map instanceof Headers || map instanceof URLSearchParams || map instanceof Map
      ? [...map.entries()]
      : Object.entries(map);
  const texts = entries.map(([key, value]): [string, string | undefined] => {
    const name = String(key);
    return [
      name,
      textFrom(Array.isArray(value) ? value.join(', ') : value, `${what}[${JSON.stringify(name)}]`),
    ];
  });
  return Object.fromEntries(texts.filter((entry): entry is [string, string] => entry[1] !== undefined));
}

/** Undefined for what is not there. */
function textFrom(value: unknown, what: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint')
    return String(value);
  if (value instanceof URL || value instanceof String) return value.toString();
  if (value instanceof Date) return value.toUTCString();
  throw new Unusable(`${what} is ${kindOf(value)}; it must be text`);
}

function kindOf(value: unknown): string {
  if (value instanceof Promise) return 'a promise that nobody awaited';
  return typeof value === 'function' ? 'a function' : typeof value === 'symbol' ? 'a symbol' : 'an object';
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Promise);
