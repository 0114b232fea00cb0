import { Readable } from 'node:stream';
import { errorBody } from './errors.ts';

/** What a route answers instead of JSON: a file, or the part of it that was asked for. */
export class FileAnswer {
  readonly status: 200 | 206 | 416;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readable | object;

  private constructor(
    status: FileAnswer['status'],
    headers: Record<string, string>,
    body: Readable | object,
  ) {
    this.status = status;
    this.headers = headers;
    this.body = body;
  }

  static of(file: StoredFile, asked: Asked): FileAnswer {
    const { size } = file;
    const headers = headersOf(file);
    const range = asked.ifRange === undefined || asked.ifRange === headers.etag ? asked.range : undefined;
    const part = rangeOf(range, size);
    if (part === 'none') {
      const message = `range: the file has ${size} bytes`;
      return new FileAnswer(416, { 'content-range': `bytes */${size}` }, errorBody(416, message));
    }
    const { start, end } = part ?? { start: 0, end: size };
    const body = Readable.from(file.read(start, end), { objectMode: false });
    const length = { 'content-length': String(end - start) };
    if (part === undefined) return new FileAnswer(200, { ...headers, ...length }, body);
    const place = { 'content-range': `bytes ${start}-${end - 1}/${size}` };
    return new FileAnswer(206, { ...headers, ...length, ...place }, body);
  }
}

export interface StoredFile {
  name: string;
  contentType: string;
  size: number;
  /** Changes with the bytes. */
  tag: string;
  /** Bytes from `start` to before `end`. */
  read(start: number, end: number): AsyncIterable<Buffer>;
}

/** Headers of the request that choose a part. */
export interface Asked {
  range?: string | undefined;
  ifRange?: string | undefined;
}

/** Type and subtype without parameters; anything else is shown as bytes. */
const MEDIA_TYPE = /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/;

/**
 * User code made the file: whatever it is, a browser that opens it must not let it act in the name of
 * this address. So it is to be saved, never sniffed, and has neither scripts nor an origin when shown.
 */
function headersOf({ name, contentType, tag }: StoredFile) {
  return {
    'content-type': MEDIA_TYPE.test(contentType) ? contentType : 'application/octet-stream',
    'content-disposition': attachment(name),
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
    'accept-ranges': 'bytes',
    etag: `"${tag}"`,
  };
}

/** RFC 6266: a plain name for old readers, the real one encoded. */
function attachment(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1) || 'file';
  const plain = name.replace(/[^\w. ()-]/g, '_');
  const encoded = encodeURIComponent(name.toWellFormed()).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/**
 * One range of RFC 9110, 14.1. @returns undefined for the whole: without a range, with several, or with
 * one that cannot be read; `none` when the range lies behind the end
 */
export function rangeOf(
  header: string | undefined,
  size: number,
): { start: number; end: number } | 'none' | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  if (first === '') return Number(last) === 0 ? 'none' : within(size - Number(last), size, size);
  if (last !== '' && Number(last) < Number(first)) return undefined;
  return within(Number(first), last === '' ? size : Number(last) + 1, size);
}

function within(start: number, end: number, size: number): { start: number; end: number } | 'none' {
  const first = Math.max(0, start);
  if (first >= size) return 'none';
  return { start: first, end: Math.min(size, end) };
}
