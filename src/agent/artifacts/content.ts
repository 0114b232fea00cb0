import { extname } from 'node:path';

/** How the bytes of a file are scrubbed. */
export type Content = 'text' | 'json' | 'archive' | 'binary';

/** Beginnings of formats in which no text is readable: pictures, videos, fonts, what is compressed. */
const BINARY: readonly (readonly [at: number, bytes: Buffer])[] = [
  [0, Buffer.from('89504e470d0a1a0a', 'hex')],
  [0, Buffer.from('ffd8ff', 'hex')],
  [0, Buffer.from('GIF8')],
  [8, Buffer.from('WEBP')],
  [0, Buffer.from('1a45dfa3', 'hex')],
  [4, Buffer.from('ftyp')],
  [0, Buffer.from('OggS')],
  [0, Buffer.from('ID3')],
  [0, Buffer.from('wOF')],
  [0, Buffer.from('00010000', 'hex')],
  [0, Buffer.from('1f8b', 'hex')],
  [0, Buffer.from('28b52ffd', 'hex')],
  [0, Buffer.from('00000100', 'hex')],
  [0, Buffer.from('%PDF-')],
];
const ARCHIVE = [Buffer.from('PK\x03\x04'), Buffer.from('PK\x05\x06')];
/** Enough of a file to know it by. */
export const HEAD_BYTES = 16;

/**
 * By its first bytes, whatever it is called. What is not known to be unreadable counts as text: a file
 * that the mask spoils is better than one that tells a secret.
 */
export function contentOf(head: Buffer, name: string): Content {
  if (ARCHIVE.some((start) => head.subarray(0, start.length).equals(start))) return 'archive';
  const isKnown = BINARY.some(([at, bytes]) => head.subarray(at, at + bytes.length).equals(bytes));
  // `GIF8` may also begin a sentence.
  if (isKnown && head.some((byte) => byte < 9 || byte >= 0x80)) return 'binary';
  return JSON_NAMES.has(extname(name).toLowerCase()) ? 'json' : 'text';
}

/** Playwright's traces are lines of JSON. */
const JSON_NAMES = new Set(['.json', '.jsonl', '.ndjson', '.har', '.trace', '.network', '.stacks', '.map']);

const TYPES: Readonly<Record<string, string>> = {
  '.avif': 'image/avif',
  '.css': 'text/css; charset=utf-8',
  '.csv': 'text/csv; charset=utf-8',
  '.gif': 'image/gif',
  '.gz': 'application/gzip',
  '.har': 'application/json',
  '.htm': 'text/html; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.jsonl': 'application/x-ndjson',
  '.log': 'text/plain; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.mp4': 'video/mp4',
  '.ndjson': 'application/x-ndjson',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webm': 'video/webm',
  '.webp': 'image/webp',
  '.xml': 'application/xml',
  '.zip': 'application/zip',
};

export function contentTypeOf(name: string): string {
  return TYPES[extname(name).toLowerCase()] ?? 'application/octet-stream';
}
