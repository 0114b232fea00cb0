import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ArtifactUploader, collect } from '../../src/agent/artifacts/index.ts';
import { ServiceClient } from '../../src/agent/connection/index.ts';
import { createScrubber } from '../../src/agent/scrub/index.ts';
import { openSpool, Uploader, type Spool } from '../../src/agent/spool/index.ts';
import { PART_BYTES, type Artifact, type Job } from '../../src/contract/index.ts';
import { openBlobs } from '../../src/service/blobs/index.ts';
import type { Store } from '../../src/service/ports.ts';
import { openStore } from '../../src/service/store/index.ts';
import { silentLog } from '../support/databases.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { connectSocket, welcomed } from '../wire/client.ts';
import { Place, resultOf, startReplica, type Replica } from '../wire/harness.ts';

/** The agent's half of an artifact's way against the service's own, on the embedded store. */
const SECRET = 'correct-horse-battery';
const log = pino({ level: 'silent' });
const folder = temporaryFolder();
const blobDir = join(folder.path, 'blobs');
let store: Store;
let replica: Replica;

beforeAll(async () => {
  store = await openStore({ dataDir: folder.path, log: silentLog });
  replica = await startReplica(store, { blobDir });
}, 60_000);
afterAll(async () => {
  await replica.stop();
  await store.close();
  folder[Symbol.dispose]();
}, 60_000);

async function leasedJob(place: Place): Promise<Job> {
  const { agent, say } = await welcomed(connectSocket, replica.url, place.key);
  await place.start(replica.queue);
  say('ready', { free: 1 });
  const [job] = (await agent.next('offer')).d.jobs;
  agent.vanish();
  return job!;
}

/** Both uploaders of an agent, until the end of the block. */
function sending(spool: Spool, place: Place): AsyncDisposable {
  const proxies = { httpProxy: undefined, httpsProxy: undefined, noProxy: '' };
  const client = new ServiceClient({ serviceUrl: replica.url, apiKey: place.key, version: '1', proxies });
  const stop = new AbortController();
  const target = {
    post: client.post.bind(client),
    batch: () => ({ maxItems: 100, maxBytes: 2_000_000, flushMs: 0 }),
    clockOffsetMs: () => null,
    slots: () => 1,
  };
  const recorder = { upload: () => {} } as unknown as ConstructorParameters<typeof Uploader>[3];
  const loops = [
    new Uploader(spool, target, log, recorder).run(stop.signal),
    new ArtifactUploader(spool, client, log).run(stop.signal),
  ];
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await Promise.all(loops);
      client.close();
    },
  };
}

test('files of a run reach the service scrubbed, over a restart of the agent in the middle', async () => {
  const place = await Place.create(store);
  const job = await leasedJob(place);
  const jobFolder = join(folder.path, 'job');
  mkdirSync(jobFolder);
  const video = Buffer.concat([Buffer.from('1a45dfa3', 'hex'), randomBytes(5 * PART_BYTES)]);
  writeFileSync(join(jobFolder, 'video.webm'), video);
  writeFileSync(join(jobFolder, 'log.txt'), `using ${SECRET}\n`);
  writeFileSync(join(jobFolder, 'empty.txt'), '');
  const dataDir = join(folder.path, 'agent');
  const first = openSpool(dataDir, log);
  const result = resultOf(job);
  const { files, refused } = await collect({
    folder: jobFolder,
    wanted: ['video.webm', 'log.txt', 'empty.txt', 'none.txt'].map((name) => ({
      path: name,
      kind: 'file',
      name,
    })),
    scrubber: createScrubber([SECRET]),
    into: first.folderOf(result.resultId),
  });
  const pending = files.map(({ name, kind, contentType, size, sha256 }): Artifact => {
    return { name, kind, contentType, size, sha256, state: 'pending' };
  });
  await first.accept({ ...result, artifacts: [...pending, ...refused] }, 0, files);
  const states = async (): Promise<Record<string, string>> => {
    const rows = await store.db
      .selectFrom('artifact')
      .where('result_id', '=', result.resultId)
      .select(['name', 'state'])
      .execute();
    return Object.fromEntries(rows.map(({ name, state }) => [name, state]));
  };
  {
    await using _ = sending(first, place);
    await vi.waitUntil(async () => 'video.webm' in (await states()), { timeout: 10_000 });
  }
  first.close();
  const second = openSpool(dataDir, log);
  {
    await using _ = sending(second, place);
    await vi.waitUntil(() => second.state.files === 0, { timeout: 15_000 });
  }
  expect(second.state).toMatchObject({ results: 0, dead: 0, bytes: 0 });
  second.close();
  expect(await states()).toEqual({
    'video.webm': 'stored',
    'log.txt': 'stored',
    'empty.txt': 'stored',
    'none.txt': 'refused',
  });
  expect(await storedBytes(result.resultId, 'log.txt')).toEqual(Buffer.from('using *********\n'));
  // Comparing 42 MB byte by byte would take seconds.
  expect(video.equals(await storedBytes(result.resultId, 'video.webm'))).toBe(true);
});

async function storedBytes(resultId: string, name: string): Promise<Buffer> {
  const { id, scheduled_at, size } = await store.db
    .selectFrom('artifact')
    .where('result_id', '=', resultId)
    .where('name', '=', name)
    .select(['id', 'scheduled_at', 'size'])
    .executeTakeFirstOrThrow();
  const blobs = await openBlobs(`file:${blobDir}`);
  return buffer(blobs.read({ id, day: scheduled_at, size }, 0, size));
}
