import type { Comparison } from './assertion-fields.ts';

/** A comparison that makes no sense for the value at hand; `message` tells the user why. */
export class Incomparable extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'Incomparable';
  }
}

/**
 * Whether `actual` stands in the wanted relation to `target`. `undefined` means that there is no such
 * value: it is empty, but it is not null and not "not null" either, so that a misspelt name can turn
 * neither of the two green. Scalars are compared by their text (1 equals "1", true equals "true"),
 * numbers also by value ("1.0"), objects and arrays as JSON whatever the order of their members.
 *
 * @throws Incomparable
 */
export function compare(actual: unknown, comparison: Comparison, target: string): boolean {
  switch (comparison) {
    case 'EQUALS':
      return isEqual(actual, target);
    case 'NOT_EQUALS':
      return !isEqual(actual, target);
    case 'HAS_KEY':
      return hasKey(actual, target);
    case 'NOT_HAS_KEY':
      return !hasKey(actual, target);
    case 'HAS_VALUE':
      return hasValue(actual, target);
    case 'NOT_HAS_VALUE':
      return !hasValue(actual, target);
    case 'IS_EMPTY':
      return isEmpty(actual);
    case 'NOT_EMPTY':
      return !isEmpty(actual);
    case 'GREATER_THAN':
      return toNumber(actual, 'the value') > toNumber(target, 'the target');
    case 'LESS_THAN':
      return toNumber(actual, 'the value') < toNumber(target, 'the target');
    case 'CONTAINS':
      return contains(actual, target);
    case 'NOT_CONTAINS':
      return !contains(actual, target);
    case 'IS_NULL':
      return actual === null;
    case 'NOT_NULL':
      return actual !== null && actual !== undefined;
  }
}

function isEqual(actual: unknown, target: string): boolean {
  if (actual === undefined) return false;
  if (typeof actual === 'object' && actual !== null) {
    const wanted = parseJson(target);
    return wanted !== undefined && canonical(wanted) === canonical(actual);
  }
  if (scalarText(actual) === target) return true;
  return typeof actual === 'number' && target.trim() !== '' && Number(target) === actual;
}

function hasKey(actual: unknown, key: string): boolean {
  if (Array.isArray(actual)) return /^\d+$/.test(key) && Number(key) < actual.length;
  if (typeof actual === 'object' && actual !== null) return Object.hasOwn(actual, key);
  if (actual === undefined || actual === null) return false;
  throw new Incomparable(`only objects and arrays have keys, the value is a ${typeof actual}`);
}

function hasValue(actual: unknown, target: string): boolean {
  if (typeof actual === 'object' && actual !== null) {
    return Object.values(actual).some((member) => isEqual(member, target));
  }
  return isEqual(actual, target);
}

function contains(actual: unknown, target: string): boolean {
  if (actual === undefined || actual === null) return false;
  if (Array.isArray(actual)) return hasValue(actual, target);
  if (typeof actual === 'object') return hasKey(actual, target) || hasValue(actual, target);
  return scalarText(actual).includes(target);
}

function scalarText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

function isEmpty(actual: unknown): boolean {
  if (actual === undefined || actual === null || actual === '') return true;
  return typeof actual === 'object' && Object.keys(actual).length === 0;
}

function toNumber(value: unknown, name: string): number {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number === 'number' && !Number.isNaN(number)) return number;
  const shown = value === undefined ? 'missing' : JSON.stringify(value)?.slice(0, 100);
  throw new Incomparable(`${name} is not a number: ${shown}`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** JSON with sorted members. Two documents that mean the same have the same text. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
