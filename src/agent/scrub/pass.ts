import { MAX_PATTERN_BYTES, type Engine } from './engine.ts';
import { MASK } from './forms.ts';
import type { Spans } from './matcher.ts';

const MASK_BYTES = Buffer.from(MASK);
const NOTHING = Buffer.alloc(0);
/** What stays behind of each chunk: a place may begin here and end in the next. */
const CARRY_BYTES = MAX_PATTERN_BYTES - 1;

/** One text on its way through the scrubber, in chunks of any size. Memory is about three chunks. */
export class Pass {
  /** Places that were masked so far. */
  hits = 0;
  readonly #engineNow: () => Engine | undefined;
  readonly #numbers: NumbersStay | undefined;
  /** The carry, at `from` to `to`, and room for a chunk. */
  #work = NOTHING;
  #from = 0;
  #to = 0;
  #out = NOTHING;
  /** Where the last masked place ends, counted from the carry; -1 when it ended earlier. */
  #open = -1;
  #isClosed = false;

  /**
   * @param engineNow asked at each chunk, since a running script may add secrets
   * @param isJson numbers stay as they are, since the mask would make the whole unreadable
   */
  constructor(engineNow: () => Engine | undefined, isJson: boolean) {
    this.#engineNow = engineNow;
    this.#numbers = isJson && engineNow()?.hasNumbers === true ? new NumbersStay() : undefined;
  }

  /** @returns what can leave now; its bytes are good until the next call */
  push(chunk: Uint8Array): Buffer {
    const engine = this.#engineNow();
    if (engine?.overfull === true) return this.#maskAll();
    this.#append(chunk);
    return this.#advance(engine, engine === undefined ? this.#to : Math.max(0, this.#to - CARRY_BYTES));
  }

  /** @returns the rest */
  end(): Buffer {
    const engine = this.#engineNow();
    if (engine?.overfull === true) return this.#maskAll();
    this.#append(NOTHING);
    return this.#advance(engine, this.#to);
  }

  #maskAll(): Buffer {
    if (this.#isClosed) return NOTHING;
    this.#isClosed = true;
    this.hits++;
    return MASK_BYTES;
  }

  #append(chunk: Uint8Array): void {
    const carried = this.#to - this.#from;
    const length = carried + chunk.length;
    if (this.#work.length >= length) this.#work.copyWithin(0, this.#from, this.#to);
    else {
      const larger = Buffer.allocUnsafe(chunk.length + CARRY_BYTES);
      this.#work.copy(larger, 0, this.#from, this.#to);
      this.#work = larger;
    }
    this.#work.set(chunk, carried);
    this.#from = 0;
    this.#to = length;
  }

  /** Decides about what begins before `limit`; the rest is looked at again with more behind it. */
  #advance(engine: Engine | undefined, limit: number): Buffer {
    const work = this.#work;
    this.#numbers?.look(work);
    const spans = engine?.find(work, limit, this.#to, this.#numbers) ?? [];
    this.#numbers?.pass(limit);
    this.#from = limit;
    return spans.length === 0 && this.#open < 0 ? work.subarray(0, limit) : this.#mask(spans, limit);
  }

  #mask(spans: Spans, limit: number): Buffer {
    // Four bytes at least become nine, and at least one other lies between two places.
    const most = 2 * limit + MASK_BYTES.length;
    if (this.#out.length < most) this.#out = Buffer.allocUnsafe(most);
    let written = 0;
    let open = this.#open;
    for (let i = 0; i < spans.length; i += 2) {
      const start = spans[i]!;
      if (start > open) {
        written += this.#work.copy(this.#out, written, Math.max(open, 0), start);
        written += MASK_BYTES.copy(this.#out, written);
        this.hits++;
      }
      open = Math.max(open, spans[i + 1]!);
    }
    if (open < limit) written += this.#work.copy(this.#out, written, Math.max(open, 0), limit);
    this.#open = open >= limit ? open - limit : -1;
    return this.#out.subarray(0, written);
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const NEWLINE = 0x0a;

/** Knows which bytes of JSON are in a string. A line begins outside, as where each line is one value. */
class NumbersStay {
  #work: Uint8Array = NOTHING;
  #at = 0;
  #inString = false;
  #escaped = false;

  look(work: Uint8Array): void {
    this.#work = work;
  }

  /** @param place at or after the last one */
  isString(place: number): boolean {
    for (; this.#at < place; this.#at++) {
      const byte = this.#work[this.#at]!;
      if (byte === NEWLINE) this.#inString = this.#escaped = false;
      else if (this.#escaped) this.#escaped = false;
      else if (this.#inString && byte === BACKSLASH) this.#escaped = true;
      else if (byte === QUOTE) this.#inString = !this.#inString;
    }
    return this.#inString;
  }

  pass(limit: number): void {
    this.isString(limit);
    this.#at -= limit;
  }
}
