import { StringDecoder } from 'node:string_decoder';

/** Cuts a stream into lines, whatever its chunks are, and never holds more of a line than the bound. */
export class LineReader {
  readonly #decoder = new StringDecoder('utf8');
  readonly #maxChars: number;
  #parts: string[] = [];
  #length = 0;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  /** @throws RangeError on an endless line */
  push(bytes: Buffer): string[] {
    const lines = this.#decoder.write(bytes).split('\n');
    const rest = lines.pop() ?? '';
    if (lines.length > 0) {
      lines[0] = this.#parts.join('') + lines[0]!;
      this.#parts = [];
      this.#length = 0;
    }
    if (rest !== '') this.#parts.push(rest);
    this.#length += rest.length;
    if (this.#length > this.#maxChars) throw new RangeError('line too long');
    return lines;
  }
}
