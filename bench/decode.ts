import { gunzipSync, zstdDecompressSync } from 'node:zlib';

/** The text of a body by its content-encoding. */
export function decode(body: Buffer, encoding: string | undefined): string {
  if (encoding === 'zstd') return zstdDecompressSync(body).toString();
  return (encoding === 'gzip' ? gunzipSync(body) : body).toString();
}
