import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMap, isScalar, parseDocument, type Pair, type YAMLMap } from 'yaml';

/** One value of the Helm chart as values.yaml has it: a leaf, or an object that has no comments inside. */
export interface ChartValue {
  path: string;
  default: unknown;
  /** The comment above it, on one line. */
  meaning: string;
}

export const CHART = join(import.meta.dirname, '../../helm/vedette');

/** All values in their order. */
export function chartValues(): ChartValue[] {
  const { contents } = parseDocument(readFileSync(join(CHART, 'values.yaml'), 'utf8'));
  return isMap(contents) ? valuesOf(contents, '') : [];
}

function valuesOf(map: YAMLMap, prefix: string): ChartValue[] {
  return map.items.flatMap((pair: Pair, i) => {
    const path = `${prefix}${isScalar(pair.key) ? String(pair.key.value) : ''}`;
    if (isMap(pair.value) && pair.value.items.length > 0 && hasComments(pair.value)) {
      return valuesOf(pair.value, `${path}.`);
    }
    const value: unknown = isScalar(pair.value) ? pair.value.value : toPlain(pair.value);
    return [{ path, default: value, meaning: commentAbove(map, i) }];
  });
}

const toPlain = (node: unknown): unknown => JSON.parse(JSON.stringify(node));

const hasComments = (map: YAMLMap): boolean => map.items.some((_, i) => commentAbove(map, i) !== '');

/**
 * The parser hands the comment above the first key to the map that begins there, and at the begin of the
 * file the one about the whole file too, as a paragraph before it.
 */
function commentAbove(map: YAMLMap, i: number): string {
  const key: unknown = map.items[i]?.key;
  const text = (isScalar(key) ? key.commentBefore : undefined) ?? (i === 0 ? map.commentBefore : undefined);
  const paragraph = (text ?? '').split(/\n\s*\n/).at(-1) ?? '';
  return paragraph.replace(/\s*\n\s*/g, ' ').trim();
}

/** The Markdown table of the values that belong to it. */
export function valuesTable(belongs: (path: string) => boolean): string {
  const rows = chartValues()
    .filter(({ path }) => belongs(path))
    .map((each) => `| \`${each.path}\` | \`${shown(each.default)}\` | ${escaped(each.meaning)} |`);
  return ['| value | default | meaning |', '|---|---|---|', ...rows].join('\n');
}

const shown = (value: unknown): string => escaped(value === '' ? '""' : JSON.stringify(value));
const escaped = (text: string): string => text.replaceAll('|', '\\|');
