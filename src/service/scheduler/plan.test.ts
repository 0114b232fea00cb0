import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { firstTick, planTick, type Planned } from './plan.ts';

const MINUTE = 60_000;
const now = new Date('2026-11-21T10:00:00.000Z');

const after = (ms: number, from = now): Date => new Date(from.getTime() + ms);

function check(change: Partial<Planned> = {}): Planned {
  return {
    id: '5f0f5c6e-0000-4000-8000-000000000001',
    intervalMs: 10 * MINUTE,
    nextAt: now,
    ticks: 0,
    locations: ['a', 'b', 'c'],
    runParallel: false,
    busy: false,
    ...change,
  };
}

const ids = fc.uuid();
const intervals = fc.constantFrom(10_000, 20_000, 30_000, MINUTE, 10 * MINUTE, 60 * MINUTE, 1440 * MINUTE);

describe('the grid', () => {
  test('ticks are exactly one interval apart, on the same phase for ever', () => {
    fc.assert(
      fc.property(ids, intervals, (id, intervalMs) => {
        let each = check({ id, intervalMs, nextAt: planTick(check({ id, intervalMs }), now).nextAt });
        for (let n = 0; n < 5; n++) {
          const tick = planTick(each, after(50, each.nextAt));
          expect(tick.start?.lane).toBe(1);
          expect(tick.start?.scheduledAt).toEqual(each.nextAt);
          expect(tick.nextAt.getTime() - each.nextAt.getTime()).toBe(intervalMs);
          each = { ...each, nextAt: tick.nextAt, ticks: each.ticks + 1 };
        }
      }),
    );
  });

  test('starts of many checks are spread over the interval', () => {
    const buckets = Array.from({ length: 10 }, () => 0);
    for (let n = 0; n < 1000; n++) {
      const { nextAt } = planTick(check({ id: `check ${n}` }), now);
      buckets[Math.floor((nextAt.getTime() % (10 * MINUTE)) / MINUTE)]! += 1;
    }
    expect(Math.min(...buckets)).toBeGreaterThan(60);
    expect(Math.max(...buckets)).toBeLessThan(145);
  });
});

describe('locations', () => {
  test('take turns, one per tick', () => {
    const places = [0, 1, 2, 3].map((ticks) => planTick(check({ ticks }), now).start?.locations);
    expect(places).toEqual([['a'], ['b'], ['c'], ['a']]);
  });

  test('run all at each tick when parallel', () => {
    expect(planTick(check({ runParallel: true, ticks: 1 }), now).start?.locations).toEqual(['a', 'b', 'c']);
  });

  test('of which there are none start nothing, and the next tick comes', () => {
    const tick = planTick(check({ locations: [] }), now);
    expect(tick.start).toBeUndefined();
    expect(tick.nextAt.getTime()).toBeGreaterThan(now.getTime());
  });
});

test('a tick is skipped while the last one is unfinished', () => {
  const tick = planTick(check({ busy: true }), now);
  expect(tick.start).toBeUndefined();
  expect(tick.nextAt.getTime()).toBeGreaterThan(now.getTime());
});

test('a new check runs within five seconds, or within its interval', () => {
  fc.assert(
    fc.property(ids, intervals, (id, intervalMs) => {
      const wait = firstTick(id, intervalMs, now).getTime() - now.getTime();
      expect(wait).toBeGreaterThanOrEqual(0);
      expect(wait).toBeLessThan(Math.min(intervalMs, 5_000));
    }),
  );
});

test('the second run of a new check is at least half an interval after the first', () => {
  fc.assert(
    fc.property(ids, intervals, (id, intervalMs) => {
      const first = firstTick(id, intervalMs, now);
      const { nextAt } = planTick(check({ id, intervalMs, nextAt: first }), first);
      const gap = nextAt.getTime() - first.getTime();
      expect(gap).toBeGreaterThanOrEqual(intervalMs / 2);
      expect(gap).toBeLessThan(1.5 * intervalMs);
    }),
  );
});

describe('after a stop', () => {
  test('nothing is replayed: at most one catch-up, spread over a minute, in its own lane', () => {
    fc.assert(
      fc.property(ids, intervals, fc.integer({ min: 11_000, max: 86_400_000 }), (id, intervalMs, late) => {
        const first = planTick(check({ id, intervalMs, nextAt: after(-late), ticks: 7 }), now);
        expect(first.start).toBeUndefined();
        const wait = first.nextAt.getTime() - now.getTime();
        expect(wait).toBeGreaterThanOrEqual(0);
        expect(wait).toBeLessThanOrEqual(MINUTE);
        const second = planTick(check({ id, intervalMs, nextAt: first.nextAt, ticks: 7 }), first.nextAt);
        expect(second.start).toBeDefined();
        expect(second.nextAt.getTime()).toBeGreaterThanOrEqual(first.nextAt.getTime() + intervalMs / 2);
      }),
    );
  });

  test('a check that would wait for long is caught up in lane 2', () => {
    const daily = check({ intervalMs: 1440 * MINUTE, nextAt: after(-30 * MINUTE), ticks: 3 });
    const { nextAt } = planTick(daily, now);
    expect(planTick({ ...daily, nextAt }, nextAt).start?.lane).toBe(2);
  });

  test('a short delay is no stop', () => {
    const tick = planTick(check({ nextAt: after(-9_000) }), now);
    expect(tick.start?.scheduledAt).toEqual(after(-9_000));
  });
});
