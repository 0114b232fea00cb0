import { z } from 'zod';

/**
 * Parses like zod, with problems for people: each names its field (`request.assertions[0].source`) and
 * what is allowed there. `where` names the whole when the problem is not in a field of it.
 */
export function parseNaming<S extends z.ZodType>(
  schema: S,
  input: unknown,
  where: string,
): { success: true; data: z.output<S> } | { success: false; problems: string[] } {
  const parsed = schema.safeParse(input, { error: wording });
  if (parsed.success) return { success: true, data: parsed.data };
  return { success: false, problems: parsed.error.issues.flatMap((issue) => lines(issue, schema, where)) };
}

function lines(issue: z.core.$ZodIssue, schema: z.ZodType, where: string): string[] {
  if (issue.code !== 'unrecognized_keys') return [`${pathOf(issue.path) || where}: ${issue.message}`];
  const allowed = fieldsAt(schema, issue.path);
  const hint = allowed.length > 0 ? ` (allowed: ${allowed.join(', ')})` : '';
  return issue.keys.map((key) => `${pathOf([...issue.path, key])}: is not a known field${hint}`);
}

/** `request.assertions[0].source` */
function pathOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    const name = String(part).slice(0, 80);
    return text === '' ? name : `${text}.${name}`;
  }, '');
}

/** Field names of the object that `path` leads to; empty when it leads through something else. */
function fieldsAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let at: unknown = unwrap(schema);
  for (const part of path) {
    if (at instanceof z.ZodObject) at = unwrap(at.shape[String(part)]);
    else if (at instanceof z.ZodArray) at = unwrap(at.element);
    else return [];
  }
  return at instanceof z.ZodObject ? Object.keys(at.shape) : [];
}

function unwrap(schema: unknown): unknown {
  let at = schema;
  for (;;) {
    if (at instanceof z.ZodPipe) at = at.in instanceof z.ZodTransform ? at.out : at.in;
    else if (
      at instanceof z.ZodOptional ||
      at instanceof z.ZodNullable ||
      at instanceof z.ZodDefault ||
      at instanceof z.ZodPrefault
    ) {
      at = at.unwrap();
    } else return at;
  }
}

/** Words for what zod found. A message written at the schema itself wins over these. */
function wording(issue: z.core.$ZodRawIssue): string {
  const text = rule(issue);
  return issue.input === undefined && issue.code !== 'unrecognized_keys' ? `is required and ${text}` : text;
}

function rule(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${kind(issue.expected)}`;
    case 'invalid_value':
      return issue.values.length === 1
        ? `must be ${String(issue.values[0])}`
        : `must be one of ${issue.values.map(String).join(', ')}`;
    case 'too_small':
      return `must ${bound(issue.origin, 'at least', issue.minimum)}`;
    case 'too_big':
      return `must ${bound(issue.origin, 'at most', issue.maximum)}`;
    case 'invalid_format':
      return `must be ${issue.format === 'regex' ? `of the form ${issue.pattern}` : kind(issue.format)}`;
    case 'invalid_union':
      return issue.errors
        .map((each) => each[0]?.message ?? '')
        .filter((each) => each !== '')
        .join(', or ');
    default:
      return issue.message ?? 'is not allowed';
  }
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
  null: 'null',
  uuid: 'a UUID',
  datetime: 'a date and time in ISO 8601',
  date: 'a date',
};
const kind = (expected: string): string => KINDS[expected] ?? expected;

function bound(origin: string, which: string, limit: number | bigint): string {
  if (origin === 'string') return `have ${which} ${limit} characters`;
  if (origin === 'array') return `have ${which} ${limit} items`;
  return `be ${which} ${limit}`;
}
