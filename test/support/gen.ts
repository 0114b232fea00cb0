import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { agentSettings } from '../../src/agent/settings.ts';
import { commands } from '../../src/cli/commands.ts';
import { usage } from '../../src/cli/command.ts';
import { settingsTable } from '../../src/kit/settings.ts';
import { serviceSettings } from '../../src/service/settings.ts';

/**
 * `npm run gen`: rewrites the parts of README.md that come from the code. With --check it writes nothing
 * and fails when they differ. A part stands between `<!-- generated: NAME -->` and `<!-- /generated -->`.
 */
const README = join(import.meta.dirname, '../../README.md');

const PARTS: Readonly<Record<string, () => string>> = {
  commands: commandTable,
  'agent settings': () => settingsTable(agentSettings),
  'service settings': () => settingsTable(serviceSettings),
};

function commandTable(): string {
  const rows = commands.map((command) => `| \`${usage(command)}\` | ${command.summary} |`);
  return ['| command | does |', '|---|---|', ...rows].join('\n');
}

/**
 * The text with every generated part made anew.
 * @throws Error when a part is missing or unknown
 */
export function regenerate(text: string): string {
  const seen = new Set<string>();
  const made = text.replace(
    /(<!-- generated: ([a-z ]+) -->\n)[\s\S]*?(<!-- \/generated -->)/g,
    (_, begin: string, name: string, end: string) => {
      const part = PARTS[name];
      if (part === undefined) throw new Error(`README.md: there is no generated part '${name}'`);
      seen.add(name);
      return `${begin}\n${part()}\n\n${end}`;
    },
  );
  const missing = Object.keys(PARTS).filter((name) => !seen.has(name));
  if (missing.length > 0) throw new Error(`README.md: the markers of '${missing.join("', '")}' are missing`);
  return made;
}

if (import.meta.main) {
  const present = readFileSync(README, 'utf8');
  const wanted = regenerate(present);
  if (process.argv.includes('--check')) {
    if (present !== wanted) console.error("README.md differs from the code; 'npm run gen' updates it");
    process.exitCode = present === wanted ? 0 : 1;
  } else {
    writeFileSync(README, wanted);
  }
}
