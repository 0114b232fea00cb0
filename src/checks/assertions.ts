import { messageOf } from '../kit/errors.ts';
import type { Assertion } from './assertion-fields.ts';
import { compare, Incomparable } from './comparison.ts';
import { selectValues } from './json-path.ts';
import { preview } from './preview.ts';
import { PATTERN_LIMIT_MS, TooSlow, within } from './time-box.ts';

/** Where an assertion finds its value. `read` is called at most once per list, and only when needed. */
export type Source =
  /** One value; property and regex play no part: STATUS_CODE, RESPONSE_TIME, RESPONSE_CODE. */
  | { kind: 'value'; value: string | number }
  /** Text; the property, if any, is a regular expression: TEXT_BODY, RESPONSE_DATA, TEXT_ANSWER. */
  | { kind: 'text'; read(): string }
  /** A document; the property is a JSONPath. `read` throws an Error whose message is for the user. */
  | { kind: 'json'; read(): unknown }
  /** Header fields by lower-case name, several values in order; the property names one of them. */
  | { kind: 'headers'; headers: Readonly<Record<string, string | string[]>> }
  /** Named numbers, of which the property chooses one, or none the first: LATENCY. */
  | { kind: 'fields'; fields: Readonly<Record<string, number | null>> };

/** By the source names of the check type, `STATUS_CODE` and so on. */
export type Sources = Readonly<Record<string, Source>>;

/** An assertion with what became of it, as it stands in a result. */
export interface EvaluatedAssertion extends Assertion {
  /** Scalars as they are, everything else as JSON; at most 10 KB; null when there was no value. */
  actual: string | number | boolean | null;
  /** Why the value could not be read or compared; null otherwise. */
  error: string | null;
  passed: boolean;
}

/** The values an assertion looks at; all of them must satisfy it, or any. No values: a missing one. */
interface Subject {
  values: unknown[];
  mode: 'all' | 'any';
  /** Keys are header names, which have no case. */
  caselessKeys?: boolean;
}

/** Evaluates all assertions, top to bottom. A failed one never hides the next. */
export function evaluateAssertions(assertions: readonly Assertion[], sources: Sources): EvaluatedAssertion[] {
  if (assertions.length === 0) return [];
  const readOnce = remembering(sources);
  let slow = 0;
  return assertions.map((assertion) => {
    if (slow >= SLOW_MAX) return unevaluated(assertion);
    try {
      return evaluate(assertion, readOnce);
    } catch (error) {
      if (!(error instanceof TooSlow)) throw error;
      slow++;
      return failedToRead(assertion, `reading the property ${error.message}`);
    }
  });
}

/** Each assertion that had to be stopped held up the whole probe; the verdict is clear after the first. */
const SLOW_MAX = 3;

const unevaluated = (assertion: Assertion): EvaluatedAssertion =>
  failedToRead(assertion, `not evaluated, because ${SLOW_MAX} assertions before it took too long`);

function failedToRead(assertion: Assertion, error: string): EvaluatedAssertion {
  return { ...assertion, actual: null, error, passed: false };
}

/** One sentence for a failed assertion: what was wanted, what was there. */
export function assertionMessage(item: EvaluatedAssertion): string {
  const what = item.property === '' ? item.source : `${item.source} ${item.property}`;
  const wanted = `${what} ${item.comparison}${item.target === '' ? '' : ` ${item.target}`}`;
  if (item.error !== null) return `assertion ${wanted}: ${item.error}`;
  const actual = typeof item.actual === 'string' ? JSON.stringify(item.actual) : String(item.actual);
  return `assertion ${wanted} is not met, the value is ${preview(actual, 200)}`;
}

function evaluate(assertion: Assertion, sources: Sources): EvaluatedAssertion {
  const { source, comparison, property, target, regex } = assertion;
  const item = { source, comparison, property, target, regex };
  let subject: Subject | undefined;
  try {
    subject = subjectOf(assertion, sources[source]);
    const passed = holds(subject, assertion);
    return { ...item, actual: shown(subject), error: null, passed };
  } catch (error) {
    if (error instanceof TooSlow) throw error;
    return { ...item, actual: subject ? shown(subject) : null, error: reasonOf(error), passed: false };
  }
}

