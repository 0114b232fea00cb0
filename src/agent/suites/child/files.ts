import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { Problem } from './channel.ts';

/** From `folder` up to the root, the nearest first. */
export function* upwards(root: string, folder: string): Iterable<string> {
  for (let at = folder; ; at = dirname(at)) {
    yield at;
    if (at === root || at === dirname(at)) return;
  }
}

/** An empty one where there is none. */
export function manifestOf(file: string): Record<string, unknown> {
  if (!existsSync(file)) return {};
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8').replace(/^\uFEFF/, ''));
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    throw new Problem('BAD_MANIFEST', `${basename(dirname(file))}/package.json is no JSON: correct it`);
  }
}
