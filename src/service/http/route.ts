import type { Readable } from 'node:stream';
import { z } from 'zod';
import { notFound, parse, type Caller } from '../verbs/index.ts';
import type { Asked } from './file-answer.ts';
import { assertStorable } from './json-body.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** What a route is, apart from what it does: enough to mount it and to document it. */
export interface About<Path extends string, Query extends z.ZodObject, Body extends z.ZodType> {
  method: Method;
  /** Parameters in braces: `/v1/checks/{id}`. */
  path: Path;
  tag: string;
  summary: string;
  deprecated?: boolean;
  query?: Query;
  body?: Body;
  /** What the document shows instead of `body`, where the verb parses it with more knowledge. */
  shownBody?: z.ZodType;
  /** The body may be left out. */
  optionalBody?: boolean;
  /** The body is bytes, which the answer reads as they come. */
  upload?: { maxBytes: number };
  /** The body may be packed by gzip and larger than others. */
  maxBodyBytes?: number;
  status: 200 | 201 | 202 | 204;
  reply?: z.ZodType;
  /** The answer is a FileAnswer instead. */
  file?: true;
  /** Error statuses besides 400, and besides 401, 403 and 429, which every route with a key has. */
  errors?: readonly number[];
}

/** A request before anything of it was looked at. */
export interface RawCall {
  params: Readonly<Record<string, string>>;
  query: Readonly<Record<string, unknown>>;
  body: unknown;
  /** Of routes with `upload`. */
  upload: Readable | undefined;
  /** The part of a file that is asked for. */
  asked: Asked;
  /** Aborts when the client has gone or the service stops. */
  signal: AbortSignal;
}

export interface Route {
  readonly about: About<string, z.ZodObject, z.ZodType>;
  /** `key`: with an API key; `token`: with that of a trigger, in the path; `open`: for everybody. */
  readonly access: 'key' | 'token' | 'open';
  /** @throws Refusal */
  answer(raw: RawCall, caller: Caller | undefined): Promise<unknown>;
}

type ParamsOf<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { [K in Name]: string } & ParamsOf<Rest>
  : unknown;

interface Call<Path extends string, Query extends z.ZodObject, Body extends z.ZodType> {
  params: ParamsOf<Path>;
  query: z.output<Query>;
  body: z.output<Body>;
  upload: Readable | undefined;
  asked: Asked;
  signal: AbortSignal;
}

type Answer<Path extends string, Query extends z.ZodObject, Body extends z.ZodType> = (
  caller: Caller,
  call: Call<Path, Query, Body>,
) => Promise<unknown>;

/** A route that needs an API key. Its types are closed over, so that callers hold a plain Route. */
export const route = <
  const Path extends string,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
>(
  about: About<Path, Query, Body>,
  answer: Answer<Path, Query, Body>,
): Route => routeOf('key', about, answer);

/** A route that needs the token in its path and nothing else. */
export const tokenRoute = <const Path extends `${string}{token}`>(
  about: About<Path, z.ZodObject, z.ZodType>,
  answer: Answer<Path, z.ZodObject, z.ZodType>,
): Route => routeOf('token', about, answer);

function routeOf<const Path extends string, Query extends z.ZodObject, Body extends z.ZodType>(
  access: 'key' | 'token',
  about: About<Path, Query, Body>,
  answer: Answer<Path, Query, Body>,
): Route {
  const read = reader(about);
  return {
    about,
    access,
    answer: (raw, caller) => {
      if (caller === undefined) throw new Error(`${about.path} was reached without a caller`);
      return answer(caller, read(raw));
    },
  };
}

/** A route for everybody. */
export function openRoute<const Path extends string>(
  about: About<Path, z.ZodObject, z.ZodType>,
  answer: (call: Call<Path, z.ZodObject, z.ZodType>) => Promise<unknown>,
): Route {
  const read = reader(about);
  return { about, access: 'open', answer: (raw) => answer(read(raw)) };
}

const NO_QUERY = z.strictObject({});

function reader<Path extends string, Query extends z.ZodObject, Body extends z.ZodType>(
  about: About<Path, Query, Body>,
): (raw: RawCall) => Call<Path, Query, Body> {
  const query = about.query ?? NO_QUERY;
  const kinds = kindsOf(query);
  return (raw) => {
    assertFindable(raw.params);
    assertStorable(raw.query, 'query');
    const body = raw.body === undefined && about.optionalBody === true ? {} : raw.body;
    return {
      params: raw.params as ParamsOf<Path>,
      query: parse(query, fromText(raw.query, kinds), 'query') as z.output<Query>,
      body: (about.body ? parse(about.body, body) : undefined) as z.output<Body>,
      upload: raw.upload,
      asked: raw.asked,
      signal: raw.signal,
    };
  };
}

/** Nothing has an identifier that the store could not even hold. */
function assertFindable(params: Readonly<Record<string, string>>): void {
  const odd = Object.values(params).find((value) => value.includes('\0') || !value.isWellFormed());
  if (odd !== undefined) throw notFound('what is called', odd);
}

/** JSON type of each query parameter, from its schema. */
function kindsOf(query: z.ZodObject): Map<string, unknown> {
  const { properties = {} } = z.toJSONSchema(query, { io: 'input' });
  return new Map(
    Object.entries(properties).map(([name, shape]) => [name, typeof shape === 'object' ? shape.type : null]),
  );
}

/** Query parameters are text: gives numbers, booleans and lists their type, and leaves what is none. */
function fromText(raw: Readonly<Record<string, unknown>>, kinds: ReadonlyMap<string, unknown>): object {
  return Object.fromEntries(
    Object.entries(raw).map(([name, value]) => {
      const kind = kinds.get(name);
      if (kind === 'array') return [name, [value].flat()];
      return [name, typeof value === 'string' ? scalar(value, kind) : value];
    }),
  );
}

function scalar(text: string, kind: unknown): unknown {
  if ((kind === 'integer' || kind === 'number') && /^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  if (kind === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}
