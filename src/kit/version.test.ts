import { expect, test } from 'vitest';
import { isOlder, VERSION } from './version.ts';

test('the version is that of the package', () => {
  expect(VERSION).toMatch(/^\d+\.\d+\.\d+/);
});

test.each([
  ['1.2.3', '1.2.4', true],
  ['1.2.3', '1.10.0', true],
  ['9.9.9', '10.0.0', true],
  ['1.2.3', '1.2.3', false],
  ['2.0.0', '1.9.9', false],
  ['1.2.3-beta.1', '1.2.3', false],
  ['unknown', '0.0.1', true],
  ['0.0.1', 'unknown', false],
])('%s is older than %s: %s', (a, b, older) => {
  expect(isOlder(a, b)).toBe(older);
});
