import { optionLabel, usage, type Command } from './command.ts';
import { commands } from './commands.ts';

/** What `vedette help` prints. */
export function overview(): string {
  return `Vedette watches URLs, APIs, TCP ports, name servers and hosts, also from inside a private network.

Usage: vedette COMMAND [OPTIONS]

Commands:
${columns(commands.map((command) => [command.name, command.summary]))}

Options:
${columns([
  ['--help', "this text; 'vedette help COMMAND' for one command"],
  ['--version', 'the version'],
])}

Exit codes: 0 done; 1 a check failed; 2 bad usage or settings; 3 a fault of this machine or of Vedette;
4 the service refuses the key; 5 the service is not reached; 78 the store or data folder is in use.

Start with 'vedette up' and follow what it prints. On another machine, 'vedette doctor' says whether an
agent can work there.
`;
}

/** What `vedette help COMMAND` prints. */
export async function commandHelp(command: Command): Promise<string> {
  const options = Object.entries(command.options).map(
    ([name, option]) => [optionLabel(name, option), option.meaning] as const,
  );
  const optionText = options.length === 0 ? '' : `\nOptions:\n${columns(options)}\n`;
  return `Usage: ${usage(command)}

${command.summary[0]!.toUpperCase()}${command.summary.slice(1)}.
${optionText}
${command.details}
${await settingsOf(command)}`;
}

async function settingsOf({ settings }: Command): Promise<string> {
  if (settings === undefined) return '';
  const all = Object.values(await settings()).map(({ name, shownDefault, meaning }) => {
    const normal = shownDefault === '–' ? '' : ` (${shownDefault})`;
    return `  ${name}${normal}\n${wrapped(meaning.replaceAll('`', ''))}`;
  });
  return `\nSettings, with their defaults:\n${all.join('\n')}\n`;
}

const INDENT = '      ';
const WIDTH = 100;

/** On lines that a terminal does not break. */
function wrapped(text: string): string {
  const lines = [INDENT];
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!;
    if (line.length + word.length >= WIDTH) lines.push(`${INDENT}${word} `);
    else lines[lines.length - 1] = `${line}${word} `;
  }
  return lines.map((line) => line.trimEnd()).join('\n');
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n');
}
