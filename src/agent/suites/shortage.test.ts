import { expect, test } from 'vitest';
import type { Load } from '../sandbox/index.ts';
import { waitedMsIn } from './shortage.ts';

const load = (ranMs: number, waitedMs: number, cpuMs = ranMs): Load => ({ ranMs, waitedMs, cpuMs });
const jobOf = (...loads: Load[]): Map<number, Load> => new Map(loads.map((each, pid) => [pid, each]));
const nothing = jobOf(load(0, 0), load(0, 0), load(0, 0), load(0, 0));
const SECOND = 1000;

test.each([
  ['rests', [load(0, 0)], 0],
  ['computes alone', [load(900, 10)], 10],
  ['gets a tenth of what it wants', [load(100, 900)], 900],
  ['seldom wants a processor, and waits for it then', [load(10, 90)], 90],
  ['has many processes that all wait', [load(50, 950), load(50, 950), load(50, 950)], 950],
  ['has four that wait for one another', [load(500, 500), load(500, 500), load(500, 500), load(500, 500)], 0],
  ['waits for threads of its own', [load(100, 900, 1500)], 0],
])('a job that %s', (_what, loads, expected) => {
  expect(waitedMsIn(nothing, jobOf(...loads), SECOND, 2)).toBeCloseTo(expected, 0);
});

test('a process that was not there before says nothing yet', () => {
  expect(waitedMsIn(new Map(), jobOf(load(5, 5000)), SECOND, 2)).toBe(0);
});
