import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Assertion, Comparison } from './assertion-fields.ts';
import { assertionMessage, type EvaluatedAssertion, evaluateAssertions, type Source } from './assertions.ts';

const assertion = (
  source: string,
  comparison: Comparison,
  target: string,
  property = '',
  regex: string | null = null,
): Assertion => ({ source, comparison, property, target, regex });

function evaluateOne(
  source: Source,
  ...rest: [Comparison, string?, string?, (string | null)?]
): EvaluatedAssertion {
  const [comparison, target = '', property = '', regex = null] = rest;
  return evaluateAssertions([assertion('X', comparison, target, property, regex)], { X: source })[0]!;
}

const value = (v: string | number): Source => ({ kind: 'value', value: v });
const text = (t: string): Source => ({ kind: 'text', read: () => t });
const json = (document: unknown): Source => ({ kind: 'json', read: () => document });
const headers = (fields: Record<string, string | string[]>): Source => ({ kind: 'headers', headers: fields });

describe('comparisons of scalars', () => {
  test.each<[string | number, Comparison, string, boolean]>([
    [200, 'EQUALS', '200', true],
    [200, 'EQUALS', '200.0', true],
    [200, 'EQUALS', ' 200 ', true],
    [200, 'EQUALS', '', false],
    [200, 'NOT_EQUALS', '404', true],
    [200, 'LESS_THAN', '300', true],
    [200, 'LESS_THAN', '200', false],
    [200, 'GREATER_THAN', '199.5', true],
    ['10', 'GREATER_THAN', '9', true],
    ['abc', 'EQUALS', 'abc', true],
    ['abc', 'EQUALS', 'ABC', false],
    ['abc', 'CONTAINS', 'b', true],
    ['abc', 'NOT_CONTAINS', 'b', false],
    ['', 'IS_EMPTY', '', true],
    ['x', 'NOT_EMPTY', '', true],
    ['x', 'NOT_NULL', '', true],
    ['null', 'IS_NULL', '', false],
  ])('%s %s %s is %s', (actual, comparison, target, passed) => {
    expect(evaluateOne(value(actual), comparison, target)).toMatchObject({ passed, error: null, actual });
  });

  test('ordering says what is not a number', () => {
    expect(evaluateOne(value('fast'), 'LESS_THAN', '10')).toMatchObject({
      passed: false,
      error: 'the value is not a number: "fast"',
    });
    expect(evaluateOne(value(5), 'GREATER_THAN', '')).toMatchObject({
      passed: false,
      error: 'the target is not a number: ""',
    });
  });

  test('every comparison and its NOT_ form disagree on any scalar', () => {
    const pairs = [
      ['EQUALS', 'NOT_EQUALS'],
      ['CONTAINS', 'NOT_CONTAINS'],
      ['IS_EMPTY', 'NOT_EMPTY'],
      ['IS_NULL', 'NOT_NULL'],
      ['HAS_VALUE', 'NOT_HAS_VALUE'],
    ] as const;
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.double()),
        fc.string(),
        fc.constantFrom(...pairs),
        (v, target, pair) => {
          const [one, other] = pair.map((comparison) => evaluateOne(value(v), comparison, target).passed);
          expect(one).toBe(!other);
        },
      ),
    );
  });

  test('a number is less than or greater than any other number, never both', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true }), fc.double({ noNaN: true }), (a, b) => {
        const less = evaluateOne(value(a), 'LESS_THAN', String(b)).passed;
        const greater = evaluateOne(value(a), 'GREATER_THAN', String(b)).passed;
        expect([less, greater]).toEqual([a < b, a > b]);
      }),
    );
  });
});

