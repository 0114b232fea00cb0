import { STATUS_CODES } from '../../kit/node-http.ts';
import { HeadBuffer } from './head-buffer.ts';

/** Status line and header fields of an answer. */
export interface Head {
  status: number;
  statusText: string;
  httpVersion: string;
  /** By lower-case name; repeated fields joined by ", ", but set-cookie always a list. */
  headers: Record<string, string | string[]>;
}

/** Told what the answer holds as it arrives; the reader stops after `onEnd` or when told to. */
export interface AnswerSink {
  /** @returns false to read no body */
  onHead(head: Head): boolean;
  /** @returns false to read no further */
  onBody(bytes: Buffer): boolean;
  /** The answer is complete, as far as it was wanted. */
  onEnd(): void;
}

/** Real sites send 20 KB of headers and curl takes 300 KB; beyond this the answer is a clear failure. */
const HEADER_LIMIT_BYTES = 256 * 1024;
/** A line before a chunk: its size and extensions. */
const CHUNK_LINE_LIMIT_BYTES = 16 * 1024;

/** What is expected next on the connection. */
type State = 'head' | 'length' | 'until-close' | 'chunk-size' | 'chunk' | 'chunk-end' | 'trailers' | 'done';

/**
 * Reads one HTTP/1.x answer from the bytes of a connection of its own, RFC 9112, as forgiving as curl:
 * bare line feeds, folded fields and a length besides chunks are taken. What makes these dangerous is a
 * connection that others share, and this one ends with the answer.
 *
 * Node's own client costs twice the CPU of the whole rest of a check (measured: 0.10 against 0.05 ms),
 * most of it for what a check does not want: agents, keep-alive, streams.
 */
export class AnswerReader {
  readonly #sink: AnswerSink;
  readonly #isHead: boolean;
  readonly #lines = new HeadBuffer();
  #state: State = 'head';
  /** Bytes of the body, or of the present chunk, that are still to come. */
  #left = 0;
  /** Of interim answers and trailers, which are read for nothing and may have no end. */
  #idleBytes = 0;

  constructor(method: string, sink: AnswerSink) {
    this.#isHead = method === 'HEAD';
    this.#sink = sink;
  }

  get isDone(): boolean {
    return this.#state === 'done';
  }

  /** The head is there, the body is not complete. */
  get isInBody(): boolean {
    return this.#state !== 'done' && this.#state !== 'head';
  }

  /** @throws InvalidAnswer when the bytes are not HTTP */
  push(bytes: Buffer): void {
    let rest: Buffer | undefined = bytes;
    while (rest !== undefined && rest.length > 0 && this.#state !== 'done') rest = this.#take(rest);
  }

  /** The peer has closed the connection. @returns whether the answer is complete */
  close(): boolean {
    if (this.#state === 'until-close') this.#end();
    return this.isDone;
  }

  /** Consumes from `bytes`. @returns what is left, or undefined when all was kept for later */
  #take(bytes: Buffer): Buffer | undefined {
    switch (this.#state) {
      case 'head':
        return this.#takeHead(bytes);
      case 'until-close':
        this.#give(bytes);
        return undefined;
      case 'length':
        return this.#takeCounted(bytes, 'done');
      case 'chunk':
        return this.#takeCounted(bytes, 'chunk-end');
      case 'chunk-size':
        return this.#takeLine(bytes, (line) => this.#startChunk(line));
      case 'chunk-end':
        return this.#takeLine(bytes, (line) => {
          if (line !== '') throw invalid('HPE_INVALID_CHUNK_SIZE', 'a chunk is longer than it says');
          this.#state = 'chunk-size';
        });
      case 'trailers':
        return this.#takeLine(bytes, (line) => {
          this.#countIdle(line);
          if (line === '') this.#end();
        });
      case 'done':
        return undefined;
    }
  }

  #takeHead(bytes: Buffer): Buffer | undefined {
    const taken = this.#lines.takeHead(bytes);
    if (this.#lines.size > HEADER_LIMIT_BYTES) throw invalid('HPE_HEADER_OVERFLOW', 'too many header fields');
    if (taken === undefined) {
      if (!this.#lines.mayBeHttp()) throw notHttp();
      return undefined;
    }
    const head = parseHead(taken.text);
    // Interim answers come before the one that counts; 101 asks for nothing more to be read here.
    if (head.status >= 100 && head.status < 200 && head.status !== 101) {
      this.#countIdle(taken.text);
      return taken.rest;
    }
    const framing = this.#framingOf(head);
    const isWanted = this.#sink.onHead(head);
    if (!isWanted || framing === 'none' || (framing === 'length' && this.#left === 0)) this.#end();
    else this.#state = framing;
    return taken.rest;
  }

  /** RFC 9112, 6.3. */
  #framingOf({ status, headers }: Head): 'none' | 'length' | 'until-close' | 'chunk-size' {
    if (this.#isHead || status === 101 || status === 204 || status === 304) return 'none';
    const coding = String(headers['transfer-encoding'] ?? '').toLowerCase();
    if (coding !== '') return /(^|,)\s*chunked\s*$/.test(coding) ? 'chunk-size' : 'until-close';
    const length = headers['content-length'];
    if (length === undefined) return 'until-close';
    this.#left = parseLength(String(length));
    return 'length';
  }

  #startChunk(line: string): void {
    const size = /^[ \t]*([0-9a-f]{1,13})[ \t]*(;|$)/i.exec(line)?.[1];
    if (size === undefined) throw invalid('HPE_INVALID_CHUNK_SIZE', 'a chunk starts without its size');
    this.#left = parseInt(size, 16);
    this.#state = this.#left === 0 ? 'trailers' : 'chunk';
  }

  #takeCounted(bytes: Buffer, next: 'done' | 'chunk-end'): Buffer | undefined {
    const mine = bytes.length <= this.#left ? bytes : bytes.subarray(0, this.#left);
    this.#left -= mine.length;
    this.#give(mine);
    if (this.#left === 0 && !this.isDone) {
      if (next === 'done') this.#end();
      else this.#state = next;
    }
    return mine === bytes ? undefined : bytes.subarray(mine.length);
  }

  #takeLine(bytes: Buffer, use: (line: string) => void): Buffer | undefined {
    const taken = this.#lines.takeLine(bytes);
    if (this.#lines.size > (this.#state === 'trailers' ? HEADER_LIMIT_BYTES : CHUNK_LINE_LIMIT_BYTES)) {
      throw invalid('HPE_INVALID_CHUNK_SIZE', 'the line between two chunks does not end');
    }
    if (taken === undefined) return undefined;
    use(taken.text);
    return taken.rest;
  }

  #countIdle(text: string): void {
    this.#idleBytes += text.length;
    if (this.#idleBytes > HEADER_LIMIT_BYTES) throw invalid('HPE_HEADER_OVERFLOW', 'too many header fields');
  }

  #give(bytes: Buffer): void {
    if (bytes.length > 0 && !this.#sink.onBody(bytes)) this.#end();
  }

  #end(): void {
    if (this.#state === 'done') return;
    this.#state = 'done';
    this.#sink.onEnd();
  }
}

