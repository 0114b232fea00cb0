import type { z } from 'zod';
import { parseNaming } from '../../kit/problems.ts';
import { Refusal } from './refusal.ts';

/** More problems than this are counted, not spelled out. */
const SHOWN_PROBLEMS = 10;

/** @throws Refusal `invalid` that names each field and what is allowed there */
export function parse<S extends z.ZodType>(schema: S, input: unknown, where = 'body'): z.output<S> {
  const parsed = parseNaming(schema, input, where);
  if (parsed.success) return parsed.data;
  throw invalid(parsed.problems);
}

export function invalid(problems: readonly string[]): Refusal {
  const shown = problems.slice(0, SHOWN_PROBLEMS).join('; ');
  const more = problems.length - SHOWN_PROBLEMS;
  return new Refusal('invalid', more > 0 ? `${shown}; and ${more} more` : shown);
}
