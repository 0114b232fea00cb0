import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  CompleteArtifact,
  MAX_ARTIFACT_BYTES,
  OpenArtifact,
  PART_BYTES,
  type Artifact,
  type Job,
} from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';
import { createJanitor, openBlobs, type BlobStore } from '../../src/service/blobs/index.ts';
import type { Store } from '../../src/service/ports.ts';
import { artifactId, artifacts, openStore } from '../../src/service/store/index.ts';
import { silentLog } from '../support/databases.ts';
import { connectSocket, post, welcomed } from './client.ts';
import { Place, resultOf, startReplica, type Replica } from './harness.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'vedette-artifacts-'));
const blobDir = join(dataDir, 'blobs');
let store: Store;
let replica: Replica;
let second: Replica;
let blobs: BlobStore;

beforeAll(async () => {
  store = await openStore({ dataDir, log: silentLog });
  replica = await startReplica(store, { blobDir, limits: { uploadSilenceMs: 500 } });
  second = await startReplica(store, { blobDir });
  blobs = await openBlobs(`file:${blobDir}`);
});

afterAll(async () => {
  await replica.stop();
  await second.stop();
  await store.close();
  rmSync(dataDir, { recursive: true });
});

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

interface File {
  place: Place;
  resultId: string;
  name: string;
  contentType: string;
  size: number;
  sha256: string;
}

const entryOf = (name: string, bytes: Uint8Array): Artifact => ({
  name,
  kind: 'file',
  contentType: 'application/zip',
  size: bytes.length,
  sha256: sha256(bytes),
  state: 'pending',
});

/** A stored result at a place of its own, with this manifest. */
async function stored(manifest: Artifact[]): Promise<{ place: Place; job: Job; resultId: string }> {
  const place = await Place.create(store);
  const { agent, say } = await welcomed(connectSocket, replica.url, place.key);
  await place.start(replica.queue);
  say('ready', { free: 1 });
  const [job] = (await agent.next('offer')).d.jobs;
  agent.vanish();
  const result = resultOf(job!, { artifacts: manifest });
  const body = { agentId: newId(), sentAt: result.startedAt, clockOffsetMs: null, results: [result] };
  const response = await post(`${replica.url}/agent/v1/results`, place.key, body);
  expect(await response.json()).toMatchObject({ receipts: [{ status: 'stored' }] });
  return { place, job: job!, resultId: result.resultId };
}

async function fileWith(bytes: Uint8Array, name = 'trace.zip'): Promise<File> {
  const entry = entryOf(name, bytes);
  const { place, resultId } = await stored([entry]);
  return { place, resultId, name, contentType: entry.contentType, size: bytes.length, sha256: sha256(bytes) };
}

async function open(file: File, change: object = {}, from = replica): Promise<Response> {
  const { place, ...body } = file;
  return post(from.url + OpenArtifact.path, place.key, { ...body, ...change });
}

const idOf = ({ resultId, name }: Pick<File, 'resultId' | 'name'>): string => artifactId(resultId, name);

