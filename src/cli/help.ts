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

Start with 'vedette up' and follow what it prints.
`;
}

/** What `vedette help COMMAND` prints. */
export function commandHelp(command: Command): string {
  const options = Object.entries(command.options).map(
    ([name, option]) => [optionLabel(name, option), option.meaning] as const,
  );
  const optionText = options.length === 0 ? '' : `\nOptions:\n${columns(options)}\n`;
  return `Usage: ${usage(command)}

${command.summary[0]!.toUpperCase()}${command.summary.slice(1)}.
${optionText}
${command.details}
`;
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n');
}
