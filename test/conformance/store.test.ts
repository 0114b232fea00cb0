import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Store, Topic } from '../../src/service/ports.ts';
import { removeOldRows } from '../../src/service/queue/upkeep.ts';
import { dropOldPartitions } from '../../src/service/store/partitions.ts';
import { engines } from '../support/databases.ts';
import { resultOf, World } from './fixture.ts';

/** As before the step 0010-suites; it and what came after it run again. */
async function withoutSuites(db: Parameters<typeof removeOldRows>[0]): Promise<void> {
  for (const undo of [
    sql`drop table check_trigger, bundle, loose_blob, test_session, run_part, run_log, error_group`,
    sql`alter table check_session drop column test_session_id, drop column tested_check_id`,
    sql`alter table run drop column tested_check_id, drop column whole_id, drop column shard`,
    sql`alter table check_result drop column error_group_ids`,
    sql`delete from kysely_migration where name >= '0010'`,
  ]) {
    await undo.execute(db);
  }
}

describe.each(engines())('store on $name', (engine) => {
  beforeAll(() => engine.start());
  afterAll(() => engine.stop());

  test('opens again what it has stored, with 64-bit numbers as numbers', async () => {
    const place = await engine.fresh();
    const first = await place.open();
    const id = crypto.randomUUID();
    await first.db.insertInto('account').values({ id, name: 'one' }).execute();
    await first.close();

    const second = await place.open();
    const row = await second.db
      .selectFrom('account')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row.name).toBe('one');
    expect(row.created_at).toBeInstanceOf(Date);
    const { rows } = await sql<{ n: number }>`select 9007199254740991::bigint as n`.execute(second.db);
    expect(rows[0]!.n).toBe(Number.MAX_SAFE_INTEGER);
    await second.close();
  });

  test('of the build before groups gets what is new, and keeps what it has', async () => {
    const place = await engine.fresh();
    const old = await place.open();
    await withoutSuites(old.db);
    for (const undo of [
      sql`drop table location_load`,
      sql`drop table variable, snippet`,
      sql`alter table check_def drop column group_id`,
      sql`drop table check_group`,
      sql`alter table account drop column runtime_id`,
      sql`delete from kysely_migration where name >= '0003'`,
    ]) {
      await undo.execute(old.db);
    }
    const [account, check] = [crypto.randomUUID(), crypto.randomUUID()];
    await sql`insert into account (id, name) values (${account}, 'old')`.execute(old.db);
    await sql`insert into check_def (id, account_id, type, name, activated, tags, run_locations, interval_ms, definition)
      values (${check}, ${account}, 'URL', 'kept', true, '{}', '{here}', 60000, '{}')`.execute(old.db);
    await old.close();

    const store = await place.open();
    const { db } = store;
    const { rows } = await sql`
      select c.name, c.group_id, a.runtime_id from check_def c join account a on a.id = c.account_id`.execute(
      db,
    );
    expect(rows).toEqual([{ name: 'kept', group_id: null, runtime_id: null }]);
    const group = { account_id: account, name: 'new', tags: [], definition: '{}' };
    const { id } = await db.insertInto('check_group').values(group).returning('id').executeTakeFirstOrThrow();
    await db.updateTable('check_def').set({ group_id: id }).where('id', '=', check).execute();
    await expect(db.deleteFrom('check_group').where('id', '=', id).execute()).rejects.toMatchObject({
      code: '23503',
    });
    for (const table of ['variable', 'snippet'] as const) {
      expect(await db.selectFrom(table).selectAll().execute()).toEqual([]);
    }
    await store.close();
  });

  test('of a newer build is used as it is, unless that took something away', async () => {
    const place = await engine.fresh();
    const store = await place.open();
    const step = async ({ db }: Store, name: string): Promise<unknown> =>
      sql`insert into kysely_migration (name, timestamp) values (${name}, '2027')`.execute(db);
    await step(store, '9998-more');
    await store.close();
    const behind = await place.open();
    expect(await behind.db.selectFrom('location_load').selectAll().execute()).toEqual([]);
    await step(behind, '9999-less-contract');
    await behind.close();
    await expect(place.open()).rejects.toMatchObject({
      exitCode: 78,
      message: expect.stringContaining('9999-less-contract'),
    });
  });

  test('rolls a failed transaction back and goes on', async () => {
    const store = await (await engine.fresh()).open();
    const failed = store.db.transaction().execute(async (trx) => {
      await trx.insertInto('account').values({ id: crypto.randomUUID(), name: 'lost' }).execute();
      await sql`select 1/0`.execute(trx);
    });
    await expect(failed).rejects.toMatchObject({ code: '22012' });
    expect(await store.db.selectFrom('account').select('id').execute()).toEqual([]);
    expect(await store.ping()).toBe(true);
    await store.close();
  });

  test('tells listeners of the own process about a wake-up, once per turn', async () => {
    const store = await (await engine.fresh()).open();
    const heard: Topic[] = [];
    const stop = store.onWake((topic) => heard.push(topic));
    store.wake('runs:a/b');
    store.wake('runs:a/b');
    await expect.poll(() => heard).toEqual(['runs:a/b']);
    stop();
    store.wake('runs:a/c');
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    expect(heard).toEqual(['runs:a/b']);
    await store.close();
  });

  test('keeps a week of days ready, and drops whole days that are too old', async () => {
    const store = await (await engine.fresh()).open();
    const days = async () => {
      const { rows } = await sql<{ name: string }>`
        select relname as name from pg_class where relname ~ '^check_result_[0-9]+$' and relkind = 'r'
        order by 1`.execute(store.db);
      return rows.map(({ name }) => name);
    };
    expect(await days()).toHaveLength(9);
    for (const parent of ['check_result', 'check_result_detail']) {
      await sql`create table ${sql.table(`${parent}_20200101`)} partition of ${sql.table(parent)}
        for values from ('2020-01-01T00:00Z') to ('2020-01-02T00:00Z')`.execute(store.db);
    }
    expect(await dropOldPartitions(store.db, 30)).toHaveLength(2);
    expect(await days()).toHaveLength(9);
    await store.close();
  });

  test('removes runs two days after their end, sessions with the raw results', async () => {
    const world = await World.on(await engine.fresh());
    const { db } = world.store;
    const agent = await world.agent();
    const [old, ended, open] = [
      await world.running(agent),
      await world.running(agent),
      await world.running(agent),
    ];
    await world.record('here', resultOf(old.job), resultOf(ended.job));
    await sql`update run set finished_at = now() - interval '49 h' where id = ${old.job.runId}`.execute(db);
    await sql`update check_session set started_at = now() - interval '31 d' where id = ${old.sessionId}`.execute(
      db,
    );
    await removeOldRows(db, 30);
    const runs = await db.selectFrom('run').select('id').orderBy('id').execute();
    expect(runs.map(({ id }) => id)).toEqual([ended.job.runId, open.job.runId]);
    const sessions = await db.selectFrom('check_session').select('id').execute();
    expect(sessions.map(({ id }) => id).toSorted()).toEqual([ended.sessionId, open.sessionId].toSorted());
    await world.close();
  });
});
