import { expect, test } from 'vitest';
import { errorMessage } from './error-message.ts';

test.each([
  ['connect ECONNREFUSED 10.0.0.7:443', 'connect ECONNREFUSED 10.0.0.9:8443'],
  [
    'order 5f6a1c0e-2b7d-4c3f-9e4a-7d1b0c5a9f61 not found',
    'order 0f1e2d3c-4b5a-4697-8877-665544332211 not found',
  ],
  ['late since 2026-11-21T03:00:00.000Z', 'late since 2026-11-22 04:30'],
  ['\u001b[31mTimeout 5000ms exceeded.\u001b[39m\n\n  at line 3', 'Timeout 30000ms exceeded. at line 12'],
  ['build 9f86d081884c7d659a2f failed', 'build 60303ae22b998861bce3 failed'],
])('%j is the same error as %j', (one, other) => {
  expect(errorMessage(one).hash).toBe(errorMessage(other).hash);
});

test('errors with other words are others, and the words stay readable', () => {
  const one = errorMessage('Timeout 5000ms exceeded while waiting for #login');
  expect(one.cleaned).toBe('Timeout <n>ms exceeded while waiting for #login');
  expect(one.raw).toBe('Timeout 5000ms exceeded while waiting for #login');
  expect(one.hash).not.toBe(errorMessage('Timeout 5000ms exceeded while waiting for #logout').hash);
  expect(errorMessage('defaced facade').cleaned).toBe('defaced facade');
});

test('very long messages are cut', () => {
  const { raw, cleaned } = errorMessage('x '.repeat(50_000));
  expect(raw).toHaveLength(10_000);
  expect(cleaned.length).toBeLessThanOrEqual(1000);
});
