import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync, constants } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MAX_BATCH_BYTES, ResultReceipts, type Job } from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';
import type { Queue, Store } from '../../src/service/ports.ts';
import { openStore } from '../../src/service/store/index.ts';
import { silentLog } from '../support/databases.ts';
import { connectSocket, welcomed } from './client.ts';
import { changed, Place, resultOf, startReplica, type Replica } from './harness.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'vedette-wire-'));
/** What the next batches meet in the queue. */
let onRecord: (record: Queue['record']) => Queue['record'];
let store: Store;
let replica: Replica;

beforeAll(async () => {
  store = await openStore({ dataDir, log: silentLog });
  replica = await startReplica(store, {
    limits: { batches: 3, batchesPerLocation: 2 },
    queue: (queue) => {
      const record = queue.record.bind(queue);
      return changed(queue, { record: async (...batch) => onRecord(record)(...batch) });
    },
  });
});

afterAll(async () => {
  await replica.stop();
  await store.close();
  rmSync(dataDir, { recursive: true });
});

const plain = (record: Queue['record']): Queue['record'] => record;

const batchOf = (results: readonly unknown[]): object => ({
  agentId: newId(),
  sentAt: new Date().toISOString(),
  clockOffsetMs: null,
  results,
});

async function send(
  place: Place,
  body: string | Buffer,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${replica.url}/agent/v1/results`, {
    method: 'POST',
    headers: { authorization: `Bearer ${place.key}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : new Uint8Array(body),
  });
}

async function receipts(response: Response): Promise<{ status: string; reason?: string | undefined }[]> {
  expect(response.status).toBe(200);
  return ResultReceipts.parse(await response.json()).receipts;
}

/** `count` jobs that an agent of the place has accepted. */
async function jobsAt(place: Place, count: number): Promise<Job[]> {
  onRecord = plain;
  const { agent, say } = await welcomed(connectSocket, replica.url, place.key, { total: count });
  await place.start(replica.queue, count);
  say('ready', { free: count });
  const jobs: Job[] = [];
  while (jobs.length < count) jobs.push(...(await agent.next('offer')).d.jobs);
  say('accept', { runs: jobs.map(({ runId, token }) => ({ runId, token })) });
  say('release', { runs: [], reason: 'shutdown' });
  await agent.next('ok');
  agent.vanish();
  return jobs;
}

const stored = async (place: Place): Promise<number> =>
  (await store.db.selectFrom('check_result').select('id').where('account_id', '=', place.accountId).execute())
    .length;

describe('a batch', () => {
  test.each([
    ['as it is', (text: string): Buffer => Buffer.from(text), {}],
    ['as gzip', (text: string): Buffer => gzipSync(text), { 'content-encoding': 'gzip' }],
    ['as zstd', (text: string): Buffer => zstdCompressSync(text), { 'content-encoding': 'zstd' }],
  ])('%s is stored once, however often it is sent', async (_how, encode, headers) => {
    const place = await Place.create(store);
    const jobs = await jobsAt(place, 2);
    const body = encode(JSON.stringify(batchOf(jobs.map((job) => resultOf(job)))));
    expect(await receipts(await send(place, body, headers))).toMatchObject([
      { status: 'stored' },
      { status: 'stored' },
    ]);
    expect(await receipts(await send(place, body, headers))).toMatchObject([
      { status: 'duplicate' },
      { status: 'duplicate' },
    ]);
    expect(await stored(place)).toBe(2);
  });

  test('with bad results gets a receipt for each, in order, and the good ones are stored', async () => {
    const place = await Place.create(store);
    const [a, b, c] = await jobsAt(place, 3);
    const deep = JSON.parse('{"a":'.repeat(5000) + '1' + '}'.repeat(5000));
    const batch = batchOf([
      resultOf(a!),
      { ...resultOf(b!), statusCode: 'two hundred' },
      17,
      resultOf(b!, { detail: deep }),
      resultOf(c!),
    ]);
    const answer = await receipts(await send(place, JSON.stringify(batch)));
    expect(answer).toMatchObject([
      { status: 'stored' },
      { status: 'rejected', reason: expect.stringContaining('statusCode') },
      { status: 'rejected' },
      { status: 'rejected', reason: expect.stringContaining('nested') },
      { status: 'stored' },
    ]);
    expect(await stored(place)).toBe(2);
  });

  test('may hold what targets send: NUL, halves of surrogate pairs, all of Unicode', async () => {
    const place = await Place.create(store);
    const [job] = await jobsAt(place, 1);
    const odd = 'a\u0000b\ud800c\u{1F600}';
    const result = resultOf(job!, {
      errors: [{ code: 'ODD', message: odd, network: false }],
      detail: { [odd]: odd },
    });
    expect(await receipts(await send(place, JSON.stringify(batchOf([result]))))).toMatchObject([
      { status: 'stored' },
    ]);
  });

  test('for runs of another location is not stored', async () => {
    const [place, other] = [await Place.create(store), await Place.create(store)];
    const [job] = await jobsAt(place, 1);
    const [receipt] = await receipts(await send(other, JSON.stringify(batchOf([resultOf(job!)]))));
    expect(receipt!.status).toBe('rejected');
    expect(await stored(place)).toBe(0);
  });

  test('is acknowledged after its commit only', async () => {
    const place = await Place.create(store);
    const [job] = await jobsAt(place, 1);
    const commit = Promise.withResolvers<void>();
    onRecord = (record) => async (location, results) => {
      const answer = await record(location, results);
      await commit.promise;
      return answer;
    };
    let answered = false;
    const sent = send(place, JSON.stringify(batchOf([resultOf(job!)])));
    void sent.then(() => (answered = true));
    await expect.poll(() => stored(place)).toBe(1);
    expect(answered).toBe(false);
    commit.resolve();
    await receipts(await sent);
  });

  test('that the store cannot take is to be sent again', async () => {
    const place = await Place.create(store);
    const [job] = await jobsAt(place, 1);
    const body = JSON.stringify(batchOf([resultOf(job!)]));
    onRecord = () => async () => Promise.reject(Object.assign(new Error('gone'), { code: '57P01' }));
    const response = await send(place, body);
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5']);
    onRecord = plain;
    expect(await receipts(await send(place, body))).toMatchObject([{ status: 'stored' }]);
  });

  test('with one result that no store could take loses that one alone', async () => {
    const place = await Place.create(store);
    const jobs = await jobsAt(place, 3);
    onRecord = (record) => async (location, results) => {
      if (results.some(({ runId }) => runId === jobs[1]!.runId)) {
        throw Object.assign(new Error('value out of range'), { code: '22003' });
      }
      return record(location, results);
    };
    const body = JSON.stringify(batchOf(jobs.map((job) => resultOf(job))));
    expect(await receipts(await send(place, body))).toMatchObject([
      { status: 'stored' },
      { status: 'rejected', reason: expect.stringContaining('out of range') },
      { status: 'stored' },
    ]);
  });
});

