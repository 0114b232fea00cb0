import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toJson } from './json.ts';

test('what PostgreSQL takes stays as it is', () => {
  const value = { a: [1, 'ü😀"\\u0041', null], b: { c: true } };
  expect(toJson(value)).toBe(JSON.stringify(value));
});

test('NUL and halves of surrogate pairs become U+FFFD, in keys as well', () => {
  const parsed: unknown = JSON.parse(toJson({ 'k\0': ['a\0b', '\ud800', { x: '\udc00y' }] }));
  expect(parsed).toEqual({ 'k\u{FFFD}': ['a\u{FFFD}b', '\u{FFFD}', { x: '\u{FFFD}y' }] });
});

test('no string brings an escape that jsonb refuses', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 20 }), fc.boolean(), (text, broken) => {
      const parsed = JSON.parse(toJson({ text: broken ? `${text}\ud83d` : text })) as { text: string };
      expect(parsed.text.isWellFormed()).toBe(true);
      expect(parsed.text).not.toContain('\0');
    }),
  );
});
