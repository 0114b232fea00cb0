import { readFileSync } from 'node:fs';
import { z } from 'zod';

const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');

/** Version of this build. */
export const VERSION = z.object({ version: z.string() }).parse(JSON.parse(manifest)).version;

/** Whether version `a` comes before `b`. Only the numbers count; what is not a version counts as 0.0.0. */
export function isOlder(a: string, b: string): boolean {
  const [left, right] = [numbersOf(a), numbersOf(b)];
  const at = left.findIndex((number, i) => number !== right[i]);
  return at !== -1 && left[at]! < right[at]!;
}

function numbersOf(version: string): [number, number, number] {
  const [, major = '0', minor = '0', patch = '0'] = /^(\d+)\.(\d+)\.(\d+)/.exec(version) ?? [];
  return [Number(major), Number(minor), Number(patch)];
}