function holds({ values, mode, caselessKeys }: Subject, assertion: Assertion): boolean {
  const { comparison } = assertion;
  const target =
    caselessKeys && comparison.endsWith('HAS_KEY') ? assertion.target.trim().toLowerCase() : assertion.target;
  if (values.length === 0) return compare(undefined, comparison, target);
  const one = (value: unknown): boolean => compare(value, comparison, target);
  // "None of several header values equals x" is what NOT_EQUALS means, so only the positive ones are "any".
  return mode === 'any' && !comparison.includes('NOT_') ? values.some(one) : values.every(one);
}

function subjectOf(assertion: Assertion, source: Source | undefined): Subject {
  const { property, regex } = assertion;
  switch (source?.kind) {
    case undefined:
      throw new Incomparable(`this result has no ${assertion.source}`);
    case 'value':
      return { values: [source.value], mode: 'all' };
    case 'text':
      return extracted({ values: [captured(source.read(), property)], mode: 'all' }, regex);
    case 'json':
      return extracted({ values: jsonValues(source.read(), property), mode: 'all' }, regex);
    case 'headers':
      return extracted(headerValues(source.headers, property), regex);
    case 'fields':
      return { values: [fieldOf(source.fields, property)], mode: 'all' };
  }
}

function jsonValues(document: unknown, path: string): unknown[] {
  if (path === '') return [document];
  // `Answer[0].data` is what people write where only one document can be meant.
  return selectValues(document, /^[$]/.test(path) ? path : path.startsWith('[') ? `$${path}` : `$.${path}`);
}

function headerValues(headers: Readonly<Record<string, string | string[]>>, name: string): Subject {
  if (name === '') return { values: [headers], mode: 'all', caselessKeys: true };
  const key = name.trim().toLowerCase();
  const value = Object.hasOwn(headers, key) ? headers[key] : undefined;
  if (value === undefined) return { values: [], mode: 'all' };
  return { values: Array.isArray(value) ? value : [value], mode: 'any' };
}

function fieldOf(fields: Readonly<Record<string, number | null>>, property: string): number | null {
  const name = property === '' ? Object.keys(fields)[0] : property;
  const value = name !== undefined && Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (value !== undefined) return value;
  throw new Incomparable(`the property must be one of ${Object.keys(fields).join(', ')}`);
}

/** The second extraction, on each text value. */
function extracted(subject: Subject, regex: string | null): Subject {
  if (regex === null || regex === '') return subject;
  const regExp = compilePattern(regex);
  // One limit for all: a list may have 100,000 values.
  const values = within(PATTERN_LIMIT_MS, () =>
    subject.values.map((value) =>
      typeof value === 'object' && value !== null ? value : capture(regExp, String(value)),
    ),
  );
  return { ...subject, values };
}

function captured(text: string, pattern: string): string | null {
  if (pattern === '') return text;
  const regExp = compilePattern(pattern);
  return within(PATTERN_LIMIT_MS, () => capture(regExp, text));
}

/**
 * First capture group of the first match; null without a match. The whole match is never taken, so a
 * pattern without a group can yield nothing and says so instead of failing silently for ever.
 */
function capture(regExp: RegExp, text: string): string | null {
  const match = regExp.exec(text);
  if (match && match.length < 2) {
    throw new Incomparable(
      `the regular expression has no capture group; put the part to compare in (…): ${regExp.source}`,
    );
  }
  return match?.[1] ?? null;
}

function compilePattern(pattern: string): RegExp {
  try {
    return new RegExp(pattern);
  } catch (error) {
    throw new Incomparable(messageOf(error));
  }
}

function shown({ values }: Subject): EvaluatedAssertion['actual'] {
  const value = values.length === 1 ? values[0] : values.length === 0 ? null : values;
  if (value === undefined || value === null) return null;
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  return preview(value, 10_240);
}

function reasonOf(error: unknown): string {
  // Documents nested tens of thousands deep exhaust the stack of every recursive reader.
  if (error instanceof RangeError) return 'the value is nested too deep';
  return messageOf(error);
}

/** The same sources, each read at most once: bodies have up to 25 MB. A failure is remembered too. */
function remembering(sources: Sources): Sources {
  return Object.fromEntries(
    Object.entries(sources).map(([name, source]) => [
      name,
      source.kind === 'text' || source.kind === 'json'
        ? { ...source, read: once(() => source.read()) }
        : source,
    ]),
  ) as Sources;
}

function once<T>(read: () => T): () => T {
  let outcome: { value: T } | { error: unknown } | undefined;
  return () => {
    if (outcome === undefined) {
      try {
        outcome = { value: read() };
      } catch (error) {
        outcome = { error };
      }
    }
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  };
}
