import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PART_BYTES } from '../../src/contract/index.ts';
import { describeUnless } from '../support/programs.ts';
import {
  BUILD_MS,
  lacksObjectStore,
  startObjectStore,
  type ObjectStore,
} from '../support/targets/object-store.ts';
import { API_KEY, freshDataDir, keyOf, startTestService, type TestService } from './service.ts';

describeUnless(lacksObjectStore, 'archives in a bucket', () => {
  let bucket: ObjectStore;
  let folder: string;
  let service: TestService;
  const dataDir = freshDataDir();
  const start = async (): Promise<TestService> =>
    startTestService(
      {
        BLOB_STORE: 's3://archives/vedette',
        S3_ENDPOINT: bucket.settings.s3Endpoint,
        S3_ACCESS_KEY_ID: bucket.settings.s3AccessKeyId,
        S3_SECRET_ACCESS_KEY: bucket.settings.s3SecretAccessKey,
      },
      dataDir,
    );
  beforeAll(async () => {
    bucket = await startObjectStore();
    folder = bucket.makeBucket('archives');
    service = await start();
  }, BUILD_MS);
  afterAll(async () => {
    await service.stop();
    await bucket[Symbol.asyncDispose]();
  });

  /** Keys of all objects, without the gateway's own. */
  const objects = (): string[] =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.parentPath.includes('.sgwtmp'))
      .map(({ parentPath, name }) => `${parentPath.slice(folder.length + 1)}/${name}`);

  const archive = gzipSync(randomBytes(2 * PART_BYTES + 1000), { level: 1 });

  test('are there once, in parts, also for a service that was started anew', async () => {
    expect(await service.bundle(archive)).toBe(keyOf(archive));
    const kept = objects();
    expect(kept.map((key) => basename(key)).toSorted()).toEqual(['1', '2', '3']);
    expect(await service.bundle(archive)).toBe(keyOf(archive));
    expect(objects()).toEqual(kept);
    await service.service.stop();
    service = await start();
    const url = `${service.url}/next/storage/download?key=${keyOf(archive)}`;
    const answer = await fetch(url, { headers: { authorization: `Bearer ${API_KEY}` } });
    expect(archive.equals(Buffer.from(await answer.arrayBuffer()))).toBe(true);
  });

  test('leave nothing when they do not come whole', async () => {
    const before = objects();
    const stop = new AbortController();
    const sent = Promise.withResolvers<void>();
    const body = new ReadableStream({
      start: (stream) => stream.enqueue(Uint8Array.from(archive.subarray(0, PART_BYTES + 1000))),
      // Asked for more when what there was has been sent.
      pull: () => sent.resolve(),
    });
    const upload = fetch(`${service.url}/next/storage/upload-code-bundle`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/octet-stream' },
      body,
      duplex: 'half',
      signal: stop.signal,
    } as RequestInit).catch(() => undefined);
    await sent.promise;
    await expect.poll(() => objects().length, { timeout: 10_000 }).toBe(before.length + 1);
    stop.abort();
    await upload;
    await expect.poll(objects, { timeout: 10_000 }).toEqual(before);
  });
});
