import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loads } from '../../src/service/store/index.ts';
import { engines } from '../support/databases.ts';
import { World } from './fixture.ts';

describe.each(engines())('load of locations on the $name engine', (engine) => {
  let world: World;
  let locationId: string;
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
    locationId = await world.location('busy');
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
  });

  const minutesAgo = (n: number): Date => new Date(Date.now() - n * 60_000);
  const samples = async () => world.store.db.selectFrom('location_load').selectAll().execute();

  test('is what waits, what agents have, and who they are', async () => {
    const agent = await world.agent('busy');
    await world.agent('busy');
    const later = world.session({ locations: ['busy'], scheduledAt: minutesAgo(-5) });
    const due = [3, 2, 1].map((n) => world.session({ locations: ['busy'], scheduledAt: minutesAgo(n) }));
    await world.queue.start([...due, later]);
    await world.claimed(agent, 1);
    const all = await loads.loadsNow(world.store.db);
    const busy = all.find(({ slug }) => slug === 'busy')!;
    expect(busy).toMatchObject({
      queued: 2,
      inFlight: 1,
      fleets: [{ version: '1.0.0', agents: 2, slots: 200 }],
    });
    expect(busy.lastSeen).toBeInstanceOf(Date);
    // The oldest was taken; the next had been due for two minutes.
    expect(Math.round(busy.oldestSeconds / 10)).toBe(12);
    expect(all.find(({ slug }) => slug === 'here')).toMatchObject({
      queued: 0,
      oldestSeconds: 0,
      inFlight: 0,
      lastSeen: null,
      fleets: [],
    });
  });

  test('is written once a minute however many replicas do it', async () => {
    const { db } = world.store;
    await sql`delete from location_load`.execute(db);
    await Promise.all(Array.from({ length: 5 }, async () => loads.recordSamples(db)));
    const written = await samples();
    const minutes = new Set(written.map(({ at }) => at.getTime()));
    expect(written).toHaveLength(2 * minutes.size);
    // Two when the minute ended meanwhile.
    expect(minutes.size).toBeLessThanOrEqual(2);
    expect(written.filter((each) => each.location_id === locationId)[0]).toMatchObject({ queued: 2 });
  });

  test('is told in steps by the highest of each, and forgotten after its time', async () => {
    const { db } = world.store;
    await sql`delete from location_load`.execute(db);
    await sql`insert into location_load (location_id, at, queued, oldest_seconds)
      select ${locationId}, '2026-03-01T00:00Z'::timestamptz + n * interval '1 minute', n, 100 - n
      from generate_series(0, 9) n`.execute(db);
    const window = { from: new Date('2026-03-01T00:00Z'), to: new Date('2026-03-01T00:08Z') };
    expect(await loads.history(db, locationId, { ...window, stepSeconds: 300 })).toEqual([
      { at: new Date('2026-03-01T00:00Z'), queued: 4, oldestSeconds: 100 },
      { at: new Date('2026-03-01T00:05Z'), queued: 7, oldestSeconds: 95 },
    ]);
    expect(await loads.history(db, locationId, { ...window, stepSeconds: 60 })).toHaveLength(8);

    expect(await loads.removeSamples(db, 100_000, 5)).toBe(0);
    expect(await loads.removeSamples(db, 1, 7)).toBe(7);
    expect((await samples()).map(({ queued }) => queued)).toEqual([7, 8, 9]);
  });
});