describe('a body', () => {
  const many = Array.from({ length: 101 }, () => ({}));
  const bomb = Buffer.alloc(64 * 1024 * 1024);
  const wide = Buffer.alloc(9 * 1024 * 1024);
  const long = { params: { [constants.ZSTD_c_windowLog]: 27, [constants.ZSTD_c_compressionLevel]: 1 } };

  test.each<[string, string | Buffer, Record<string, string>, number, string]>([
    ['that is no JSON', '{"agentId":', {}, 400, 'JSON'],
    ['without results', JSON.stringify(batchOf([])), {}, 400, 'results'],
    ['without an agent', JSON.stringify({ results: [{}] }), {}, 400, 'agentId'],
    ['with 101 results', JSON.stringify(batchOf(many)), {}, 413, '100'],
    ['of another type', 'x', { 'content-type': 'text/plain' }, 415, 'ontent'],
    ['of an unknown encoding', '{}', { 'content-encoding': 'br' }, 415, 'zstd'],
    ['that is no gzip', 'hello', { 'content-encoding': 'gzip' }, 400, 'decompressed'],
    [
      'that is half a gzip',
      gzipSync('{"a":1}').subarray(0, 15),
      { 'content-encoding': 'gzip' },
      400,
      'decompressed',
    ],
    ['that is a gzip bomb', gzipSync(bomb), { 'content-encoding': 'gzip' }, 413, String(MAX_BATCH_BYTES)],
    [
      'that is a zstd bomb',
      zstdCompressSync(bomb),
      { 'content-encoding': 'zstd' },
      413,
      String(MAX_BATCH_BYTES),
    ],
    ['that is a wide zstd', zstdCompressSync(wide, long), { 'content-encoding': 'zstd' }, 400, 'memory'],
    ['over 4 MiB', 'x'.repeat(4 * 1024 * 1024 + 1), {}, 413, 'large'],
  ])('%s is answered with its reason', async (_what, body, headers, status, words) => {
    const place = await Place.create(store);
    const response = await send(place, body, headers);
    const answer = (await response.json()) as { statusCode: number; message: string };
    expect(response.status).toBe(status);
    expect(answer.statusCode).toBe(status);
    expect(answer.message).toContain(words);
  });
});

test('too many batches at once are told to come again: 429 for the location, 503 for all', async () => {
  const [place, second, third] = await Promise.all([1, 2, 3].map(async () => Place.create(store)));
  const [job] = await jobsAt(place!, 1);
  const body = JSON.stringify(batchOf([resultOf(job!)]));
  const commit = Promise.withResolvers<void>();
  let open = 0;
  onRecord = (record) => async (location, results) => {
    open += 1;
    await commit.promise;
    return record(location, results);
  };
  const held = [send(place!, body), send(place!, body)];
  await expect.poll(() => open).toBe(2);
  expect([(await send(place!, body)).status, open]).toEqual([429, 2]);
  held.push(send(second!, body));
  await expect.poll(() => open).toBe(3);
  const refused = await send(third!, body);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  commit.resolve();
  for (const each of held) expect((await each).status).toBe(200);
  await expect.poll(async () => (await send(third!, body)).status).toBe(200);
});
