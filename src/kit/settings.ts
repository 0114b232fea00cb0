import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { ExitCode, FatalError, messageOf } from './errors.ts';

/**
 * One setting of a program: an environment variable with its parser. The README tables and the
 * parsing come from the same list.
 */
export interface Setting<T> {
  readonly name: string;
  readonly schema: z.ZodType<T>;
  /** What the README says in its default column; the schema holds the real default. */
  readonly shownDefault: string;
  readonly meaning: string;
  readonly secret: boolean;
}

export function setting<T>(
  name: string,
  schema: z.ZodType<T>,
  about: { default?: string; meaning: string; secret?: boolean },
): Setting<T> {
  return {
    name,
    schema,
    shownDefault: about.default ?? '–',
    meaning: about.meaning,
    secret: about.secret ?? false,
  };
}

type Settings = Readonly<Record<string, Setting<unknown>>>;
export type ValuesOf<S extends Settings> = { -readonly [K in keyof S]: z.infer<S[K]['schema']> };
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads every setting from `env`, `NAME_FILE` included (the file's text without its last newline).
 * An empty value counts as unset, as compose files and charts pass them.
 *
 * @param ownPrefixes names with these prefixes that no setting claims are warned about
 * @throws FatalError with exit code 2 and one line: which setting, why, and what is allowed
 */
export function readSettings<S extends Settings>(
  settings: S,
  env: Environment,
  ownPrefixes: readonly string[] = [],
): { values: ValuesOf<S>; warnings: string[] } {
  const values: Record<string, unknown> = {};
  for (const [key, each] of Object.entries(settings)) {
    const raw = rawValue(each.name, env);
    const parsed = each.schema.safeParse(raw);
    if (!parsed.success) {
      const why = raw === undefined ? 'it is not set' : parsed.error.issues[0]!.message;
      const shown = raw === undefined || each.secret ? '' : `=${JSON.stringify(raw)}`;
      throw new FatalError(ExitCode.usage, `${each.name}${shown}: ${why}. ${each.meaning}`);
    }
    values[key] = parsed.data;
  }
  return { values: values as ValuesOf<S>, warnings: unknownNames(settings, env, ownPrefixes) };
}

/** A warning for every name with one of these prefixes that no setting claims. */
export function unknownNames(settings: Settings, env: Environment, ownPrefixes: readonly string[]): string[] {
  const known = Object.values(settings).flatMap(({ name }) => [name, `${name}_FILE`]);
  return Object.keys(env)
    .filter((name) => ownPrefixes.some((prefix) => name.startsWith(prefix)) && !known.includes(name))
    .map((name) => `${name} is not a setting; the nearest is ${nearest(name, known)}`);
}

function rawValue(name: string, env: Environment): string | undefined {
  const direct = env[name];
  if (direct !== undefined && direct !== '') return direct;
  const file = env[`${name}_FILE`];
  if (file === undefined || file === '') return undefined;
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    throw new FatalError(ExitCode.usage, `${name}_FILE: cannot read the file: ${messageOf(error)}`);
  }
}

function nearest(name: string, known: readonly string[]): string {
  let best = known[0] ?? '';
  let bestDistance = Infinity;
  for (const candidate of known) {
    const distance = editDistance(name, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length]!;
}

/** The Markdown table of a settings list, as README.md carries it. */
export function settingsTable(settings: Settings): string {
  const rows = Object.values(settings).map(
    (each) => `| \`${each.name}\` | ${each.shownDefault} | ${each.meaning} |`,
  );
  return ['| name | default | meaning |', '|---|---|---|', ...rows].join('\n');
}

/** An integer from text, with its bounds in the message. */
export function integer(min: number, max: number): z.ZodType<number> {
  const allowed = `a whole number from ${min} to ${max} is allowed`;
  return z
    .string()
    .regex(/^\s*-?\d+\s*$/, allowed)
    .transform(Number)
    .refine((n) => n >= min && n <= max, allowed);
}

/** `on`/`off`, `true`/`false`, `1`/`0`, `yes`/`no`, in any case. */
export function switchValue(): z.ZodType<boolean> {
  return z
    .string()
    .transform((text) => text.trim().toLowerCase())
    .refine((t) => ['on', 'off', 'true', 'false', '1', '0', 'yes', 'no'].includes(t), 'on or off is allowed')
    .transform((t) => ['on', 'true', '1', 'yes'].includes(t));
}

/** One of a few words, in any case; returned in the case of the list. */
export function word<const W extends string>(...allowed: readonly W[]): z.ZodType<W> {
  return z.string().transform((text, ctx) => {
    const found = allowed.find((each) => each.toLowerCase() === text.trim().toLowerCase());
    if (found === undefined) {
      ctx.addIssue({ code: 'custom', message: `${allowed.join(', ')} are allowed` });
      return z.NEVER;
    }
    return found;
  });
}

/** An http:// or https:// address without a trailing slash. */
export function httpUrl(): z.ZodType<string> {
  return z
    .string()
    .refine((text) => {
      const url = URL.canParse(text) ? new URL(text) : undefined;
      return url !== undefined && (url.protocol === 'http:' || url.protocol === 'https:');
    }, 'an address that starts with http:// or https:// is allowed')
    .transform((text) => text.replace(/\/+$/, ''));
}