/** The bytes are no HTTP answer. `code` is the one that Node's own parser uses for the same thing. */
class InvalidAnswer extends Error {
  readonly code: string;
  constructor(code: string, reason: string) {
    super(reason);
    this.name = 'InvalidAnswer';
    this.code = code;
  }
}

const invalid = (code: string, reason: string): InvalidAnswer => new InvalidAnswer(code, reason);

const notHttp = (): InvalidAnswer =>
  invalid('HPE_INVALID_CONSTANT', 'Expected HTTP/, the start of a status line');

/** Higher versions stand there by mistake: curl goes on in HTTP/1.1, which is what was asked for. */
const STATUS_LINE = /^HTTP\/(1\.\d|2(?:\.0)?) +(\d{3})(?:[ \t]+(.*))?$/i;

/** @throws InvalidAnswer */
function parseHead(text: string): Head {
  const lines = text.split(/\r?\n/);
  const [, httpVersion, digits, reason] = STATUS_LINE.exec(lines[0]?.trimEnd() ?? '') ?? [];
  if (httpVersion === undefined || digits === undefined) {
    if (!/^HTTP\//i.test(text)) throw notHttp();
    const isVersion = /^HTTP\/(1\.\d|2(\.0)?) /i.test(text);
    throw isVersion
      ? invalid('HPE_INVALID_STATUS', 'the status line has no status of three digits')
      : invalid('HPE_INVALID_VERSION', 'the status line names no version of HTTP that is known');
  }
  const status = Number(digits);
  return {
    status,
    statusText: utf8Of(reason ?? '') || STATUS_CODES[status] || '',
    httpVersion,
    headers: parseFields(lines),
  };
}

/** Cannot be joined: browsers and curl take the first of several. */
const SINGLE_FIELDS = new Set(['location', 'content-type']);
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;

/** Fields from the second line on. @throws InvalidAnswer */
function parseFields(lines: string[]): Head['headers'] {
  const headers: Head['headers'] = {};
  for (let at = 1; at < lines.length; at++) {
    let line = lines[at] ?? '';
    if (line === '') continue;
    // A folded field goes on in lines that start with a blank.
    while (/^[ \t]/.test(lines[at + 1] ?? '')) line += ` ${lines[++at]!.trim()}`;
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(colon, 0)).trimEnd().toLowerCase();
    if (!TOKEN.test(name)) {
      throw invalid(
        'HPE_INVALID_HEADER_TOKEN',
        `this is not a header field: ${JSON.stringify(line.slice(0, 80))}`,
      );
    }
    addField(headers, name, utf8Of(line.slice(colon + 1).trim()));
  }
  return headers;
}

function addField(headers: Head['headers'], name: string, value: string): void {
  if (value.includes('\0')) {
    throw invalid('HPE_INVALID_HEADER_TOKEN', `the header ${name} contains a NUL byte`);
  }
  const known = Object.hasOwn(headers, name) ? headers[name] : undefined;
  if (Array.isArray(known)) known.push(value);
  else if (name === 'set-cookie') headers[name] = [value];
  else if (name === '__proto__' || (known !== undefined && SINGLE_FIELDS.has(name))) return;
  else headers[name] = known === undefined ? value : `${known}, ${value}`;
}

/** The same length may be said several times; different ones are an attack or a bug. @throws InvalidAnswer */
function parseLength(text: string): number {
  const lengths = new Set(text.split(',').map((each) => each.trim()));
  const [length = ''] = lengths;
  if (lengths.size > 1) {
    throw invalid('HPE_UNEXPECTED_CONTENT_LENGTH', `Content-Length says different things: ${text}`);
  }
  if (!/^\d{1,15}$/.test(length)) {
    throw invalid('HPE_INVALID_CONTENT_LENGTH', `Content-Length is not a number: ${JSON.stringify(text)}`);
  }
  return Number(length);
}

/** Header bytes arrive as Latin-1; servers that send more than ASCII mostly mean UTF-8. */
function utf8Of(value: string): string {
  // oxlint-disable-next-line no-control-regex -- the point is to find what is not ASCII
  if (/^[\x00-\x7f]*$/.test(value)) return value;
  const decoded = Buffer.from(value, 'latin1').toString('utf8');
  return decoded.includes('\uFFFD') ? value : decoded;
}
