import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PART_BYTES } from '../../src/contract/index.ts';
import { openBlobs, type Blob, type BlobStore } from '../../src/service/blobs/index.ts';
import { describeUnless } from '../support/programs.ts';
import {
  BUILD_MS,
  lacksObjectStore,
  startObjectStore,
  type ObjectStore,
} from '../support/targets/object-store.ts';

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const blobOf = (size: number, day = '2026-11-20'): Blob => ({ id: randomUUID(), day: new Date(day), size });

/** Bytes in chunks as a network brings them. */
async function* chunked(bytes: Uint8Array, size = 64 * 1024): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const partOf = (whole: Buffer, n: number): Buffer => whole.subarray((n - 1) * PART_BYTES, n * PART_BYTES);

async function put(store: BlobStore, blob: Blob, whole: Buffer, n: number): Promise<void> {
  const part = partOf(whole, n);
  await store.putPart(blob, n, chunked(part), sha256(part));
}

/** What each place must do; `open` opens the same place each time. */
function behaves(open: () => Promise<BlobStore>): void {
  let store: BlobStore;
  beforeAll(async () => {
    store = await open();
  });

  test('parts come in any order and twice, and are read from any byte to any other', async () => {
    const whole = randomBytes(2 * PART_BYTES + 12_345);
    const blob = blobOf(whole.length);
    expect(await store.parts(blob)).toEqual([]);
    for (const n of [3, 1, 3]) await put(store, blob, whole, n);
    expect(await store.parts(blob)).toEqual([1, 3]);
    expect([await store.has(blob), await store.check(blob, sha256(whole))]).toEqual([false, 'incomplete']);
    await put(store, blob, whole, 2);
    expect([await store.has(blob), await store.check(blob, sha256(whole))]).toEqual([true, 'right']);
    for (const [start, end] of [
      [0, whole.length],
      [0, 1],
      [PART_BYTES - 2, PART_BYTES + 2],
      [5, 2 * PART_BYTES + 5],
      [whole.length - 1, whole.length],
    ] as const) {
      const read = await buffer(store.read(blob, start, end));
      expect(read.equals(whole.subarray(start, end)), `${start} to ${end}`).toBe(true);
    }
  });

  test('what a crash of the service interrupts goes on where it was', async () => {
    const whole = randomBytes(PART_BYTES + 1);
    const blob = blobOf(whole.length);
    await put(store, blob, whole, 1);
    const again = await open();
    expect(await again.parts(blob)).toEqual([1]);
    await put(again, blob, whole, 2);
    expect(await again.check(blob, sha256(whole))).toBe('right');
  });

  test('a part that is too long, too short, damaged or unknown leaves nothing', async () => {
    const bytes = randomBytes(300_000);
    const blob = blobOf(bytes.length);
    const other = Buffer.from(bytes);
    other[299_999]! ^= 1;
    const wrong: [string, number, Buffer, string, string][] = [
      ['too long', 1, Buffer.concat([bytes, bytes]), sha256(bytes), 'tooLong'],
      ['too short', 1, bytes.subarray(0, 200_000), sha256(bytes), 'damaged'],
      ['damaged', 1, other, sha256(bytes), 'damaged'],
      ['of nothing', 1, Buffer.alloc(0), sha256(bytes), 'damaged'],
      ['the second of one', 2, bytes, sha256(bytes), 'unknown'],
      ['the zeroth', 0, bytes, sha256(bytes), 'unknown'],
    ];
    for (const [what, n, sent, hash, reason] of wrong) {
      await expect(store.putPart(blob, n, chunked(sent), hash), what).rejects.toMatchObject({ reason });
      expect(await store.parts(blob), what).toEqual([]);
    }
    await put(store, blob, bytes, 1);
    expect(await store.check(blob, sha256(bytes))).toBe('right');
  });

  test('an agent that vanishes in the middle of a part leaves nothing', async () => {
    const blob = blobOf(300_000);
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield randomBytes(200_000);
      throw new Error('the agent has gone');
    }
    await expect(store.putPart(blob, 1, broken(), sha256(Buffer.alloc(0)))).rejects.toThrow(
      'the agent has gone',
    );
    expect(await store.parts(blob)).toEqual([]);
  });

  test('the first copy of a part stays', async () => {
    const [first, second] = [randomBytes(1000), randomBytes(1000)];
    const blob = blobOf(1000);
    await put(store, blob, first, 1);
    await put(store, blob, second, 1);
    expect(await store.check(blob, sha256(first))).toBe('right');
  });

  test('a whole that is another one is removed', async () => {
    const whole = randomBytes(1000);
    const blob = blobOf(1000);
    await put(store, blob, whole, 1);
    expect(await store.check(blob, sha256(randomBytes(10)))).toBe('wrong');
    expect(await store.parts(blob)).toEqual([]);
  });

  test('days are removed whole, and one blob without its neighbours', async () => {
    const bytes = randomBytes(10);
    const [old, kept, gone] = [blobOf(10, '2026-03-01'), blobOf(10, '2026-03-02'), blobOf(10, '2026-03-02')];
    const crowd = Array.from({ length: 20 }, () => blobOf(10, '2026-02-28'));
    for (const blob of [old, kept, gone, ...crowd]) await put(store, blob, bytes, 1);
    await store.remove(gone);
    await store.remove(gone);
    expect(await store.removeBefore(new Date('2026-03-02T12:00:00Z'))).toBe(2);
    const here = await Promise.all([old, kept, gone, ...crowd].map(async (blob) => store.has(blob)));
    expect(here.filter(Boolean)).toEqual([true]);
    expect(await store.has(kept)).toBe(true);
  });
}

