import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { agentSettings } from '../../src/agent/settings.ts';
import { commands } from '../../src/cli/commands.ts';
import { usage } from '../../src/cli/command.ts';
import { settingsTable } from '../../src/kit/settings.ts';
import { serviceSettings } from '../../src/service/settings.ts';
import { valuesTable } from './chart-values.ts';

type Parts = Readonly<Record<string, () => string>>;

/**
 * `npm run gen`: rewrites the parts of these files that come from the code. With --check it writes nothing
 * and fails when they differ. A part stands between `<!-- generated: NAME -->` and `<!-- /generated -->`.
 */
export const GENERATED: Readonly<Record<string, Parts>> = {
  'README.md': {
    commands: commandTable,
    'agent settings': () => settingsTable(agentSettings),
    'service settings': () => settingsTable(serviceSettings),
  },
  'helm/vedette/README.md': {
    'agent values': () => valuesTable((path) => !path.startsWith('service.')),
    'service values': () => valuesTable((path) => path.startsWith('service.')),
  },
};
const ROOT = join(import.meta.dirname, '../..');

function commandTable(): string {
  const rows = commands.map((command) => `| \`${usage(command)}\` | ${command.summary} |`);
  return ['| command | does |', '|---|---|', ...rows].join('\n');
}

/**
 * The text of a file with every generated part made anew.
 * @throws Error when a part is missing or unknown
 */
export function regenerate(text: string, file = 'README.md'): string {
  const parts = GENERATED[file] ?? {};
  const seen = new Set<string>();
  const made = text.replace(
    /(<!-- generated: ([a-z ]+) -->\n)[\s\S]*?(<!-- \/generated -->)/g,
    (_, begin: string, name: string, end: string) => {
      const part = parts[name];
      if (part === undefined) throw new Error(`${file}: there is no generated part '${name}'`);
      seen.add(name);
      return `${begin}\n${part()}\n\n${end}`;
    },
  );
  const missing = Object.keys(parts).filter((name) => !seen.has(name));
  if (missing.length > 0) throw new Error(`${file}: the markers of '${missing.join("', '")}' are missing`);
  return made;
}

function update(file: string, check: boolean): void {
  const path = join(ROOT, file);
  const present = readFileSync(path, 'utf8');
  const wanted = regenerate(present, file);
  if (present === wanted) return;
  if (!check) return writeFileSync(path, wanted);
  console.error(`${file} differs from the code; 'npm run gen' updates it`);
  process.exitCode = 1;
}

if (import.meta.main) {
  for (const file of Object.keys(GENERATED)) update(file, process.argv.includes('--check'));
}
