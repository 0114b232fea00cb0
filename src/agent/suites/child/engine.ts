import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Project } from '../protocol.ts';
import { manifestOf, upwards } from './files.ts';

type Engine = NonNullable<Project['engine']>;

/** Files that name an engine, in the order in which they count. */
const FILES: readonly [file: string, read: (text: string) => [Engine['name'], string] | undefined][] = [
  ['.node-version', (text) => named('node', text)],
  ['.nvmrc', (text) => named('node', text)],
  ['.tool-versions', (text) => ofTool(text, 'nodejs', 'node') ?? ofTool(text, 'bun', 'bun')],
  ['.bun-version', (text) => named('bun', text)],
];

/** What the project asks for; the nearest file from the working folder upwards. */
export function engineOf(root: string, workingDir: string): Project['engine'] {
  const folders = [...upwards(root, workingDir)];
  for (const [file, read] of FILES) {
    for (const folder of folders) {
      const path = join(folder, file);
      const found = existsSync(path) ? read(readFileSync(path, 'utf8')) : undefined;
      if (found !== undefined) return { name: found[0], range: found[1], saidBy: file };
    }
  }
  for (const folder of folders) {
    const { engines } = manifestOf(join(folder, 'package.json'));
    const said = engines as Record<string, unknown> | null | undefined;
    for (const name of ['node', 'bun'] as const) {
      const range = said?.[name];
      if (typeof range === 'string') return { name, range: range.slice(0, 100), saidBy: 'package.json' };
    }
  }
  return null;
}

function named(name: Engine['name'], text: string): [Engine['name'], string] | undefined {
  const [line = ''] = text.trim().split(/\s+/);
  return line === '' ? undefined : [name, line.slice(0, 100)];
}

function ofTool(text: string, tool: string, name: Engine['name']): [Engine['name'], string] | undefined {
  const found = new RegExp(`^\\s*${tool}\\s+(\\S+)`, 'm').exec(text)?.[1];
  return found === undefined ? undefined : [name, found.slice(0, 100)];
}
