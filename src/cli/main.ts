#!/usr/bin/env node
/**
 * The `vedette` command. Only this file reads process.env, handles signals and chooses the exit code.
 */
import { readFileSync } from 'node:fs';
import { ExitCode, FatalError, messageOf } from '../kit/errors.ts';
import { parseCommandLine } from './command.ts';
import { commands, findCommand } from './commands.ts';
import { readEnvironment } from './environment.ts';
import { commandHelp, overview } from './help.ts';
import { stopOnSignals } from './signals.ts';

async function main(args: readonly string[]): Promise<ExitCode> {
  const [first = 'help', ...rest] = args;
  if (first === 'help' || first === '--help' || first === '-h') return help(rest[0]);
  if (first === '--version' || first === '-v') {
    console.log(version());
    return ExitCode.done;
  }
  const command = findCommand(first);
  if (command === undefined) throw unknownCommand(first);
  if (rest.includes('--help') || rest.includes('-h')) return help(first);
  const line = parseCommandLine(command, rest);
  const run = await command.load();
  return run({
    ...line,
    env: readEnvironment(process.env),
    shutdown: stopOnSignals(),
    version: version(),
  });
}

function help(topic: string | undefined): ExitCode {
  const command = topic === undefined ? undefined : findCommand(topic);
  if (topic !== undefined && command === undefined) throw unknownCommand(topic);
  console.log(command === undefined ? overview() : commandHelp(command));
  return ExitCode.done;
}

function unknownCommand(name: string): FatalError {
  const what = name.startsWith('-') ? 'option' : 'command';
  const known = commands.map((command) => command.name).join(', ');
  return new FatalError(ExitCode.usage, `unknown ${what} '${name}'; the commands are ${known} and help`);
}

function version(): string {
  // The same path from src/cli and from dist/cli.
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  return (manifest as { version: string }).version;
}

/** One line for what the user can change, a stack for what is our fault. */
function report(error: unknown): ExitCode {
  if (error instanceof FatalError) {
    console.error(`vedette: ${error.message}`);
    return error.exitCode;
  }
  console.error(
    'vedette: internal fault:',
    error instanceof Error ? (error.stack ?? error) : messageOf(error),
  );
  return ExitCode.internal;
}

process.on('uncaughtException', (error) => process.exit(report(error)));
process.on('unhandledRejection', (error) => process.exit(report(error)));
// A reader of the log that went away (`vedette up | head`) is no reason to stop checking.
process.stdout.on('error', () => {});

process.exit(await main(process.argv.slice(2)).catch(report));
