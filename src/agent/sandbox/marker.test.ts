import { expect, test } from 'vitest';
import { markerOf, nextMarker, ownerLives, ownerOf } from './marker.ts';

test('a mark says which agent set it', () => {
  const owner = { namespace: 1234, pid: 4_194_303, startedAt: 4095 };
  const marker = markerOf(owner, 7);
  expect(ownerOf(marker)).toEqual(owner);
  expect(marker < 2n ** 63n).toBe(true);
});

test('the marks of one agent differ, and it lives', () => {
  const marks = Array.from({ length: 100 }, () => nextMarker());
  expect(new Set(marks).size).toBe(100);
  expect(marks.every((mark) => ownerLives(mark))).toBe(true);
});

test('limits that others set are no marks; agents of other name spaces count as living', () => {
  for (const limit of [0n, 200_000n, 2n ** 63n, 2n ** 64n - 1n]) expect(ownerOf(limit)).toBeUndefined();
  const here = ownerOf(nextMarker())!;
  expect(ownerLives(markerOf({ ...here, startedAt: (here.startedAt + 1) % 4096 }, 0))).toBe(false);
  expect(ownerLives(markerOf({ ...here, namespace: (here.namespace + 1) % 4096, startedAt: 0 }, 0))).toBe(
    true,
  );
});
