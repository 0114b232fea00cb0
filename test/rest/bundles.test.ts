import { randomBytes } from 'node:crypto';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MAX_BUNDLE_BYTES, PART_BYTES } from '../../src/contract/index.ts';
import { startAgent } from './agent.ts';
import {
  API_KEY,
  checkBody,
  EMPTY_BUNDLE,
  keyOf,
  startTestService,
  type Entry,
  type TestService,
} from './service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(async () => service.stop());

const PATH = '/next/storage/upload-code-bundle';
const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/octet-stream' };

async function send(
  body: Uint8Array<ArrayBuffer> | ReadableStream | string,
  more: Record<string, string> = {},
): Promise<{ status: number; body: Entry }> {
  const response = await fetch(service.url + PATH, {
    method: 'POST',
    headers: { ...headers, ...more },
    body,
    duplex: 'half',
  } as RequestInit);
  return { status: response.status, body: (await response.json()) as Entry };
}

/** Hardly smaller than what it packs, and of more than one part. */
const LARGE = gzipSync(randomBytes(PART_BYTES + 1000), { level: 1 });

describe('the upload of an archive', () => {
  test('answers its key, the same for the same bytes', async () => {
    expect(await service.bundle()).toBe(keyOf(EMPTY_BUNDLE));
    expect(await service.bundle()).toBe(keyOf(EMPTY_BUNDLE));
    const zst = await send(Uint8Array.from(zstdCompressSync(Buffer.alloc(1024))));
    expect(zst.status).toBe(201);
    expect(zst.body['key']).toMatch(/^bundles\/[0-9a-f]{64}\.tar\.zst$/);
  });

  test('needs no length said before', async () => {
    const stream = new Blob([Uint8Array.from(LARGE)]).stream();
    expect((await send(stream)).body).toEqual({ key: keyOf(LARGE) });
  });

  test.each([
    ['nothing', new Uint8Array(0), 'body: must be a tar archive, packed by gzip or zstd'],
    [
      'something else',
      Uint8Array.from(Buffer.from('PK\x03\x04 a ZIP')),
      'body: must be a tar archive, packed by gzip or zstd',
    ],
  ])('refuses %s', async (_what, body, message) => {
    expect(await send(body)).toMatchObject({ status: 400, body: { message } });
  });

  test('refuses other types and strangers', async () => {
    expect(await send('{}', { 'content-type': 'application/json' })).toMatchObject({
      status: 415,
      body: { message: 'content-type: must be application/octet-stream' },
    });
    expect((await send(Uint8Array.from(LARGE), { authorization: 'Bearer nobody' })).status).toBe(401);
  });

  test('ends at its limit, said before or not', async () => {
    const over = new Uint8Array(MAX_BUNDLE_BYTES + 1);
    over.set(EMPTY_BUNDLE);
    const said = await send(over).catch(() => undefined);
    // The service hangs up on what it does not read: that may be seen before its answer.
    if (said !== undefined)
      expect(said).toMatchObject({
        status: 413,
        body: { message: 'body: has 150000001 bytes, more than the 150000000 that are allowed' },
      });
    const message = 'body: has more than the 150000000 bytes that are allowed';
    const poured = await send(new Blob([over]).stream()).catch(() => undefined);
    if (poured !== undefined) expect(poured).toMatchObject({ status: 413, body: { message } });
    expect((await service.get('/v1/checks')).status).toBe(200);
  });
});

test('uploads under way are bounded', async () => {
  const stop = new AbortController();
  const open = Array.from({ length: 8 }, () =>
    fetch(service.url + PATH, {
      method: 'POST',
      headers,
      body: new ReadableStream({ start: (stream) => stream.enqueue(Uint8Array.from(EMPTY_BUNDLE)) }),
      duplex: 'half',
      signal: stop.signal,
    } as RequestInit).catch(() => undefined),
  );
  await expect
    .poll(async () => (await send(Uint8Array.from(EMPTY_BUNDLE))).status, { timeout: 10_000 })
    .toBe(429);
  stop.abort();
  await Promise.all(open);
  await expect
    .poll(async () => (await send(Uint8Array.from(EMPTY_BUNDLE))).status, { timeout: 10_000 })
    .toBe(201);
});

describe('a check of a suite', () => {
  test('names an archive that was uploaded', async () => {
    const { status, body } = await service.post(
      '/v1/checks/playwright',
      checkBody('playwright', { codeBundlePath: `bundles/${'1'.repeat(64)}.tar.gz` }),
    );
    expect(status).toBe(400);
    expect(body.message).toBe('codeBundlePath: no archive was uploaded with this key');
  });

  test.each([
    [{ retryStrategy: { type: 'FIXED' } }, /^retryStrategy: must be null: the retries of a suite/],
    [{ doubleCheck: true }, /^doubleCheck: must be false/],
    [{ engineVersion: '24' }, /^engineVersion: is the version of engine/],
    [{ timeoutSeconds: 3601 }, /^timeoutSeconds: must be at most 3600/],
    [{ shards: 11 }, /^shards: must be at most 10/],
    [{ workingDir: '../other' }, /^workingDir: /],
    [{ configPath: '/etc/passwd' }, /^configPath: /],
    [{ testCommand: 'npx playwright test\nrm -rf .' }, /^testCommand: must be one line/],
    [{ frequency: 0, frequencyOffset: 10 }, /^frequency: /],
  ])('is not made with %j', async (change, message) => {
    await service.bundle();
    const { status, body } = await service.post('/v1/checks/playwright', checkBody('playwright', change));
    expect(body.message).toMatch(message);
    expect(status).toBe(400);
  });

  test('runs with its archive, which its agent alone may fetch', async () => {
    const codeBundlePath = await service.bundle(LARGE);
    const here = await service.location();
    const other = await service.location();
    const made = await service.post(
      '/v1/checks/playwright',
      checkBody('playwright', {
        codeBundlePath,
        activated: false,
        locations: [],
        privateLocations: [here.slug],
        workingDir: './',
        groupName: 'x',
      }),
    );
    expect(made.status).toBe(201);
    expect(made.body['workingDir']).toBeNull();
    const sha256 = codeBundlePath.slice('bundles/'.length, -'.tar.gz'.length);
    const fetchBundle = async (key: string): Promise<Response> =>
      fetch(`${service.url}/agent/v1/bundles/${sha256}`, { headers: { authorization: `Bearer ${key}` } });
    expect((await fetchBundle(here.key)).status).toBe(404);

    const agent = await startAgent(service.url, here.key, ['PLAYWRIGHT']);
    await service.post('/v2/check-sessions/trigger', {
      target: { checkId: made.body.id },
      refreshCache: true,
    });
    const job = await agent.take();
    expect(job.spec).toMatchObject({
      bundle: { sha256, size: LARGE.byteLength },
      shard: null,
      refreshCache: true,
      streamLogs: false,
      isTestSession: false,
    });
    expect(job.timeoutMs).toBe(2_400_000);
    const answer = await fetchBundle(here.key);
    expect(answer.headers.get('content-length')).toBe(String(LARGE.byteLength));
    expect(LARGE.equals(Buffer.from(await answer.arrayBuffer()))).toBe(true);
    expect((await fetchBundle(other.key)).status).toBe(404);
    expect((await fetchBundle('pl_nobody')).status).toBe(401);

    await agent.finish(job);
    expect((await fetchBundle(here.key)).status).toBe(404);
    agent.leave();
  });
});
