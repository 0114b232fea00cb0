import { expect, test } from 'vitest';
import { matchesGlob } from './glob.ts';

test.each([
  ['trace.zip', 'trace.zip', true],
  ['trace.zip', '*.zip', true],
  ['trace.zip', '*.zi', false],
  ['trace.zip', 'trace', false],
  ['screenshots/after-login.png', '*.png', true],
  ['screenshots/after-login.png', 'screenshots/*', true],
  ['screenshots/after-login.png', '*/after-?????.png', true],
  ['a.b', 'a?b', true],
  ['ab', 'a?b', false],
  ['', '*', true],
  ['', '', true],
  ['a', '', false],
  ['abcabc', '*abc', true],
  ['abcabd', '*abc', false],
  ['a[1].png', 'a[1].png', true],
  ['aXb', 'a.b', false],
])('%j and %j: %s', (text, pattern, fits) => {
  expect(matchesGlob(text, pattern)).toBe(fits);
});

test('a pattern of stars ends at once', () => {
  expect(matchesGlob('a'.repeat(255), '*a'.repeat(99) + '*b')).toBe(false);
});
