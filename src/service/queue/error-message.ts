import { createHash } from 'node:crypto';
import { stripVTControlCharacters } from 'node:util';

const MAX_RAW = 10_000;
const MAX_CLEANED = 1000;

export interface ErrorMessage {
  raw: string;
  cleaned: string;
  /** Of the cleaned message. */
  hash: string;
}

/** What differs each time that the same thing goes wrong. The order matters: a UUID holds numbers. */
const VARIABLE: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '<id>'],
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?/g, '<time>'],
  [/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,}\b/gi, '<id>'],
  [/\d+(\.\d+)?/g, '<n>'],
];

/** An error as it groups with others: without colours, ids, times, numbers and superfluous white space. */
export function errorMessage(message: string): ErrorMessage {
  const raw = stripVTControlCharacters(message).slice(0, MAX_RAW);
  let text = raw;
  for (const [what, word] of VARIABLE) text = text.replace(what, word);
  const cleaned = text.replace(/\s+/g, ' ').trim().slice(0, MAX_CLEANED).toWellFormed();
  return { raw, cleaned, hash: createHash('sha256').update(cleaned).digest('hex') };
}
