import { createHash } from 'node:crypto';
import { PART_BYTES } from '../../contract/index.ts';

/** Where the bytes of one artifact belong, and how many they are. */
export interface Blob {
  id: string;
  /** Any instant of the day that it belongs to. */
  day: Date;
  size: number;
}

/** What arrived is not the part that was announced. */
export class PartRefusal extends Error {
  readonly reason: 'unknown' | 'tooLong' | 'damaged';
  constructor(reason: PartRefusal['reason'], message: string) {
    super(message);
    this.name = 'PartRefusal';
    this.reason = reason;
  }
}

/** The bytes of artifacts, in parts of PART_BYTES. */
export interface BlobStore {
  /** Numbers of the parts that are here, from 1. */
  parts(blob: Blob): Promise<number[]>;
  /**
   * Takes one part; it survives a crash when this resolves. The first copy of a part stays: what was
   * checked once cannot change afterwards.
   *
   * @throws PartRefusal when it is not the part that the hash and the blob's size announce
   */
  putPart(blob: Blob, n: number, bytes: AsyncIterable<Uint8Array>, sha256: string): Promise<void>;
  /** Whether the whole is here and is what it should be; what is `wrong` is removed. */
  check(blob: Blob, sha256: string): Promise<'right' | 'incomplete' | 'wrong'>;
  /** Bytes from `start` to before `end`. @throws when a part is not here */
  read(blob: Blob, start: number, end: number): AsyncIterable<Buffer>;
  /** True when all parts are here. */
  has(blob: Blob): Promise<boolean>;
  remove(blob: Blob): Promise<void>;
  /** Removes the days before the one of `oldest`. @returns how many */
  removeBefore(oldest: Date): Promise<number>;
}

export const partCount = ({ size }: Blob): number => Math.ceil(size / PART_BYTES);

export const partSize = (blob: Blob, n: number): number =>
  Math.min(PART_BYTES, blob.size - (n - 1) * PART_BYTES);

export const nameOfDay = (day: Date): string => day.toISOString().slice(0, 10).replaceAll('-', '');
export const isNameOfDay = (name: string): boolean => /^\d{8}$/.test(name);

/** The numbers among names of parts that the blob has, in order. */
export function partNumbers(blob: Blob, names: readonly string[]): number[] {
  return names
    .filter((name) => /^[1-9]\d{0,8}$/.test(name))
    .map(Number)
    .filter((n) => n <= partCount(blob))
    .toSorted((a, b) => a - b);
}

/**
 * What arrives, as long as it can be the part. The last chunk is given only when the whole is right, so
 * that whoever writes it elsewhere cannot have written a wrong part whole.
 *
 * @throws PartRefusal
 */
export async function* verified(
  bytes: AsyncIterable<Uint8Array>,
  blob: Blob,
  n: number,
  sha256: string,
): AsyncGenerator<Uint8Array> {
  const size = partSize(blob, n);
  const hash = createHash('sha256');
  let arrived = 0;
  let held: Uint8Array | undefined;
  for await (const chunk of bytes) {
    arrived += chunk.byteLength;
    if (arrived > size) throw new PartRefusal('tooLong', `part ${n} has more than its ${size} bytes`);
    hash.update(chunk);
    if (held !== undefined) yield held;
    held = chunk;
  }
  if (arrived < size) throw new PartRefusal('damaged', `part ${n} has ${arrived} of its ${size} bytes`);
  if (hash.digest('hex') !== sha256) {
    throw new PartRefusal('damaged', `part ${n} arrived damaged: its SHA-256 is another one`);
  }
  if (held !== undefined) yield held;
}

/** @throws PartRefusal */
export function assertPart(blob: Blob, n: number): void {
  if (n >= 1 && n <= partCount(blob)) return;
  throw new PartRefusal('unknown', `part ${n} does not exist; the artifact has ${partCount(blob)}`);
}

/** The SHA-256 of all that is read, in hexadecimal digits. */
export async function hashOf(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of bytes) hash.update(chunk);
  return hash.digest('hex');
}
