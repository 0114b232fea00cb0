/** Blocks of three bytes are hashed into this many places; 32 KB of shifts stay in the first cache. */
const HASH_MASK = 0x7fff;
const HEAD = 4;

/** Places in bytes, as start and end in turn: disjoint, not touching, in order. */
export type Spans = number[];

/**
 * Finds a fixed set of patterns in bytes (Wu-Manber). A window of the patterns' first bytes moves over the
 * text; the hash of its last three says how far it may move on without missing anything, 5.4 bytes on
 * average for 600 patterns. Only where that is 0 patterns are compared, by narrowing down their sorted
 * list byte by byte, so that the worst text costs (longest pattern × log patterns) per byte.
 */
export class Matcher {
  readonly #window: number;
  readonly #shifts: Uint8Array;
  /** How far to move on from a place whose shift is 0. */
  readonly #nextShifts: Uint8Array;
  /** Every pattern, sorted. */
  readonly #bytes: Uint8Array;
  readonly #offsets: Int32Array;
  /** The distinct first four bytes, as numbers, and where in the sorted list each begins. */
  readonly #heads: Uint32Array;
  readonly #begins: Int32Array;

  /** @param patterns distinct, each at least `window` bytes; `window` is at least 4 */
  constructor(patterns: readonly Buffer[], window: number) {
    const sorted = [...patterns].sort((a, b) => Buffer.compare(a, b));
    this.#window = window;
    this.#bytes = Buffer.concat(sorted);
    this.#offsets = new Int32Array(sorted.length + 1);
    this.#shifts = new Uint8Array(HASH_MASK + 1).fill(window - 2);
    this.#nextShifts = new Uint8Array(HASH_MASK + 1).fill(window - 2);
    const heads: number[] = [];
    const begins: number[] = [];
    sorted.forEach((pattern, i) => {
      this.#offsets[i + 1] = this.#offsets[i]! + pattern.length;
      const head = pattern.readUInt32BE(0);
      if (head !== heads.at(-1)) {
        heads.push(head);
        begins.push(i);
      }
      for (let last = 2; last < window; last++) {
        const hash = hashAt(pattern, last);
        const shift = window - 1 - last;
        this.#shifts[hash] = Math.min(this.#shifts[hash]!, shift);
        if (shift > 0) this.#nextShifts[hash] = Math.min(this.#nextShifts[hash]!, shift);
      }
    });
    this.#heads = Uint32Array.from(heads);
    this.#begins = Int32Array.from([...begins, sorted.length]);
  }

  /** What patterns cover, of those that begin before `limit` and end by `end`. */
  scan(bytes: Uint8Array, limit: number, end: number): Spans {
    const spans: Spans = [];
    const shifts = this.#shifts;
    const back = this.#window - 1;
    const stop = Math.min(limit + back, end);
    let last = back;
    while (last < stop) {
      const hash = ((bytes[last - 2]! << 10) ^ (bytes[last - 1]! << 5) ^ bytes[last]!) & HASH_MASK;
      const shift = shifts[hash]!;
      if (shift !== 0) {
        last += shift;
        continue;
      }
      const length = this.#longestAt(bytes, last - back, end);
      if (length > 0) cover(spans, last - back, last - back + length);
      last += this.#nextShifts[hash]!;
    }
    return spans;
  }

  /** Length of the longest pattern that stands at `at`; 0 for none. */
  #longestAt(bytes: Uint8Array, at: number, end: number): number {
    const head = ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
    const found = indexOf(this.#heads, head);
    if (found < 0) return 0;
    let low = this.#begins[found]!;
    let high = this.#begins[found + 1]!;
    let longest = 0;
    for (let depth = HEAD; ; depth++) {
      // A pattern that ends here sorts before those that go on.
      if (this.#offsets[low + 1]! - this.#offsets[low]! === depth) {
        longest = depth;
        low++;
      }
      if (low === high || at + depth >= end) return longest;
      const byte = bytes[at + depth]!;
      if (this.#byteOf(low, depth) !== byte) low = this.#firstFrom(byte, depth, low, high);
      if (low === high || this.#byteOf(low, depth) !== byte) return longest;
      if (this.#byteOf(high - 1, depth) !== byte) high = this.#firstFrom(byte + 1, depth, low, high);
    }
  }

  #byteOf(pattern: number, depth: number): number {
    return this.#bytes[this.#offsets[pattern]! + depth]!;
  }

  /** The first of patterns `low` to `high` whose byte at `depth` is at least `byte`; `high` for none. */
  #firstFrom(byte: number, depth: number, low: number, high: number): number {
    let [from, to] = [low, high];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.#byteOf(middle, depth) < byte) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

function hashAt(bytes: Uint8Array, last: number): number {
  return ((bytes[last - 2]! << 10) ^ (bytes[last - 1]! << 5) ^ bytes[last]!) & HASH_MASK;
}

function indexOf(sorted: Uint32Array, value: number): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (sorted[middle]! < value) from = middle + 1;
    else to = middle;
  }
  return sorted[from] === value ? from : -1;
}

/** Adds a place that begins at or after the last one's beginning. */
function cover(spans: Spans, start: number, end: number): void {
  const last = spans.length - 1;
  if (last > 0 && start <= spans[last]!) spans[last] = Math.max(spans[last]!, end);
  else spans.push(start, end);
}

/** What either covers. */
export function union(a: Spans, b: Spans): Spans {
  if (a.length === 0) return b;
  if (b.length === 0) return a;
  const both: Spans = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    const takeA = j >= b.length || (i < a.length && a[i]! <= b[j]!);
    if (takeA) cover(both, a[i]!, a[i++ + 1]!);
    else cover(both, b[j]!, b[j++ + 1]!);
    if (takeA) i++;
    else j++;
  }
  return both;
}
