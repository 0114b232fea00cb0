import { expect, test } from 'vitest';
import { z } from 'zod';
import { parseNaming } from './problems.ts';

const schema = z.strictObject({
  name: z.string().min(1).max(5),
  kind: z.enum(['a', 'b']).default('a'),
  list: z.array(z.strictObject({ port: z.int().min(1) })).default([]),
});

const problemsOf = (input: unknown): string[] => {
  const parsed = parseNaming(schema, input, 'the check');
  return parsed.success ? [] : parsed.problems;
};

test('gives what zod gives', () => {
  expect(parseNaming(schema, { name: 'x' }, 'the check')).toEqual({
    success: true,
    data: { name: 'x', kind: 'a', list: [] },
  });
});

test.each([
  [[], ['the check: must be an object']],
  [{}, ['name: is required and must be a string']],
  [{ name: 'x', kind: 'c' }, ['kind: must be one of a, b']],
  [{ name: 'too long' }, ['name: must have at most 5 characters']],
  [{ name: 'x', list: [{ port: 0 }] }, ['list[0].port: must be at least 1']],
  [{ name: 'x', list: [{ port: 'a' }] }, ['list[0].port: must be a number']],
  [{ name: 'x', colour: 1 }, ['colour: is not a known field (allowed: name, kind, list)']],
  [{ name: 'x', list: [{ port: 1, x: 1 }] }, ['list[0].x: is not a known field (allowed: port)']],
])('%j: %j', (input, problems) => expect(problemsOf(input)).toEqual(problems));
