const LF = 10;
const CR = 13;

interface Taken {
  /** Latin-1, without the line end that closes it. */
  text: string;
  rest: Buffer;
}

/**
 * Keeps the bytes of a head or of a line until its end has come. A head mostly comes whole in one read,
 * then nothing is copied; one that drips in byte by byte is looked at once, not once per byte.
 */
export class HeadBuffer {
  #kept: Buffer = Buffer.alloc(0);
  #size = 0;
  /** Up to here no end was found. */
  #scanned = 0;

  /** Bytes of the part that is being taken; 0 after it was. */
  get size(): number {
    return this.#size;
  }

  /** Everything up to the first empty line; empty lines in front are skipped. */
  takeHead(bytes: Buffer): Taken | undefined {
    const all = this.#with(bytes);
    let start = 0;
    while (all[start] === CR || all[start] === LF) start++;
    for (let at = Math.max(this.#scanned, start); ;) {
      const lineEnd = all.indexOf(LF, at);
      if (lineEnd === -1) break;
      const next = all[lineEnd + 1] === CR ? lineEnd + 2 : lineEnd + 1;
      if (all[next] === LF) return this.#cut(all, start, lineEnd, next + 1);
      at = lineEnd + 1;
    }
    // The end may have begun: a line feed and a carriage return.
    this.#keep(all, Math.max(0, all.length - 3));
    return undefined;
  }

  takeLine(bytes: Buffer): Taken | undefined {
    const all = this.#with(bytes);
    const lineEnd = all.indexOf(LF, this.#scanned);
    if (lineEnd !== -1) return this.#cut(all, 0, lineEnd, lineEnd + 1);
    this.#keep(all, all.length);
    return undefined;
  }

  /** Whether what has come so far can be the beginning of an answer. */
  mayBeHttp(): boolean {
    const begun = this.#kept.toString('latin1', 0, Math.min(this.#size, 64)).replace(/^[\r\n]+/, '');
    const expected = 'HTTP/'.slice(0, begun.length);
    return begun.slice(0, 5).toUpperCase() === expected;
  }

  #with(bytes: Buffer): Buffer {
    if (this.#size === 0) return bytes;
    const size = this.#size + bytes.length;
    if (size > this.#kept.length) {
      const larger = Buffer.alloc(Math.max(size, 2 * this.#kept.length));
      this.#kept.copy(larger, 0, 0, this.#size);
      this.#kept = larger;
    }
    bytes.copy(this.#kept, this.#size);
    return this.#kept.subarray(0, size);
  }

  #keep(all: Buffer, scanned: number): void {
    if (this.#size === 0) this.#kept = Buffer.from(all);
    this.#size = all.length;
    this.#scanned = scanned;
  }

  #cut(all: Buffer, start: number, end: number, next: number): Taken {
    const textEnd = end > start && all[end - 1] === CR ? end - 1 : end;
    // What was kept is ours alone and is written over by the next part; the rest must not be.
    const rest = this.#size === 0 ? all.subarray(next) : Buffer.from(all.subarray(next));
    const text = all.toString('latin1', start, textEnd);
    this.#size = 0;
    this.#scanned = 0;
    return { text, rest };
  }
}
