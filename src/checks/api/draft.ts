import type { HttpTarget } from '../http-probe/index.ts';
import { cut } from '../preview.ts';
import { SCRIPT_DATA_BYTES, type ScriptRequest } from '../script-hooks.ts';
import { fillTemplate, type Variables } from '../templates.ts';
import { METHODS } from './spec.ts';

interface KeyValue {
  key: string;
  value: string;
}

/** A request before its setup scripts, and how it goes on from what they left. */
export interface Draft {
  /** With everything filled in that is known by now; what setup may still define keeps its braces. */
  seen: ScriptRequest;
  /** The request to make; its templates are filled with what the variables are then. */
  finish(left: ScriptRequest): HttpTarget;
}

/**
 * Scripts see values, because they sign and parse them. What they change counts as they left it; what
 * they leave alone is filled in again from the check's own text, because a variable in it may have a new
 * value. So generated values, `{{$UUID}}` and times, are filled in once and for all before: a signature
 * over them stays right.
 */
export function draftOf(target: HttpTarget, variables: Variables): Draft {
  const settled = (text: string, braces: 'encoded' | 'raw' = 'encoded'): Slot => {
    const template = fillTemplate(text, variables, braces, 'generated');
    return { template, seen: fillTemplate(template, variables, braces, 'known') };
  };
  const url = settled(target.url);
  const whole = settled(target.bodyType === 'NONE' ? '' : target.body);
  const body = { ...whole, seen: cut(whole.seen, SCRIPT_DATA_BYTES) };
  const headers = target.headers.map(({ key, value }) => ({ key: key.trim(), ...settled(value) }));
  const query = target.queryParameters.map(({ key, value }) => ({ key, ...settled(value, 'raw') }));
  const seen: ScriptRequest = {
    method: target.method,
    url: url.seen,
    body: body.seen,
    headers: joined(headers),
    queryParameters: Object.fromEntries(query.map((each) => [each.key, each.seen])),
  };
  return {
    seen,
    finish: (left) => ({
      ...target,
      method: left.method.toUpperCase(),
      url: left.url === url.seen ? url.template : left.url,
      ...finishedBody(target, body, left.body),
      headers: finishedList(headers, seen.headers, left.headers, HEADER),
      queryParameters: finishedList(query, seen.queryParameters, left.queryParameters, PARAMETER),
    }),
  };
}

/** What is wrong with a request that scripts left; null when it can be made. */
export function draftProblem({ method }: ScriptRequest): string | null {
  if (METHODS.some((each) => each === method.toUpperCase())) return null;
  return `request.method is ${JSON.stringify(method.slice(0, 50))} after setup; it must be one of ${METHODS.join(', ')}`;
}

/** A text of the check, and how scripts see it. */
interface Slot {
  template: string;
  seen: string;
}
type Entry = Slot & { key: string };

/** A body that a script wrote is sent, whatever the check says about bodies. */
function finishedBody(
  { bodyType }: HttpTarget,
  body: Slot,
  left: string,
): Pick<HttpTarget, 'body' | 'bodyType'> {
  const text = left === body.seen ? body.template : left;
  return { body: text, bodyType: bodyType === 'NONE' && text !== '' ? 'RAW' : bodyType };
}

/** Two keys that name the same thing have the same identity. */
type Identity = (key: string) => string;
const HEADER: Identity = (key) => key.trim().toLowerCase();
const PARAMETER: Identity = (key) => key;

/** Entries that a script left alone stay as the check has them, those with the same key included. */
function finishedList(
  own: readonly Entry[],
  seen: Readonly<Record<string, string>>,
  left: Readonly<Record<string, string>>,
  identity: Identity,
): KeyValue[] {
  return lastOfEach(left, identity).flatMap(([key, value]) => {
    if (!Object.hasOwn(seen, key) || seen[key] !== value) return [{ key, value }];
    return own
      .filter((each) => identity(each.key) === identity(key))
      .map((each) => ({ key: each.key, value: each.template }));
  });
}

/** A script that writes `content-type` beside `Content-Type` means the same header. */
function lastOfEach(map: Readonly<Record<string, string>>, identity: Identity): [string, string][] {
  const entries = Object.entries(map);
  const last = new Map(entries.map(([key], index) => [identity(key), index]));
  return entries.filter(([key], index) => last.get(identity(key)) === index);
}

/** One entry per name as it is written first; the values of repeated fields together, RFC 9110, 5.2. */
function joined(headers: readonly Entry[]): Record<string, string> {
  const byName = new Map<string, { key: string; values: string[] }>();
  for (const { key, seen } of headers) {
    const known = byName.get(HEADER(key));
    if (known === undefined) byName.set(HEADER(key), { key, values: [seen] });
    else known.values.push(seen);
  }
  return Object.fromEntries(Array.from(byName.values(), ({ key, values }) => [key, values.join(', ')]));
}
