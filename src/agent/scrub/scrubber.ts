import { Transform } from 'node:stream';
import { engineFor, type Engine } from './engine.ts';
import { isSecret, MASK } from './forms.ts';
import { Pass } from './pass.ts';

/** Replaces the secrets of one run by the mask. */
export interface Scrubber {
  /** There is nothing to look for. */
  readonly empty: boolean;
  /** From now on this value is a secret too. Values under 4 characters, and generic ones, are none. */
  add(secret: string): void;
  text(text: string): string;
  /** Every string and every key of a JSON value; the same value when nothing had to change. */
  value<T>(value: T): T;
  /** A text in chunks of any size, with one answer for each. */
  pass(kind?: { isJson: boolean }): Pass;
  /** The same for a pipeline. */
  stream(): Transform;
}

/** User code may add so many secrets while it runs: each makes the next text pay for a new engine, 20 ms at most. */
const MAX_ADDED = 500;
/** Nothing that a person wrote nests deeper; beyond it only the mask is left. */
const MAX_DEPTH = 200;
/** Texts up to this many units are encoded without an allocation. */
const SCRATCH_CHARS = 16 * 1024;
const scratch = Buffer.allocUnsafe(SCRATCH_CHARS * 3);

export function createScrubber(secrets: Iterable<string>): Scrubber {
  return new SecretScrubber(secrets);
}

class SecretScrubber implements Scrubber {
  readonly #secrets: Set<string>;
  #engine: Engine | undefined;
  #isStale = true;
  #added = 0;

  constructor(secrets: Iterable<string>) {
    this.#secrets = new Set([...secrets].filter(isSecret));
  }

  get empty(): boolean {
    return this.#secrets.size === 0;
  }

  add(secret: string): void {
    if (!isSecret(secret) || this.#secrets.has(secret)) return;
    this.#secrets.add(secret);
    this.#added++;
    this.#isStale = true;
  }

  text(text: string): string {
    const engine = this.#engineNow();
    if (engine === undefined || text.length === 0) return text;
    if (engine.overfull) return MASK;
    return text.length < engine.shortestChars ? text : scrubText(engine, text);
  }

  value<T>(value: T): T {
    const engine = this.#engineNow();
    return engine === undefined ? value : (this.#scrubbed(value, 0) as T);
  }

  pass(kind = { isJson: false }): Pass {
    return new Pass(() => this.#engineNow(), kind.isJson);
  }

  stream(): Transform {
    const pass = this.pass();
    // What a pass gives back is overwritten by the next chunk.
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => done(null, Buffer.from(pass.push(chunk))),
      flush: (done) => done(null, Buffer.from(pass.end())),
    });
  }

  #engineNow(): Engine | undefined {
    if (this.#isStale) {
      this.#engine = engineFor(this.#added > MAX_ADDED ? 'everything' : this.#secrets);
      this.#isStale = false;
    }
    return this.#engine;
  }

  #scrubbed(value: unknown, depth: number): unknown {
    if (typeof value === 'string') return this.text(value);
    if (typeof value !== 'object' || value === null) return value;
    if (depth > MAX_DEPTH) return MASK;
    return Array.isArray(value) ? this.#list(value, depth + 1) : this.#object(value, depth + 1);
  }

  #list(list: readonly unknown[], depth: number): readonly unknown[] {
    let copy: unknown[] | undefined;
    for (const [i, item] of list.entries()) {
      const scrubbed = this.#scrubbed(item, depth);
      if (scrubbed !== item) (copy ??= [...list])[i] = scrubbed;
    }
    return copy ?? list;
  }

  #object(object: object, depth: number): object {
    let changed = false;
    const entries = Object.entries(object).map(([key, value]): [string, unknown] => {
      const entry: [string, unknown] = [this.text(key), this.#scrubbed(value, depth)];
      changed ||= entry[0] !== key || entry[1] !== value;
      return entry;
    });
    return changed ? Object.fromEntries(withDistinctKeys(entries)) : object;
  }
}

/** Two keys may have become the same mask. */
function* withDistinctKeys(entries: readonly [string, unknown][]): Iterable<[string, unknown]> {
  const taken = new Set<string>();
  for (const [key, value] of entries) {
    let name = key;
    for (let i = 2; taken.has(name); i++) name = `${key} ${i}`;
    taken.add(name);
    yield [name, value];
  }
}

function scrubText(engine: Engine, text: string): string {
  const bytes = text.length <= SCRATCH_CHARS ? scratch : Buffer.from(text);
  const length = bytes === scratch ? scratch.write(text) : bytes.length;
  const spans = engine.find(bytes, length, length);
  if (spans.length === 0) return text;
  let scrubbed = '';
  let done = 0;
  for (let i = 0; i < spans.length; i += 2) {
    scrubbed += bytes.toString('utf8', done, spans[i]) + MASK;
    done = spans[i + 1]!;
  }
  return scrubbed + bytes.toString('utf8', done, length);
}
