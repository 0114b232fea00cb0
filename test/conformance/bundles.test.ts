import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/kit/ids.ts';
import { bundleBlob, createJanitor, openBlobs } from '../../src/service/blobs/index.ts';
import { removeOldRows } from '../../src/service/queue/upkeep.ts';
import { bundles, runLogs, transact } from '../../src/service/store/index.ts';
import { storeBundle, type Caller } from '../../src/service/verbs/index.ts';
import { engines, silentLog } from '../support/databases.ts';
import { World } from './fixture.ts';

describe.each(engines())('archives and logs of suites on $name', (engine) => {
  let world: World;
  let blobs: Caller['blobs'];
  let caller: Caller;
  const folder = mkdtempSync(join(tmpdir(), 'vedette-bundles-'));
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
    blobs = await openBlobs(`file:${folder}`);
    const { store, queue, timing, accountId } = world;
    caller = { store, queue, timing, accountId, blobs, log: silentLog, publicUrl: '' };
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
    rmSync(folder, { recursive: true });
  });

  const sweep = async (): Promise<void> => createJanitor(caller, 30).sweep();
  const upload = async (text: string): Promise<string> =>
    (await storeBundle(caller, Readable.from([gzipSync(text)]))).key;
  const rowOf = async (key: string) => {
    const [row] = await bundles.findBundles(world.store.db, [world.accountId], [key.slice(8, 72)]);
    return row;
  };
  const age = async (key: string): Promise<unknown> =>
    sql`update bundle set used_at = now() - interval '25 hours' where sha256 = ${key.slice(8, 72)}`.execute(
      world.store.db,
    );

  test('an archive is kept once, however often it is sent', async () => {
    const key = await upload('once');
    const row = (await rowOf(key))!;
    const again = await Promise.all([upload('once'), upload('once')]);
    expect(again).toEqual([key, key]);
    expect(await rowOf(key)).toMatchObject({ blob_id: row.blob_id, size: row.size, format: 'gz' });
    expect(await blobs.has(bundleBlob(row))).toBe(true);
  });

  test('an archive that is cut off leaves nothing', async () => {
    const broken = new Readable({ read() {} });
    broken.push(gzipSync('begun'));
    const ended = storeBundle(caller, broken);
    broken.destroy(new Error('gone'));
    await expect(ended).rejects.toThrow('the upload stopped before its end');
  });

  test('what nothing uses goes after a day; what a check or a waiting run needs stays', async () => {
    const [unused, fresh, ofCheck, ofRun, touched] = [
      await upload('unused'),
      await upload('fresh'),
      await upload('of a check'),
      await upload('of a run'),
      await upload('touched'),
    ];
    const rows = { unused: (await rowOf(unused))!, ofRun: (await rowOf(ofRun))! };
    for (const key of [unused, ofCheck, ofRun, touched]) await age(key);
    await world.store.db
      .insertInto('check_def')
      .values({
        id: newId(),
        account_id: world.accountId,
        type: 'PLAYWRIGHT',
        name: 'a suite',
        activated: false,
        tags: [],
        run_locations: ['here'],
        group_id: null,
        interval_ms: 60_000,
        definition: JSON.stringify({ codeBundlePath: ofCheck }),
        last_session_id: null,
      })
      .execute();
    const fields = { bundle: { sha256: rows.ofRun.sha256 } };
    await world.queue.start([world.session({ checkType: 'PLAYWRIGHT', jobClass: 'suite', fields })]);
    expect(await transact(world.store.db, (trx) => bundles.holdBundle(trx, world.accountId, touched))).toBe(
      true,
    );

    await sweep();
    expect(await rowOf(unused)).toBeUndefined();
    expect(await blobs.parts(bundleBlob(rows.unused))).toEqual([]);
    for (const key of [fresh, ofCheck, ofRun, touched]) expect(await rowOf(key)).toBeDefined();
    expect(await blobs.has(bundleBlob(rows.ofRun))).toBe(true);
  });

  test('what a crash left of an upload goes after an hour, and one under way stays', async () => {
    const begun = async (since: string): Promise<ReturnType<typeof bundleBlob>> => {
      const blobId = newId();
      await bundles.openUpload(world.store.db, blobId);
      const bytes = gzipSync(blobId);
      const blob = bundleBlob({ blob_id: blobId, size: bytes.byteLength });
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      await blobs.putPart(blob, 1, Readable.from([bytes]), sha256);
      await sql`update loose_blob set since = now() - ${since}::interval where blob_id = ${blobId}`.execute(
        world.store.db,
      );
      return blob;
    };
    const [lost, underWay] = [await begun('61 minutes'), await begun('59 minutes')];
    await sweep();
    expect(await blobs.parts(lost)).toEqual([]);
    expect(await blobs.parts(underWay)).toEqual([1]);
    const rest = await world.store.db.selectFrom('loose_blob').select('blob_id').execute();
    expect(rest).toEqual([{ blob_id: underWay.id }]);
  });

  test('an archive whose bytes were lost gets them back with its next upload', async () => {
    const key = await upload('precious');
    const lost = (await rowOf(key))!;
    await blobs.remove(bundleBlob(lost));
    expect(await upload('precious')).toBe(key);
    const row = (await rowOf(key))!;
    expect(row.blob_id).not.toBe(lost.blob_id);
    expect(await blobs.has(bundleBlob(row))).toBe(true);
    const loose = await world.store.db.selectFrom('loose_blob').select('blob_id').execute();
    expect(loose).not.toContainEqual({ blob_id: row.blob_id });
  });

  test('of a log the last 256 kB are kept, for some hours', async () => {
    const agent = await world.agent('here', ['URL']);
    const { job, sessionId } = await world.running(agent);
    const place = { accountId: world.accountId, location: 'here' };
    const say = async (text: string) =>
      runLogs.append(world.store.db, place, { runId: job.runId, token: job.token, text });
    for (let n = 0; n < 6; n++) expect(await say(String(n).repeat(64 * 1024))).toBe(sessionId);
    const rows = await runLogs.read(world.store.db, sessionId, 0, 100);
    expect(rows.map(({ text }) => text[0])).toEqual(['2', '3', '4', '5']);
    const elsewhere = { ...place, location: 'there' };
    const { runId, token } = job;
    expect(await runLogs.append(world.store.db, elsewhere, { runId, token, text: 'x' })).toBeUndefined();
    await sql`update run_log set created_at = now() - interval '4 hours'`.execute(world.store.db);
    await sweep();
    expect(await runLogs.read(world.store.db, sessionId, 0, 100)).toEqual([]);
  });

  test('test sessions go with the results, those that were not to be recorded after a day', async () => {
    const { db } = world.store;
    const make = async (recorded: boolean, days: number): Promise<string> => {
      const id = newId();
      const values = {
        id,
        account_id: world.accountId,
        name: 'x',
        provider: 'API',
        run_source: 'TEST_RECORD',
      };
      await db
        .insertInto('test_session')
        .values({ ...values, project_id: null, run_location: 'here', recorded, metadata: '{}' })
        .execute();
      await sql`update test_session set created_at = now() - ${days}::int * interval '1 day' where id = ${id}`.execute(
        db,
      );
      return id;
    };
    const kept = [await make(true, 29), await make(false, 0)];
    await make(true, 31);
    await make(false, 2);
    await removeOldRows(db, 30);
    const rows = await db.selectFrom('test_session').select('id').execute();
    expect(rows.map(({ id }) => id).toSorted()).toEqual(kept.toSorted());
  });
});
