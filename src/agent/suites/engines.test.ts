import { expect, test } from 'vitest';
import { majorsOf } from './engines.ts';

test.each([
  [null, 24],
  ['*', 24],
  ['22', 22],
  ['v22.14.0', 22],
  ['lts/*', 24],
  ['lts/jod', 22],
  ['>=20', 24],
  ['>=18 <23', 22],
  ['^22 || ^24', 24],
  ['^26', 26],
  ['24.x', 24],
  ['16', 22],
  ['99', 26],
  ['no version at all', 24],
])('of %j Node %i is taken', (range, major) => {
  expect(majorsOf(range)[0]).toBe(major);
});