describe('JSONPath', () => {
  const document = {
    items: [
      { id: 1, tags: ['a', 'b'], ok: true },
      { id: 2, tags: [], ok: true },
    ],
    name: 'Zoë 🚲',
    nothing: null,
    nested: { b: [1], a: { x: 1 } },
  };

  test.each<[string, Comparison, string, boolean]>([
    ['$.items[0].id', 'EQUALS', '1', true],
    ['$.items[*].ok', 'EQUALS', 'true', true],
    ['$.items[*].id', 'EQUALS', '1', false],
    ['$.items[*].id', 'LESS_THAN', '3', true],
    ['$.items.length', 'EQUALS', '2', true],
    ['$.name.length', 'EQUALS', '5', true],
    ['$.items[(@.length-1)].id', 'EQUALS', '2', true],
    ['$.items[?(@.tags.length > 1)].id', 'EQUALS', '1', true],
    ['$.items[?@.id == 2].tags', 'IS_EMPTY', '', true],
    ['$..id', 'GREATER_THAN', '0', true],
    ['$.items[0,1].id', 'GREATER_THAN', '0', true],
    ['items[0].id', 'EQUALS', '1', true],
    ['', 'HAS_KEY', 'items', true],
    ['$.nested', 'HAS_KEY', 'a', true],
    ['$.nested', 'NOT_HAS_KEY', 'constructor', true],
    ['$.items[0].tags', 'HAS_VALUE', 'b', true],
    ['$.items[0].tags', 'CONTAINS', 'b', true],
    ['$.items[0].tags', 'NOT_HAS_VALUE', 'c', true],
    ['$.items', 'HAS_KEY', '1', true],
    ['$.items', 'HAS_KEY', '2', false],
    ['$.nested', 'EQUALS', '{ "a": {"x":1}, "b": [1] }', true],
    ['$.nested.b', 'EQUALS', '[2]', false],
    ['$.nothing', 'IS_NULL', '', true],
    ['$.nothing', 'NOT_NULL', '', false],
    ['$.nothing', 'EQUALS', 'null', true],
    ['$.nothing', 'IS_EMPTY', '', true],
  ])('%s %s %s is %s', (path, comparison, target, passed) => {
    expect(evaluateOne(json(document), comparison, target, path)).toMatchObject({ passed, error: null });
  });

  test('a value that is not there is empty, but neither null nor "not null", and equals nothing', () => {
    const on = (comparison: Comparison): boolean =>
      evaluateOne(json(document), comparison, 'x', '$.missing').passed;
    expect({
      empty: on('IS_EMPTY'),
      null: on('IS_NULL'),
      notNull: on('NOT_NULL'),
      notEmpty: on('NOT_EMPTY'),
      equals: on('EQUALS'),
      notEquals: on('NOT_EQUALS'),
    }).toEqual({ empty: true, null: false, notNull: false, notEmpty: false, equals: false, notEquals: true });
    expect(evaluateOne(json(document), 'LESS_THAN', '1', '$.missing').error).toContain('missing');
  });

  test("an object's own member named length wins over counting", () => {
    expect(evaluateOne(json({ length: 'long' }), 'EQUALS', 'long', '$.length').passed).toBe(true);
  });

  test('a path that is no path says so', () => {
    expect(evaluateOne(json(document), 'EQUALS', '', '$.items[').error).toMatch(/\$\.items\[/);
  });

  test('an unreadable document is the error of each assertion, and is read once', () => {
    let reads = 0;
    const source: Source = {
      kind: 'json',
      read: () => {
        reads++;
        throw new Error('the body is not valid JSON');
      },
    };
    const items = evaluateAssertions(
      [assertion('X', 'EQUALS', '1', '$.a'), assertion('X', 'NOT_EQUALS', '1', '$.a')],
      { X: source },
    );
    expect(items.map(({ passed, error }) => ({ passed, error }))).toEqual([
      { passed: false, error: 'the body is not valid JSON' },
      { passed: false, error: 'the body is not valid JSON' },
    ]);
    expect(reads).toBe(1);
  });

  test('no document, path or target makes the evaluation throw', () => {
    const path = fc.oneof(fc.string(), fc.constantFrom('$', '$..*', '$.a', '$[?@.a]', '$.length', '$[-1:]'));
    const comparison = fc.constantFrom<Comparison>('EQUALS', 'CONTAINS', 'HAS_KEY', 'LESS_THAN', 'IS_EMPTY');
    fc.assert(
      fc.property(fc.jsonValue(), path, comparison, fc.string(), (any, property, how, target) => {
        const item = evaluateOne(json(any), how, target, property);
        expect(typeof item.passed).toBe('boolean');
      }),
    );
  });
});

describe('text and regular expressions', () => {
  test('without a property the whole text counts', () => {
    expect(evaluateOne(text('hello world'), 'CONTAINS', 'lo wo')).toMatchObject({
      passed: true,
      actual: 'hello world',
    });
  });

  test('the value is the first group of the first match', () => {
    expect(evaluateOne(text('a=1 a=2'), 'EQUALS', '1', 'a=(\\d)')).toMatchObject({
      passed: true,
      actual: '1',
    });
  });

  test('no match is null', () => {
    expect(evaluateOne(text('abc'), 'IS_NULL', '', 'x(.)').passed).toBe(true);
    expect(evaluateOne(text('abc'), 'NOT_NULL', '', 'x(.)').passed).toBe(false);
  });

  test('a pattern without a group and a broken pattern explain themselves', () => {
    expect(evaluateOne(text('abc'), 'EQUALS', 'abc', 'abc').error).toContain('capture group');
    expect(evaluateOne(text('abc'), 'EQUALS', 'abc', '(').error).toContain('Invalid regular expression');
  });

  test('a pattern that backtracks without end is stopped', () => {
    const item = evaluateOne(text(`${'a'.repeat(50)}!`), 'EQUALS', 'x', '^(a+)+$');
    expect(item).toMatchObject({
      passed: false,
      error: 'reading the property took longer than 200 ms and was stopped',
    });
    // The next one is not harmed.
    expect(evaluateOne(text('b'), 'EQUALS', 'b', '(.+)').passed).toBe(true);
  });

  test('JSONPath filters with such a pattern are stopped too', () => {
    const item = evaluateOne(json([`${'a'.repeat(50)}!`]), 'NOT_EMPTY', '', '$[?search(@, "^(a+)+$")]');
    expect(item.error).toContain('was stopped');
  });

  test('a body of 25 MB costs no more than reading it', () => {
    const body = `${'x'.repeat(25 * 1024 * 1024)} the end (42)`;
    expect(evaluateOne(text(body), 'CONTAINS', '(42)').passed).toBe(true);
    expect(evaluateOne(text(body), 'EQUALS', '42', 'end \\((\\d+)\\)').passed).toBe(true);
  });
});

describe('headers', () => {
  const source = headers({
    'content-type': 'text/html; charset=utf-8',
    'set-cookie': ['a=1', 'b=2'],
    'x-count': '7',
  });

  test.each<[Comparison, string, string, boolean]>([
    ['EQUALS', '7', 'X-Count', true],
    ['GREATER_THAN', '6', 'x-count', true],
    ['CONTAINS', 'b=', 'Set-Cookie', true],
    ['EQUALS', 'a=1', 'set-cookie', true],
    ['NOT_EQUALS', 'a=1', 'set-cookie', false],
    ['NOT_CONTAINS', 'c=', 'set-cookie', true],
    ['IS_EMPTY', '', 'x-missing', true],
    ['NOT_NULL', '', 'x-missing', false],
    ['EQUALS', 'x', 'constructor', false],
    ['HAS_KEY', 'X-Count', '', true],
    ['NOT_HAS_KEY', 'x-missing', '', true],
  ])('%s %s on %s is %s', (comparison, target, name, passed) => {
    expect(evaluateOne(source, comparison, target, name).passed).toBe(passed);
  });

  test('regex takes a part of the value', () => {
    expect(evaluateOne(source, 'EQUALS', 'utf-8', 'content-type', 'charset=(.+)').passed).toBe(true);
  });
});

test('after three patterns that had to be stopped the rest is not evaluated', () => {
  const list = Array.from({ length: 50 }, () => assertion('X', 'NOT_NULL', '', '(a+)+$'));
  const found = evaluateAssertions(list, { X: text(`${'a'.repeat(5000)}!`) });
  expect(found.slice(0, 3).map(({ error }) => error)).toEqual(
    Array.from({ length: 3 }, () => 'reading the property took longer than 200 ms and was stopped'),
  );
  expect(found[49]).toMatchObject({
    passed: false,
    error: 'not evaluated, because 3 assertions before it took too long',
  });
});

test('a pattern over many values has one limit for all of them', () => {
  const many = Array.from({ length: 20 }, () => `${'a'.repeat(25)}!`);
  const [found] = evaluateAssertions([assertion('X', 'NOT_NULL', '', '$[*]', '(a+)+$')], { X: json(many) });
  expect(found?.error).toBe('reading the property took longer than 200 ms and was stopped');
});

test('of named numbers the property chooses one, or none the first', () => {
  const source: Source = { kind: 'fields', fields: { avg: 2, max: 9 } };
  expect(evaluateOne(source, 'EQUALS', '9', 'max').passed).toBe(true);
  expect(evaluateOne(source, 'EQUALS', '2').passed).toBe(true);
  expect(evaluateOne(source, 'EQUALS', '2', 'mean').error).toBe('the property must be one of avg, max');
});

describe('the record', () => {
  test('keeps what was asserted, in order, each on its own', () => {
    const items = evaluateAssertions(
      [assertion('A', 'EQUALS', '2'), assertion('B', 'EQUALS', '1'), assertion('A', 'EQUALS', '1')],
      { A: value(1) },
    );
    expect(items).toEqual([
      {
        source: 'A',
        comparison: 'EQUALS',
        property: '',
        target: '2',
        regex: null,
        actual: 1,
        error: null,
        passed: false,
      },
      {
        source: 'B',
        comparison: 'EQUALS',
        property: '',
        target: '1',
        regex: null,
        actual: null,
        error: 'this result has no B',
        passed: false,
      },
      {
        source: 'A',
        comparison: 'EQUALS',
        property: '',
        target: '1',
        regex: null,
        actual: 1,
        error: null,
        passed: true,
      },
    ]);
  });

  test('shows at most 10 KB and never half a character', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4 }), (shift) => {
        const { actual } = evaluateOne(text('a'.repeat(shift) + '🚲'.repeat(5000)), 'NOT_EMPTY');
        expect(Buffer.byteLength(String(actual))).toBeLessThanOrEqual(10_240);
        expect(String(actual)).not.toContain('\uFFFD');
      }),
    );
  });

  test('shows documents as JSON, cut without writing the rest', () => {
    expect(evaluateOne(json({ a: [1, 'x', null, {}] }), 'NOT_EMPTY', '', '$').actual).toBe(
      '{"a":[1,"x",null,{}]}',
    );
    const wide = evaluateOne(json(Array.from({ length: 1e6 }, () => 1)), 'NOT_EMPTY', '', '$');
    expect(String(wide.actual).length).toBeLessThanOrEqual(10_240);
  });

  test.each(['$[*]', '$[0:]'])('%s of two hundred thousand values is an error, not a wait', (path) => {
    const long = Array.from({ length: 200_000 }, () => 1);
    expect(evaluateOne(json(long), 'EQUALS', '1', path)).toMatchObject({
      passed: false,
      error: expect.stringMatching(/selects more than 100000 values$/),
    });
  });

  test('a document nested a hundred thousand deep is an error, not a crash', () => {
    const deep: unknown = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
    expect(evaluateOne(json(deep), 'EQUALS', '[]', '$').error).toBe('the value is nested too deep');
    expect(evaluateOne(json(deep), 'EQUALS', '1', '$..a').error).toMatch(/recursion|deep/);
  });

  test('puts a failed assertion into one sentence', () => {
    const [item] = evaluateAssertions([assertion('STATUS_CODE', 'EQUALS', '200')], {
      STATUS_CODE: value(503),
    });
    expect(assertionMessage(item!)).toBe('assertion STATUS_CODE EQUALS 200 is not met, the value is 503');
  });
});
