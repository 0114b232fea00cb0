import type { IncomingHttpHeaders } from 'node:http';

/** A request whose body has arrived. */
export interface Visit {
  readonly method: string;
  readonly path: string;
  /** Parts of the path that the route names: `:id`. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Aborts when the visitor has left. */
  readonly left: AbortSignal;
}

export interface Answer {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string;
}

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

export type Route = readonly [
  method: Method,
  path: string,
  answer: (visit: Visit) => Answer | Promise<Answer>,
];

/** What is wrong with a request; becomes a page, or JSON below /api/. */
export class Refusal extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = 'Refusal';
    this.status = status;
    this.headers = headers;
  }
}

export function json(status: number, value: unknown, headers: Record<string, string> = {}): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: `${JSON.stringify(value)}\n`,
  };
}

export function text(status: number, body: string, type = 'text/plain; charset=utf-8'): Answer {
  return { status, headers: { 'content-type': type }, body };
}

export function redirect(location: string, headers: Record<string, string> = {}): Answer {
  return { status: 303, headers: { location, ...headers }, body: '' };
}

/** What is kept or shown again is small; only uploads, which are counted, may be larger. */
const MAX_KEPT_BYTES = 10_000;

/** @throws Refusal when the body is no JSON object */
export function jsonOf(visit: Visit): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(smallBody(visit));
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal(400, 'The body must be JSON.');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Refusal(400, 'The body must be a JSON object.');
  }
  return { ...value };
}

/** The fields of a form. */
export const formOf = (visit: Visit): URLSearchParams => new URLSearchParams(smallBody(visit));

function smallBody({ body }: Visit): string {
  if (body.length > MAX_KEPT_BYTES) {
    throw new Refusal(413, `The body may have ${MAX_KEPT_BYTES} bytes.`);
  }
  return body.toString('utf8');
}

/** A whole number from the query, or the default; outside of the range the nearest that is allowed. */
export function numberOf(
  { query }: Visit,
  name: string,
  { least, most, otherwise }: { least: number; most: number; otherwise: number },
): number {
  const given = query.get(name);
  if (given === null) return otherwise;
  const number = Number(given);
  if (given.trim() === '' || !Number.isInteger(number)) {
    throw new Refusal(400, `${name} must be a whole number.`);
  }
  return Math.min(Math.max(number, least), most);
}