describe('blobs in a folder', () => {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-blobs-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  behaves(async () => openBlobs(`file:${folder}`));
});

describeUnless(lacksObjectStore, 'blobs in a bucket', () => {
  let server: ObjectStore;
  beforeAll(async () => {
    server = await startObjectStore();
    server.makeBucket('artifacts');
  }, BUILD_MS);
  afterAll(async () => server[Symbol.asyncDispose]());

  describe('with a prefix', () => {
    behaves(async () => openBlobs('s3://artifacts/of/vedette', server.settings));
  });

  test('the objects stand below the prefix, by day and artifact', async () => {
    const folder = server.makeBucket('shown');
    const store = await openBlobs('s3://shown', server.settings);
    const blob = blobOf(10);
    await put(store, blob, randomBytes(10), 1);
    expect(existsSync(join(folder, '20261120', blob.id, '1'))).toBe(true);
  });

  test('150 MB go through with little memory', async () => {
    const store = await openBlobs('s3://artifacts', server.settings);
    const part = randomBytes(PART_BYTES);
    const size = 150_000_000;
    const blob = blobOf(size);
    const whole = createHash('sha256');
    const before = process.memoryUsage();
    let most = 0;
    const watch = setInterval(() => {
      const { rss } = process.memoryUsage();
      most = Math.max(most, rss - before.rss);
    }, 20);
    for (let n = 1, left = size; left > 0; n++, left -= PART_BYTES) {
      const bytes = part.subarray(0, Math.min(left, PART_BYTES));
      whole.update(bytes);
      await store.putPart(blob, n, chunked(bytes), sha256(bytes));
    }
    expect(await store.check(blob, whole.digest('hex'))).toBe('right');
    clearInterval(watch);
    console.log(`150 MB to a bucket and back: at most ${Math.round(most / 1e6)} MB more memory`);
    expect(most).toBeLessThan(100_000_000);
    await store.remove(blob);
  });

  test('a bucket that cannot be used is told in a sentence with the remedy', async () => {
    const { settings } = server;
    const refusal = async (address: string, change: object = {}): Promise<string> => {
      const error: unknown = await openBlobs(address, { ...settings, ...change }).catch(
        (reason: unknown) => reason,
      );
      expect(error).toMatchObject({ name: 'FatalError' });
      return String(error);
    };
    expect(await refusal('s3://nowhere')).toMatch(
      /s3:\/\/nowhere at http.*NoSuchBucket: .*; create the bucket/,
    );
    expect(await refusal('s3://artifacts', { s3SecretAccessKey: 'another' })).toMatch(
      /SignatureDoesNotMatch: .*; set S3_SECRET_ACCESS_KEY/,
    );
    expect(await refusal('s3://artifacts', { s3AccessKeyId: 'nobody' })).toMatch(
      /access key.*; .*S3_ACCESS_KEY_ID/,
    );
    expect(await refusal('s3://artifacts', { s3SecretAccessKey: undefined })).toMatch(
      /S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY are needed/,
    );
    for (const address of ['s3://', 's3://UPPER', 's3://ok/../other', 's3:bucket', 'ftp:x']) {
      expect(await refusal(address)).toMatch(/file:DIR or s3:\/\/BUCKET or s3:\/\/BUCKET\/PREFIX is allowed/);
    }
  });

  test('while the store is away a part is refused with the reason', async () => {
    const own = await startObjectStore();
    own.makeBucket('short');
    const store = await openBlobs('s3://short', own.settings);
    const bytes = randomBytes(1000);
    const blob = blobOf(1000);
    await own.process.stop();
    await expect(put(store, blob, bytes, 1)).rejects.toThrow(/ECONNREFUSED|other side closed|socket/);
    await own[Symbol.asyncDispose]();
  });
});
