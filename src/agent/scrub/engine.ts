import { formsOf } from './forms.ts';
import { Matcher, type Spans, union } from './matcher.ts';

/**
 * A longer form is looked for in pieces: what waits for the next chunk stays this small, and so does what
 * the worst text can cost.
 */
export const MAX_PATTERN_BYTES = 63;
const PIECE_BYTES = 32;
/**
 * The window is as long as the shortest form, since a longer one moves further: 1.0 GB/s with 8 bytes,
 * 2.1 with 16. Shorter forms, of secrets under 8 bytes, get a pass of their own.
 */
const LONG_WINDOW = 8;
const LONGEST_WINDOW = 16;
const SHORT_WINDOW = 4;
/** No JSON number is written with more digits. */
const NUMBER = /^\d{1,21}$/;
/** What one run may ask to look for; beyond it nothing but the mask leaves. */
const MAX_SECRETS = 1000;
const MAX_FORM_BYTES = 4 * 1024 * 1024;
/** Nearly all runs of a location have the same few secrets. */
const MAX_KEPT = 16;

/** Where the forms of one set of secrets are. Never changes, so runs with the same secrets share it. */
export class Engine {
  /** More than can be looked for: everything has to be taken for a secret. */
  readonly overfull: boolean;
  /** A shorter text holds no form, in UTF-16 units. */
  readonly shortestChars: number;
  readonly #matchers: readonly Matcher[];
  /** For digits that also stand in JSON as a number. */
  readonly #numberMatchers: readonly Matcher[];

  constructor(secrets: ReadonlySet<string> | 'everything') {
    const forms = secrets === 'everything' ? undefined : collectForms(secrets);
    this.overfull = forms === undefined;
    const all = [...(forms ?? [])];
    this.shortestChars = all.reduce((least, { length }) => Math.min(least, length), Infinity);
    this.#matchers = matchersFor(all.filter((form) => !NUMBER.test(form)));
    this.#numberMatchers = matchersFor(all.filter((form) => NUMBER.test(form)));
  }

  get hasNumbers(): boolean {
    return this.#numberMatchers.length > 0;
  }

  /**
   * Places that begin before `limit` and end by `end`.
   *
   * @param json says what is in a string of JSON; numbers elsewhere are left out
   */
  find(bytes: Uint8Array, limit: number, end: number, json?: { isString(place: number): boolean }): Spans {
    const spans = scanAll(this.#matchers, bytes, limit, end);
    if (!this.hasNumbers) return spans;
    const numbers = scanAll(this.#numberMatchers, bytes, limit, end);
    return union(spans, json === undefined ? numbers : inStrings(numbers, json));
  }
}

function matchersFor(forms: readonly string[]): Matcher[] {
  const patterns = forms.flatMap((form) => piecesOf(Buffer.from(form)));
  const long = patterns.filter(({ length }) => length >= LONG_WINDOW);
  const short = patterns.filter(({ length }) => length < LONG_WINDOW);
  return [
    ...(long.length === 0 ? [] : [new Matcher(distinct(long), windowFor(long))]),
    ...(short.length === 0 ? [] : [new Matcher(distinct(short), SHORT_WINDOW)]),
  ];
}

const windowFor = (patterns: readonly Buffer[]): number =>
  patterns.reduce((least, { length }) => Math.min(least, length), LONGEST_WINDOW);

function scanAll(matchers: readonly Matcher[], bytes: Uint8Array, limit: number, end: number): Spans {
  let spans: Spans = [];
  for (const matcher of matchers) spans = union(spans, matcher.scan(bytes, limit, end));
  return spans;
}

const kept = new Map<string, Engine>();

/** The engine for these secrets, or for taking everything for one; undefined when there is nothing to look for. */
export function engineFor(secrets: ReadonlySet<string> | 'everything'): Engine | undefined {
  if (secrets === 'everything') return new Engine(secrets);
  if (secrets.size === 0) return undefined;
  const key = JSON.stringify([...secrets].sort());
  const engine = kept.get(key) ?? new Engine(secrets);
  kept.delete(key);
  kept.set(key, engine);
  const [oldest] = kept.keys();
  if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
  return engine;
}

/** Undefined when they are too many. */
function collectForms(secrets: ReadonlySet<string>): ReadonlySet<string> | undefined {
  if (secrets.size > MAX_SECRETS) return undefined;
  const forms = new Set<string>();
  let bytes = 0;
  for (const secret of secrets) {
    // A first look, before the forms of something huge are made.
    if (bytes + 4 * secret.length > MAX_FORM_BYTES) return undefined;
    for (const form of formsOf(secret)) {
      if (forms.has(form)) continue;
      forms.add(form);
      bytes += form.length;
    }
  }
  return bytes > MAX_FORM_BYTES ? undefined : forms;
}

/** Cut between characters. No piece is short: the last one has what a piece leaves of the most. */
function piecesOf(form: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  let at = 0;
  while (form.length - at > MAX_PATTERN_BYTES) {
    let end = at + PIECE_BYTES;
    while ((form[end]! & 0xc0) === 0x80) end--;
    pieces.push(form.subarray(at, end));
    at = end;
  }
  return [...pieces, form.subarray(at)];
}

function distinct(patterns: readonly Buffer[]): Buffer[] {
  return [...new Map(patterns.map((pattern) => [pattern.toString('latin1'), pattern])).values()];
}

function inStrings(spans: Spans, json: { isString(place: number): boolean }): Spans {
  const inside: Spans = [];
  for (let i = 0; i < spans.length; i += 2) {
    if (json.isString(spans[i]!)) inside.push(spans[i]!, spans[i + 1]!);
  }
  return inside;
}
