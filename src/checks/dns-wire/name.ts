import { domainToASCII } from 'node:url';

/** A name that cannot be put into a query. `message` says what is wrong with it. */
export class BadName extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BadName';
  }
}

const MAX_LABEL = 63;
const MAX_NAME = 255;

/**
 * The ASCII form of a name: international labels become punycode, ASCII stays byte for byte (case,
 * underscores and escapes included).
 */
export function toAscii(name: string): string {
  // oxlint-disable-next-line no-control-regex -- the point is to find what is not ASCII
  if (/^[\x00-\x7f]*$/.test(name)) return name;
  const ascii = domainToASCII(name);
  if (ascii === '') throw new BadName(`${name} is not a valid international name`);
  return ascii;
}

/**
 * Wire form of a name in presentation format (`\.` and `\032` escapes, with or without a last dot).
 *
 * @throws BadName for empty or over-long labels and over-long names
 */
export function encodeName(text: string): Buffer {
  if (text === '.' || text === '') return Buffer.of(0);
  const wire = Buffer.alloc(MAX_NAME + 2);
  let labelStart = 0;
  let end = 1;
  const closeLabel = (): void => {
    const length = end - labelStart - 1;
    if (length === 0) throw new BadName(`${text} has an empty label`);
    if (length > MAX_LABEL) throw new BadName(`${text} has a label longer than ${MAX_LABEL} characters`);
    wire[labelStart] = length;
    labelStart = end++;
  };
  const input = Buffer.from(text, 'utf8');
  for (let i = 0; i < input.length; i++) {
    if (end > MAX_NAME) throw new BadName(`${text} is longer than ${MAX_NAME} bytes`);
    const byte = input[i]!;
    if (byte === DOT) closeLabel();
    else if (byte === BACKSLASH) {
      const [value, used] = unescape(input, i);
      wire[end++] = value;
      i += used;
    } else wire[end++] = byte;
  }
  if (input.at(-1) !== DOT || end !== labelStart + 1) closeLabel();
  wire[labelStart] = 0;
  if (labelStart + 1 > MAX_NAME) throw new BadName(`${text} is longer than ${MAX_NAME} bytes`);
  return wire.subarray(0, labelStart + 1);
}

const DOT = 0x2e;
const BACKSLASH = 0x5c;

/** Value of the escape at `at`, and how many bytes follow the backslash. */
function unescape(input: Buffer, at: number): [value: number, used: number] {
  const digits = /^\d{3}/.exec(input.toString('latin1', at + 1, at + 4));
  if (digits && Number(digits[0]) <= 255) return [Number(digits[0]), 3];
  const next = input[at + 1];
  if (next === undefined) throw new BadName('a name must not end in a backslash');
  return [next, 1];
}

/**
 * Reads a name at `offset`, following compression. The text is absolute (`example.com.`) with the
 * escapes that dig prints.
 *
 * @throws RangeError when the name leaves the message or its pointers do not lead backwards
 */
export function readName(bytes: Buffer, offset: number): { text: string; next: number } {
  let text = '';
  let total = 1;
  let next = -1;
  // Each pointer must lead before the place it was read from: no loop can pass.
  let limit = offset;
  for (let at = offset; ;) {
    const length = bytes[at];
    if (length === undefined) throw new RangeError('a name runs past the end of the message');
    if (length === 0) return { text: text === '' ? '.' : text, next: next === -1 ? at + 1 : next };
    if (length >= 0xc0) {
      const target = bytes.readUInt16BE(at) & 0x3fff;
      if (target >= limit) throw new RangeError('a compression pointer does not lead backwards');
      if (next === -1) next = at + 2;
      at = limit = target;
      continue;
    }
    if (length > MAX_LABEL) throw new RangeError('a label has an unknown type');
    total += length + 1;
    if (total > MAX_NAME) throw new RangeError(`a name is longer than ${MAX_NAME} bytes`);
    if (at + 1 + length > bytes.length) throw new RangeError('a name runs past the end of the message');
    text += labelText(bytes, at + 1, at + 1 + length) + '.';
    at += length + 1;
  }
}

const PLAIN_LABEL = /^[-\w*/:]+$/;

function labelText(bytes: Buffer, start: number, end: number): string {
  const raw = bytes.toString('latin1', start, end);
  if (PLAIN_LABEL.test(raw)) return raw;
  let text = '';
  for (const char of raw) {
    const code = char.charCodeAt(0);
    if (code <= 0x20 || code >= 0x7f) text += `\\${String(code).padStart(3, '0')}`;
    else text += '"().;\\@$'.includes(char) ? `\\${char}` : char;
  }
  return text;
}

/** Whether two absolute names are the same; DNS ignores the case of ASCII letters. */
export const sameName = (a: string, b: string): boolean => a === b || a.toLowerCase() === b.toLowerCase();
