import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/kit/ids.ts';
import { GroupFields } from '../../src/service/definitions/index.ts';
import { createQueue } from '../../src/service/queue/index.ts';
import { createScheduler } from '../../src/service/scheduler/index.ts';
import { engines, silentLog } from '../support/databases.ts';
import { resultOf, World } from './fixture.ts';

describe.each(engines())('scheduler on $name', (engine) => {
  let world: World;
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
  });

  const intervalMs = 10_000;

  async function check(
    change: {
      nextAt?: Date;
      definition?: object;
      type?: string;
      locations?: string[];
      group_id?: number;
    } = {},
  ) {
    const id = newId();
    const request = { url: 'http://127.0.0.1/', assertions: [] };
    await world.store.db
      .insertInto('check_def')
      .values({
        id,
        account_id: world.accountId,
        type: change.type ?? 'URL',
        name: `check ${id}`,
        activated: true,
        tags: [],
        run_locations: change.locations ?? ['here'],
        group_id: change.group_id ?? null,
        interval_ms: intervalMs,
        definition: JSON.stringify({ name: id, retryStrategy: null, request, ...change.definition }),
        next_at: change.nextAt ?? new Date(Date.now() - 500),
        last_session_id: null,
      })
      .execute();
    return id;
  }

  const checkRow = (id: string) =>
    world.store.db.selectFrom('check_def').selectAll().where('id', '=', id).executeTakeFirstOrThrow();

  const sessionsOf = (id: string) =>
    world.store.db.selectFrom('check_session').selectAll().where('check_id', '=', id).execute();

  const makeDue = (id: string) =>
    world.store.db
      .updateTable('check_def')
      .set({ next_at: new Date(Date.now() - 200) })
      .where('id', '=', id)
      .execute();

  /** Runs `count` schedulers at once until nothing is due. */
  async function schedule(count = 1): Promise<void> {
    const stop = new AbortController();
    const loops = Array.from({ length: count }, () => {
      const queue = createQueue({ store: world.store, timing: world.timing, log: silentLog });
      return createScheduler({ store: world.store, queue, log: silentLog }).loop(stop.signal);
    });
    await expect
      .poll(async () => {
        const due = world.store.db.selectFrom('check_def').select('id').where('next_at', '<=', new Date());
        return (await due.execute()).length;
      })
      .toBe(0);
    stop.abort();
    await Promise.all(loops);
  }

  test('a due check becomes a session with a run that an agent can claim', async () => {
    await world.location('first');
    const id = await check({ locations: ['first'] });
    await schedule();
    const [job] = await world.claimed(await world.agent('first'), 1);
    expect(job).toMatchObject({ checkId: id, lane: 1, spec: { name: id } });
    expect(job!.timeoutMs).toBeGreaterThan(0);
    expect(await sessionsOf(id)).toMatchObject([{ run_source: 'SCHEDULER', status: 'PROGRESS' }]);
    const { next_at, ticks } = await checkRow(id);
    expect(next_at!.getTime()).toBeGreaterThan(Date.now() - 1_000);
    expect(ticks).toBe(1);
  });

  test('two schedulers never start one tick twice', async () => {
    const ids = await Promise.all(Array.from({ length: 60 }, () => check()));
    await schedule(2);
    for (const id of ids) expect(await sessionsOf(id)).toHaveLength(1);
  });

  test('a check never overlaps itself, and goes on when its run has ended', async () => {
    await world.location('slow');
    const agent = await world.agent('slow');
    const id = await check({ locations: ['slow'] });
    await schedule();
    const [job] = await world.claimed(agent, 1);
    await makeDue(id);
    await schedule();
    expect(await sessionsOf(id)).toHaveLength(1);
    await world.record('slow', resultOf(job!));
    await makeDue(id);
    await schedule();
    expect(await sessionsOf(id)).toHaveLength(2);
  });

  test('on-demand sessions do not hold a schedule up', async () => {
    const id = await check();
    await world.queue.start([world.session({ checkId: id, lane: 0, runSource: 'TRIGGER_API' })]);
    await schedule();
    expect(
      (await sessionsOf(id)).map(({ run_source }) => run_source ?? '').toSorted((a, b) => a.localeCompare(b)),
    ).toEqual(['SCHEDULER', 'TRIGGER_API']);
  });

  test('locations take turns, or all run when parallel', async () => {
    await world.location('east');
    await world.location('west');
    const agents = { east: await world.agent('east'), west: await world.agent('west') };
    const id = await check({ locations: ['east', 'west'] });
    const places = [];
    for (let n = 0; n < 4; n++) {
      await makeDue(id);
      await schedule();
      for (const place of ['east', 'west'] as const) {
        for (const job of await world.claimed(agents[place], 9)) {
          places.push(place);
          await world.record(place, resultOf(job));
        }
      }
    }
    expect(places).toEqual(['east', 'west', 'east', 'west']);
    const all = await check({ locations: ['east', 'west'], definition: { runParallel: true } });
    await schedule();
    expect(await sessionsOf(all)).toMatchObject([{ run_locations: ['east', 'west'] }]);
    for (const place of ['east', 'west'] as const) {
      expect(await world.claimed(agents[place], 9)).toMatchObject([{ checkId: all }]);
    }
  });

  test('missed ticks are not replayed', async () => {
    const id = await check({ nextAt: new Date(Date.now() - 3_600_000) });
    await schedule();
    expect(await sessionsOf(id)).toEqual([]);
    const { next_at } = await checkRow(id);
    expect(next_at!.getTime()).toBeLessThanOrEqual(Date.now() + intervalMs);
  });

  test('a check that this build cannot run does not keep the others from running', async () => {
    const [strange, good] = [await check({ type: 'HEARTBEAT' }), await check()];
    await schedule();
    expect(await sessionsOf(strange)).toEqual([]);
    expect(await sessionsOf(good)).toHaveLength(1);
  });

  test('nor does one that cannot be merged with its group', async () => {
    const definition = JSON.stringify(GroupFields.parse({ name: 'a group', runtimeId: '2025.04' }));
    const { id: group_id } = await world.store.db
      .insertInto('check_group')
      .values({ account_id: world.accountId, name: 'a group', tags: [], definition })
      .returning('id')
      .executeTakeFirstOrThrow();
    const broken = await check({ type: 'API', definition: { request: null }, group_id });
    await world.location('grouped');
    const good = await check({ group_id, locations: ['grouped'] });
    await schedule();
    expect(await sessionsOf(broken)).toEqual([]);
    const [job] = await world.claimed(await world.agent('grouped'), 1);
    expect(job).toMatchObject({ checkId: good, spec: { runtimeId: '2025.04' } });
  });
});
