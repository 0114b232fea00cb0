#!/usr/bin/env node
/**
 * The `vedette` command. Only this file reads process.env, handles signals and chooses the exit code.
 */
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { codeOf, ExitCode, FatalError, messageOf } from '../kit/errors.ts';
import { VERSION } from '../kit/version.ts';
import { parseCommandLine, type Command } from './command.ts';
import { commands, findCommand } from './commands.ts';
import { readEnvironment } from './environment.ts';
import { commandHelp, overview } from './help.ts';
import { stopOnSignals } from './signals.ts';

/** Beside the packages. Where it cannot be written, as in an image, Node does without it. */
const COMPILED = join(import.meta.dirname, '../../node_modules/.cache/vedette/compiled');

async function main(args: readonly string[]): Promise<ExitCode> {
  const [first = 'help', ...rest] = args;
  if (first === 'help' || first === '--help' || first === '-h') return help(rest[0]);
  if (first === '--version' || first === '-v') {
    console.log(VERSION);
    return ExitCode.done;
  }
  const command = findCommand(first);
  if (command === undefined) throw unknownCommand(first);
  if (rest.includes('--help') || rest.includes('-h')) return help(first);
  const line = parseCommandLine(command, rest);
  // Half of the processor time of a start goes into making code of modules that did not change.
  enableCompileCache(COMPILED);
  const run = await load(command);
  return run({
    ...line,
    env: readEnvironment(process.env),
    shutdown: stopOnSignals(),
  });
}

/** An image for agents comes without the packages of the service. */
async function load(command: Command): ReturnType<Command['load']> {
  try {
    return await command.load();
  } catch (error) {
    if (codeOf(error) !== 'ERR_MODULE_NOT_FOUND') throw error;
    const problem = `${command.name} is not part of this installation: ${messageOf(error)}`;
    throw new FatalError(ExitCode.usage, problem, { cause: error });
  }
}

async function help(topic: string | undefined): Promise<ExitCode> {
  const command = topic === undefined ? undefined : findCommand(topic);
  if (topic !== undefined && command === undefined) throw unknownCommand(topic);
  console.log(command === undefined ? overview() : await commandHelp(command));
  return ExitCode.done;
}

function unknownCommand(name: string): FatalError {
  const what = name.startsWith('-') ? 'option' : 'command';
  const known = commands.map((command) => command.name).join(', ');
  return new FatalError(ExitCode.usage, `unknown ${what} '${name}'; the commands are ${known} and help`);
}

/** One line for what the user can change, a stack for what is our fault. */
function report(error: unknown): ExitCode {
  // The fault that came first; cleaning up after it failed too.
  if (error instanceof SuppressedError) return report(error.suppressed);
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
