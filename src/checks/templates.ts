import { randomInt, randomUUID } from 'node:crypto';
import { wallMs } from '../kit/clock.ts';
import { formatMoment, momentOf } from './moment.ts';

/** Variables by name. A Map, because names come from users and an object would bring its prototype. */
export type Variables = ReadonlyMap<string, string>;

/** What a check's definition carries; the later of two with the same name counts. */
export function variablesOf(list: readonly { key: string; value: string }[] | null | undefined): Variables {
  return new Map((list ?? []).map(({ key, value }) => [key, value]));
}

const TEMPLATE = /\{\{\{([^{}]*)\}\}\}|\{\{([^{}]*)\}\}/g;
const NAME = /^[\p{L}_][\p{L}\p{N}_.-]*$/u;
const MOMENT = /^moment((?:\s+(?:"[^"]*"|'[^']*'))*)$/;

/** The base address of the check's group: `{{GROUP_BASE_URL}}/path` is how addresses begin. */
const ADDRESS = 'GROUP_BASE_URL';

/** `known`: unknown variables stay as they are. `generated`: variables do; only the other forms are filled. */
export type Fill = 'all' | 'known' | 'generated';

/**
 * Fills `{{NAME}}` with the variable's value, URI-encoded, and `{{{NAME}}}` with the value as it is, as
 * the group's base address always is; an unknown variable is empty. Besides variables: `$UUID`,
 * `$RANDOM_NUMBER` (0–10000) and `moment "FORMAT"` or `moment "2 days ago" "FORMAT"`, in UTC. Nothing is
 * executed; braces around anything else stay as they are. Values are not filled in again.
 *
 * @param doubleBraces `raw` where the whole text is encoded afterwards
 */
export function fillTemplate(
  text: string,
  variables: Variables,
  doubleBraces: 'encoded' | 'raw' = 'encoded',
  fill: Fill = 'all',
): string {
  if (!text.includes('{{')) return text;
  return text.replace(TEMPLATE, (whole, raw: string | undefined, encoded: string | undefined) => {
    const expression = (raw ?? encoded ?? '').trim();
    const value = valueOf(expression, variables, fill);
    if (value === undefined) return whole;
    const isEncoded = raw === undefined && doubleBraces === 'encoded' && expression !== ADDRESS;
    return isEncoded ? encodeURIComponent(value.toWellFormed()) : value;
  });
}

function valueOf(expression: string, variables: Variables, fill: Fill): string | undefined {
  if (expression === '$UUID') return randomUUID();
  if (expression === '$RANDOM_NUMBER') return String(randomInt(10_001));
  const known = variables.get(expression);
  if (known !== undefined) return fill === 'generated' ? undefined : known;
  const moment = MOMENT.exec(expression);
  if (moment) return momentText(quoted(moment[1] ?? ''));
  return fill === 'all' && NAME.test(expression) ? '' : undefined;
}

function quoted(list: string): string[] {
  return Array.from(list.matchAll(/"([^"]*)"|'([^']*)'/g), ([, double, single]) => double ?? single ?? '');
}

function momentText([first, second]: string[]): string {
  const now = new Date(wallMs());
  if (first === undefined) return formatMoment(now, 'YYYY-MM-DDTHH:mm:ssZ');
  if (second === undefined) return formatMoment(now, first);
  const date = momentOf(first, now);
  return date === null ? 'Invalid date' : formatMoment(date, second);
}
