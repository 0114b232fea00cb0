import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Topic } from '../../src/service/ports.ts';
import { engines } from '../support/databases.ts';

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
});
