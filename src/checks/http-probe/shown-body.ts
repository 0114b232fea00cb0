import { cut } from '../preview.ts';

/** What of a body is kept in a result: 256 KB. */
const STORED_LIMIT = 256 * 1024;
const IMAGE_LIMIT = 50 * 1024;

const IMAGES = /^image\/(png|jpeg|gif|webp|avif|apng|bmp|x-icon|vnd\.microsoft\.icon)$/;
const BINARY =
  /^(audio\/|video\/|application\/(pdf|zip|gzip|x-gzip|x-tar|x-7z-compressed|x-rar-compressed|vnd\.rar|x-bzip2?|octet-stream|ogg|x-shockwave-flash|wasm|java-archive)$)/;

export interface ShownBody {
  body: string;
  bodyEncoding?: 'base64';
  /** The text is not the whole body. */
  truncated: boolean;
}

interface Received {
  body: Buffer;
  truncated: boolean;
  contentType: string;
}

/** `text/html` of `Text/HTML; charset=utf-8`. */
export function mediaType(contentType: string): string {
  return (contentType.split(';')[0] ?? '').trim().toLowerCase();
}

/**
 * The body as a result shows it: text up to 256 KB, small images as base64, a notice in place of other
 * binary content unless `binaryAsText`.
 */
export function shownBody(received: Received, binaryAsText: boolean): ShownBody {
  const { body, truncated } = received;
  const type = mediaType(received.contentType);
  if (IMAGES.test(type) && body.length <= IMAGE_LIMIT && !truncated && !binaryAsText) {
    return { body: body.toString('base64'), bodyEncoding: 'base64', truncated: false };
  }
  if (isBinary(type) && !binaryAsText) return { body: notice(type, body.length), truncated };
  const text = decode(body.subarray(0, STORED_LIMIT + 4), received.contentType);
  const shown = cut(text, STORED_LIMIT);
  return { body: shown, truncated: truncated || body.length > STORED_LIMIT };
}

/** The whole body as text for assertions; a notice for binary content unless `binaryAsText`. */
export function textOf(received: Received, binaryAsText: boolean): string {
  const type = mediaType(received.contentType);
  if (isBinary(type) && !binaryAsText) return notice(type, received.body.length);
  return decode(received.body, received.contentType);
}

function isBinary(type: string): boolean {
  return BINARY.test(type) || IMAGES.test(type);
}

function notice(type: string, bytes: number): string {
  return `(${type}, ${bytes} bytes: not shown)`;
}

/** By its byte order mark, then the charset of the content type; else, or when that is unknown, UTF-8. */
function decode(bytes: Buffer, contentType: string): string {
  const named = /;\s*charset\s*=\s*["']?([^"';\s]+)/i.exec(contentType)?.[1] ?? 'utf-8';
  const charset = markedCharset(bytes) ?? named;
  if (/^utf-?8$/i.test(charset) && !startsWithMark(bytes)) return bytes.toString('utf8');
  try {
    return new TextDecoder(charset).decode(bytes);
  } catch {
    return bytes.toString('utf8');
  }
}

function markedCharset(bytes: Buffer): string | undefined {
  if (startsWithMark(bytes)) return 'utf-8';
  const mark = bytes.length >= 2 ? bytes.readUInt16BE(0) : 0;
  return mark === 0xfffe ? 'utf-16le' : mark === 0xfeff ? 'utf-16be' : undefined;
}

/** A byte order mark would be in the way of JSON.parse. */
function startsWithMark(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}
