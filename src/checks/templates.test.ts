import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatMoment, momentOf } from './moment.ts';
import { fillTemplate, variablesOf } from './templates.ts';

const variables = variablesOf([
  { key: 'HOST', value: 'api.example.com' },
  { key: 'ODD', value: 'a b&c/ü' },
  { key: 'LOOP', value: '{{HOST}}' },
  { key: 'TWICE', value: 'first' },
  { key: 'TWICE', value: 'second' },
  { key: 'GROUP_BASE_URL', value: 'https://base.test:8443' },
]);
const fill = (text: string): string => fillTemplate(text, variables);

describe('variables', () => {
  test.each([
    ['https://{{HOST}}/x', 'https://api.example.com/x'],
    ['{{ HOST }}', 'api.example.com'],
    ['{{GROUP_BASE_URL}}/x?q={{ODD}}', 'https://base.test:8443/x?q=a%20b%26c%2F%C3%BC'],
    ['{{ODD}}', 'a%20b%26c%2F%C3%BC'],
    ['{{{ODD}}}', 'a b&c/ü'],
    ['{{TWICE}}', 'second'],
    ['[{{UNKNOWN}}]', '[]'],
    ['{{{LOOP}}}', '{{HOST}}'],
    ['{"a":{"b":{{HOST}}}}', '{"a":{"b":api.example.com}}'],
    ['{"a":{"b":{{{HOST}}}}}', '{"a":{"b":api.example.com}}'],
    ['{{#if HOST}}x{{/if}}', '{{#if HOST}}x{{/if}}'],
    ['{{ "not": "a template" }}', '{{ "not": "a template" }}'],
    ['{{constructor}}{{__proto__}}{{toString}}', ''],
    ['{{HOST', '{{HOST'],
  ])('%s gives %s', (text, filled) => {
    expect(fill(text)).toBe(filled);
  });

  test('raw filling is for texts that are encoded afterwards', () => {
    expect(fillTemplate('{{ODD}}', variables, 'raw')).toBe('a b&c/ü');
  });

  test('text without braces comes back as it is', () => {
    fc.assert(
      fc.property(
        fc.string().filter((text) => !text.includes('{{')),
        (text) => {
          expect(fill(text)).toBe(text);
        },
      ),
    );
  });

  test('any value can be inserted and decoded again', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        const own = variablesOf([{ key: 'V', value }]);
        expect(decodeURIComponent(fillTemplate('{{V}}', own))).toBe(value);
        expect(fillTemplate('{{{V}}}', own)).toBe(value);
      }),
    );
  });
});

describe('helpers', () => {
  test('$UUID is a new version 4 UUID each time', () => {
    const [one, two] = fill('{{$UUID}} {{$UUID}}').split(' ');
    expect(one).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(two).not.toBe(one);
  });

  test('$RANDOM_NUMBER is a whole number from 0 to 10000', () => {
    for (let i = 0; i < 200; i++) {
      const number = Number(fill('{{$RANDOM_NUMBER}}'));
      expect(Number.isInteger(number) && number >= 0 && number <= 10_000).toBe(true);
    }
  });

  test('moment takes a format, or words and a format', () => {
    expect(fill('{{moment "YYYY"}}')).toMatch(/^\d{4}$/);
    expect(fill('{{moment "2026-03-01" "D MMM"}}')).toBe('1%20Mar');
    expect(fill('{{{moment "2026-03-01" "D MMM"}}}')).toBe('1 Mar');
    expect(fill('{{{moment "whenever" "YYYY"}}}')).toBe('Invalid date');
    const day = new Date(Date.now() - 2 * 86_400_000).toISOString().slice(0, 10);
    expect(fill('{{moment "2 days ago" "YYYY-MM-DD"}}')).toBe(day);
  });
});

describe('moment formats', () => {
  const date = new Date('2026-01-04T15:07:09.042Z');
  test.each([
    ['YYYY-MM-DD HH:mm:ss.SSS', '2026-01-04 15:07:09.042'],
    ['YY M D H h m s S SS', '26 1 4 15 3 7 9 0 04'],
    ['dddd ddd dd d E e do', 'Sunday Sun Su 0 7 0 0th'],
    ['MMMM MMM Mo Do DDD DDDD DDDo', 'January Jan 1st 4th 4 004 4th'],
    ['Q Qo', '1 1st'],
    ['W WW Wo GGGG w ww wo gggg', '1 01 1st 2026 2 02 2nd 2026'],
    ['A a hh kk k', 'PM pm 03 15 15'],
    ['Z ZZ z', '+00:00 +0000 UTC'],
    ['X x', '1767539229 1767539229042'],
    ['[today is] dddd', 'today is Sunday'],
    ['L', '01/04/2026'],
    ['LLLL', 'Sunday, January 4, 2026 3:07 PM'],
    ['lll', 'Jan 4, 2026 3:07 PM'],
    ['LT LTS', '3:07 PM 3:07:09 PM'],
  ])('%s is %s', (format, text) => {
    expect(formatMoment(date, format)).toBe(text);
  });

  test.each([
    ['2021-01-03T00:00:00Z', '2020-W53', '2021-2'],
    ['2024-12-30T00:00:00Z', '2025-W01', '2025-1'],
    ['2023-01-01T00:00:00Z', '2022-W52', '2023-1'],
    ['2026-12-31T00:00:00Z', '2026-W53', '2027-1'],
  ])('%s is in ISO week %s and English week %s', (day, iso, local) => {
    expect(formatMoment(new Date(day), 'GGGG-[W]WW')).toBe(iso);
    expect(formatMoment(new Date(day), 'gggg-w')).toBe(local);
  });
});

describe('moments in words', () => {
  const now = new Date('2026-03-31T12:00:00Z');
  test.each([
    ['now', '2026-03-31T12:00:00.000Z'],
    ['yesterday', '2026-03-30T12:00:00.000Z'],
    ['2 days ago', '2026-03-29T12:00:00.000Z'],
    ['in 3 hours', '2026-03-31T15:00:00.000Z'],
    ['an hour ago', '2026-03-31T11:00:00.000Z'],
    ['1 month ago', '2026-02-28T12:00:00.000Z'],
    ['next month', '2026-04-30T12:00:00.000Z'],
    ['last year', '2025-03-31T12:00:00.000Z'],
    ['5 minutes from now', '2026-03-31T12:05:00.000Z'],
    ['2025-12-24T10:00:00Z', '2025-12-24T10:00:00.000Z'],
  ])('%s', (words, iso) => {
    expect(momentOf(words, now)?.toISOString()).toBe(iso);
  });

  test('what is no moment is null, whatever it is', () => {
    expect(momentOf('99999999999999 years ago', now)).toBeNull();
    expect(momentOf('3 constructor ago', now)).toBeNull();
    fc.assert(fc.property(fc.string(), (words) => void momentOf(words, now)));
  });
});
