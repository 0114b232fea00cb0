import { z } from 'zod';
import { messageOf } from '../kit/errors.ts';

export const NUMERIC = ['EQUALS', 'NOT_EQUALS', 'LESS_THAN', 'GREATER_THAN'] as const;
export const GENERAL = [
  'EQUALS',
  'NOT_EQUALS',
  'HAS_KEY',
  'NOT_HAS_KEY',
  'HAS_VALUE',
  'NOT_HAS_VALUE',
  'IS_EMPTY',
  'NOT_EMPTY',
  'GREATER_THAN',
  'LESS_THAN',
  'CONTAINS',
  'NOT_CONTAINS',
  'IS_NULL',
  'NOT_NULL',
] as const;
export type Comparison = (typeof GENERAL)[number];

/** The assertion list of one type: its sources and the comparisons that it offers. */
export function assertionFields<const S extends string, const C extends Comparison>(
  sources: readonly S[],
  comparisons: readonly C[],
) {
  return z
    .array(
      z.strictObject({
        source: z.enum(sources),
        comparison: z.enum(comparisons),
        property: z.string().default(''),
        // Numbers and booleans are accepted and kept as their text, as the interface's clients send both.
        target: z.union([z.string(), z.number(), z.boolean()]).transform(String).default(''),
        regex: z.string().nullable().default(''),
      }),
    )
    .default([]);
}

export interface Assertion {
  source: string;
  comparison: Comparison;
  property: string;
  target: string;
  regex: string | null;
}

/** Sources that are text: their property is a regular expression, too. */
const TEXT_SOURCES: ReadonlySet<string> = new Set(['TEXT_BODY', 'RESPONSE_DATA', 'TEXT_ANSWER']);

/**
 * Regular expressions that cannot be compiled. Asked when an assertion is written and not part of its
 * fields: what is stored goes on to run, and fails with the same words.
 */
export function patternProblems(
  assertions: readonly Pick<Assertion, 'source' | 'property' | 'regex'>[],
): { path: [index: number, field: 'property' | 'regex']; message: string }[] {
  return assertions.flatMap(({ source, property, regex }, index) => {
    const patterns = { property: TEXT_SOURCES.has(source) ? property : '', regex: regex ?? '' };
    return (['property', 'regex'] as const).flatMap((field) => {
      const message = patternProblem(patterns[field]);
      return message === null ? [] : [{ path: [index, field] as [number, typeof field], message }];
    });
  });
}

function patternProblem(pattern: string): string | null {
  try {
    void new RegExp(pattern);
    return null;
  } catch (error) {
    return `must be a regular expression: ${messageOf(error)}`;
  }
}

/** A response-time threshold in ms; null switches it off. */
export const threshold = (max: number, byDefault: number) =>
  z.number().min(0).max(max).nullable().default(byDefault);

export const ipFamily = z.enum(['IPv4', 'IPv6']).default('IPv4');

/** `{{…}}` may stand anywhere in an address, so only its length and its scheme are checked. */
export const httpAddress = z
  .string()
  .min(1, 'must not be empty')
  .max(2048)
  .regex(/^(\{\{|[hH][tT][tT][pP][sS]?:\/\/)/, 'must start with http:// or https://')
  .refine((text) => text.includes('{{') || URL.canParse(text), 'is not a valid URL');