async function put(
  file: File,
  n: number | string,
  bytes: Uint8Array,
  { from = replica, hash = sha256(bytes) }: { from?: Replica; hash?: string } = {},
): Promise<number> {
  const upload = uploadOf(file, n, { from, hash, length: bytes.length });
  // As it is: fetch would copy it, and the memory of this process is measured.
  upload.end(bytes);
  const [response] = (await once(upload, 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode ?? 0;
}

/** A part whose body is still to be written. */
function uploadOf(
  file: File,
  n: number | string,
  options: { from?: Replica; hash: string; length: number },
): ClientRequest {
  return request(`${(options.from ?? replica).url}/agent/v1/artifacts/${idOf(file)}/parts/${n}`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${file.place.key}`,
      'content-type': 'application/octet-stream',
      'content-length': options.length,
      ...(options.hash === '' ? {} : { 'x-part-sha256': options.hash }),
    },
  });
}

async function state(file: File, from = replica): Promise<unknown> {
  const response = await fetch(`${from.url}/agent/v1/artifacts/${idOf(file)}`, {
    headers: { authorization: `Bearer ${file.place.key}` },
  });
  return OpenArtifact.reply.parse(await response.json());
}

async function complete(file: File, from = replica): Promise<Response> {
  return fetch(`${from.url}/agent/v1/artifacts/${idOf(file)}/complete`, {
    method: 'POST',
    headers: { authorization: `Bearer ${file.place.key}` },
  });
}

const partsOf = (bytes: Uint8Array): Uint8Array[] =>
  Array.from({ length: Math.ceil(bytes.length / PART_BYTES) }, (_, i) =>
    bytes.subarray(i * PART_BYTES, (i + 1) * PART_BYTES),
  );

async function rowOf(file: File) {
  const row = await artifacts.findArtifact(store.db, idOf(file), {
    accountId: file.place.accountId,
    location: file.place.slug,
  });
  return row!;
}

/** What the blob store gives back. */
async function kept(file: File, start = 0, end = file.size): Promise<Buffer> {
  const row = await rowOf(file);
  const chunks: Buffer[] = [];
  for await (const chunk of blobs.read({ id: row.id, day: row.scheduled_at, size: row.size }, start, end)) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

describe('an artifact', () => {
  test('arrives in parts: in parallel, in any order, twice, over two replicas', async () => {
    const bytes = randomBytes(2 * PART_BYTES + 12_345);
    const file = await fileWith(bytes);
    const opened = OpenArtifact.reply.parse(await (await open(file)).json());
    const id = idOf(file);
    expect(opened).toEqual({
      artifactId: id,
      mode: 'service',
      partBytes: PART_BYTES,
      have: [],
      state: 'open',
    });
    const [one, two, three] = partsOf(bytes);
    const statuses = await Promise.all([
      put(file, 3, three!, { from: second }),
      put(file, 1, one!),
      put(file, 3, three!),
      put(file, 1, one!, { from: second }),
    ]);
    expect(statuses).toEqual([204, 204, 204, 204]);
    expect(await state(file, second)).toMatchObject({ have: [1, 3], state: 'open' });
    const early = await complete(file);
    expect([early.status, await early.json()]).toMatchObject([409, { statusCode: 409, have: [1, 3] }]);
    expect(await put(file, 2, two!, { from: second })).toBe(204);
    for (const from of [second, replica]) {
      const done = await complete(file, from);
      expect([done.status, CompleteArtifact.reply.parse(await done.json())]).toEqual([
        200,
        { state: 'stored' },
      ]);
    }
    expect((await kept(file)).equals(bytes)).toBe(true);
    const middle = [PART_BYTES - 3, 2 * PART_BYTES + 5] as const;
    expect((await kept(file, ...middle)).equals(bytes.subarray(...middle))).toBe(true);
    // Announced again, as after a crash of the agent: nothing is left to do, and nothing changes.
    expect(await (await open(file)).json()).toMatchObject({ have: [1, 2, 3], state: 'stored' });
    expect(await put(file, 1, randomBytes(PART_BYTES))).toBe(204);
    expect((await kept(file)).equals(bytes)).toBe(true);
    expect(globSync(`${blobDir}/*/${id}/*.tmp`)).toEqual([]);
  });

  test('goes on after a cut with the parts that are missing', async () => {
    const bytes = randomBytes(PART_BYTES + 1_000_000);
    const file = await fileWith(bytes);
    const [one, two] = partsOf(bytes);
    await open(file);
    expect(await put(file, 2, two!)).toBe(204);
    await cutAfter(file, 1, one!, 3_000_000);
    expect(await state(file)).toMatchObject({ have: [2], state: 'open' });
    expect(await put(file, 1, one!)).toBe(204);
    expect((await complete(file)).status).toBe(200);
    expect((await kept(file)).equals(bytes)).toBe(true);
    await expect.poll(() => globSync(`${blobDir}/*/${idOf(file)}/*`).length).toBe(2);
  });

  test('of no bytes has no parts', async () => {
    const file = await fileWith(new Uint8Array());
    expect(await (await open(file)).json()).toMatchObject({ have: [], state: 'open' });
    expect((await complete(file)).status).toBe(200);
    expect(await state(file)).toMatchObject({ state: 'stored' });
  });

  test('of 150 MiB is taken with flat memory', async () => {
    const part = randomBytes(PART_BYTES);
    const last = part.subarray(0, MAX_ARTIFACT_BYTES % PART_BYTES);
    const count = Math.ceil(MAX_ARTIFACT_BYTES / PART_BYTES);
    const whole = createHash('sha256');
    for (let n = 1; n < count; n++) whole.update(part);
    const entry = { ...entryOf('video.webm', last), size: MAX_ARTIFACT_BYTES };
    entry.sha256 = whole.update(last).digest('hex');
    const { place, resultId } = await stored([entry]);
    const { name, contentType, size } = entry;
    const file = { place, resultId, name, contentType, size, sha256: entry.sha256 };
    await open(file);
    const before = held();
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, held() - before)), 20);
    const numbers = Array.from({ length: count }, (_, i) => i + 1).values();
    const line = async (): Promise<void> => {
      for (const n of numbers) expect(await put(file, n, n === count ? last : part)).toBe(204);
    };
    await Promise.all([line(), line(), line()]);
    expect((await complete(file)).status).toBe(200);
    clearInterval(watch);
    // Of 157 MB that went through; most of it are chunks that wait for the garbage collector.
    expect(most).toBeLessThan(96e6);
    expect(await state(file)).toMatchObject({ state: 'stored' });
    await blobs.remove({ id: idOf(file), day: (await rowOf(file)).scheduled_at, size });
  });
});

/** Bytes that this process holds outside the pages of its programs. */
function held(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Sends the first bytes of a part and breaks the connection. */
async function cutAfter(file: File, n: number, bytes: Uint8Array, count: number): Promise<void> {
  const upload = uploadOf(file, n, { hash: sha256(bytes), length: bytes.length });
  const broken = new Promise<void>((resolve) => upload.once('error', () => resolve()));
  await new Promise<void>((resolve) => upload.write(bytes.subarray(0, count), () => resolve()));
  await expect.poll(() => globSync(`${blobDir}/*/${idOf(file)}/${n}.*.tmp`).length).toBe(1);
  upload.destroy(new Error('cut'));
  await broken;
  await expect.poll(() => globSync(`${blobDir}/*/${idOf(file)}/${n}.*.tmp`).length).toBe(0);
}

describe('what is refused', () => {
  const bytes = Buffer.from('a small file');
  let file: File;
  beforeAll(async () => {
    file = await fileWith(bytes);
  });

  test('an artifact of one byte more than 150 MiB, in the manifest and when announced', async () => {
    const size = MAX_ARTIFACT_BYTES + 1;
    const { place, resultId } = await stored([{ ...entryOf('huge.bin', bytes), size }]);
    const huge = { ...file, place, resultId, name: 'huge.bin', size };
    const response = await open(huge);
    expect([response.status, await response.json()]).toMatchObject([
      413,
      { message: `size: ${size} bytes are too many; at most ${MAX_ARTIFACT_BYTES} are taken` },
    ]);
    expect(await rowOf(huge)).toMatchObject({ state: 'refused', reason: expect.stringContaining('bytes') });
    expect(await put(huge, 1, bytes)).toBe(409);
  });

  test('artifacts of nobody, of another location and of an unknown name', async () => {
    expect((await open(file, { resultId: newId() })).status).toBe(404);
    expect((await open(file, { name: 'other.zip' })).status).toBe(404);
    const stranger = { ...file, place: await Place.create(store) };
    expect((await open(stranger)).status).toBe(404);
    expect(await put(stranger, 1, bytes)).toBe(404);
    expect((await complete(stranger)).status).toBe(404);
    expect((await post(replica.url + OpenArtifact.path, 'pl_none', {})).status).toBe(401);
  });

  test('what the manifest says otherwise, or says is not sent', async () => {
    expect((await open(file, { size: bytes.length + 1 })).status).toBe(409);
    expect((await open(file, { sha256: sha256(Buffer.from('x')) })).status).toBe(409);
    const entry: Artifact = { ...entryOf('v.webm', bytes), sha256: null, state: 'refused', reason: 'a link' };
    const { place, resultId } = await stored([entry]);
    const refused = { ...file, place, resultId, name: 'v.webm' };
    expect((await open(refused)).status).toBe(409);
    expect(await put(refused, 1, bytes)).toBe(409);
    expect((await complete(refused)).status).toBe(409);
    expect(await rowOf(refused)).toMatchObject({ state: 'refused', reason: 'a link' });
  });

  test.each([
    [{ sha256: 'abc' }, 'sha256'],
    [{ resultId: 'x' }, 'resultId'],
    [{ size: -1 }, 'size'],
    [{ name: '' }, 'name'],
  ])('an announcement with %j', async (change, field) => {
    const response = await open(file, change);
    const { message } = (await response.json()) as { message: string };
    expect([response.status, message.split(':')[0]]).toEqual([400, field]);
  });

  test('parts that are none, too long, too short or damaged; the artifact still arrives', async () => {
    await open(file);
    for (const n of [0, 2, -1, '1e0', '99999999']) expect([n, await put(file, n, bytes)]).toEqual([n, 400]);
    expect(await put(file, 1, bytes, { hash: '' })).toBe(400);
    expect(await put(file, 1, Buffer.concat([bytes, bytes]))).toBe(413);
    expect(await put(file, 1, bytes.subarray(1))).toBe(422);
    expect(await put(file, 1, bytes, { hash: sha256(Buffer.from('other')) })).toBe(422);
    expect(await state(file)).toMatchObject({ have: [] });
    expect(await put(file, 1, bytes)).toBe(204);
    expect((await complete(file)).status).toBe(200);
  });

  test('a whole whose hash is wrong: its parts are gone and the upload begins again', async () => {
    const again = await fileWith(bytes);
    await open(again);
    expect(await put(again, 1, Buffer.from('A small file'))).toBe(204);
    expect((await complete(again)).status).toBe(422);
    expect(await state(again)).toMatchObject({ have: [], state: 'open' });
    expect(await put(again, 1, bytes)).toBe(204);
    expect((await complete(again)).status).toBe(200);
    expect((await kept(again)).equals(bytes)).toBe(true);
  });

  test('an agent that falls silent in the middle of a part', async () => {
    const large = await fileWith(randomBytes(1_000_000));
    const upload = uploadOf(large, 1, { hash: large.sha256, length: large.size });
    const broken = new Promise((resolve) => upload.once('error', resolve).once('response', resolve));
    upload.write(Buffer.alloc(1000));
    await broken;
    upload.destroy();
    await expect.poll(() => globSync(`${blobDir}/*/${idOf(large)}/*`)).toEqual([]);
  });
});

describe('the janitor', () => {
  test('gives up what has not moved for a day, and the upload may still begin again', async () => {
    const bytes = Buffer.from('forgotten');
    const [file, fresh] = [await fileWith(bytes), await fileWith(bytes)];
    for (const each of [file, fresh]) expect(await put(each, 1, bytes)).toBe(204);
    await sql`update artifact set touched_at = now() - interval '25 hours' where id = ${idOf(file)}`.execute(
      store.db,
    );
    await createJanitor({ store, blobs, log: silentLog }, 30).sweep();
    expect(await rowOf(file)).toMatchObject({ state: 'refused', reason: expect.stringContaining('a day') });
    expect(await rowOf(fresh)).toMatchObject({ state: 'pending' });
    expect(globSync(`${blobDir}/*/${idOf(file)}`)).toEqual([]);
    expect(await (await open(file)).json()).toMatchObject({ have: [], state: 'open' });
    expect(await put(file, 1, bytes)).toBe(204);
    expect((await complete(file)).status).toBe(200);
    expect(await rowOf(file)).toMatchObject({ state: 'stored', reason: null });
  });

  test('removes the days whose results are gone', async () => {
    const old = { id: newId(), day: new Date(Date.now() - 31 * 86_400_000), size: 3 };
    const recent = { id: newId(), day: new Date(Date.now() - 29 * 86_400_000), size: 3 };
    const three = Buffer.from('abc');
    for (const blob of [old, recent]) {
      const bytes = (async function* () {
        yield three;
      })();
      await blobs.putPart(blob, 1, bytes, sha256(three));
    }
    await createJanitor({ store, blobs, log: silentLog }, 30).sweep();
    expect([await blobs.has(old), await blobs.has(recent)]).toEqual([false, true]);
    expect(existsSync(blobDir)).toBe(true);
  });
});

test('another kind of blob store, or a folder that cannot be, is refused in a sentence', async () => {
  await expect(openBlobs('s3://bucket')).rejects.toThrow(
    'BLOB_STORE=s3://bucket: S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY are needed with it',
  );
  await expect(openBlobs('ftp:x')).rejects.toThrow('BLOB_STORE=ftp:x: file:DIR or s3://BUCKET');
  const file = join(dataDir, 'a-file');
  writeFileSync(file, '');
  await expect(openBlobs(`file:${file}`)).rejects.toThrow(
    `BLOB_STORE=file:${file}: the folder cannot be used`,
  );
});
