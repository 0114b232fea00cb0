import { parseArgs } from 'node:util';
import { ExitCode, FatalError, messageOf } from '../kit/errors.ts';
import type { Environment, Setting } from '../kit/settings.ts';
import type { Shutdown } from './signals.ts';

export interface Option {
  type: 'string' | 'boolean';
  /** Placeholder of the value in help: `DIR`. */
  value?: string;
  /** What it means without a value; with one it is written `--name=VALUE` then. */
  bare?: string;
  meaning: string;
  /** May be given several times. */
  multiple?: true;
}

/** Several when the option may be given several times. */
export type OptionValue = string | boolean | readonly (string | boolean)[] | undefined;

/** What a command gets when it runs. */
export interface Invocation {
  readonly options: Readonly<Record<string, OptionValue>>;
  readonly operands: readonly string[];
  /** Environment over `.env`. */
  readonly env: Environment;
  readonly shutdown: Shutdown;
}

export interface Command {
  readonly name: string;
  /** One line, also in README.md. */
  readonly summary: string;
  /** Names of the operands, all required but a last one in brackets: `[ID…]` is any number of them. */
  readonly operands: readonly string[];
  /** The program that gets what stands behind `--`. */
  readonly passesOnTo?: string;
  readonly options: Readonly<Record<string, Option>>;
  /** Shown below the options by `vedette help COMMAND`. */
  readonly details: string;
  /** What it reads from the environment; shown below the details. */
  readonly settings?: () => Promise<Readonly<Record<string, Setting<unknown>>>>;
  /** Loaded on use, so that the agent never loads the service. */
  readonly load: () => Promise<(invocation: Invocation) => Promise<ExitCode>>;
}

/**
 * Options and operands of one command line.
 * @throws FatalError with exit code 2 and one line
 */
export function parseCommandLine(
  command: Command,
  args: readonly string[],
): Pick<Invocation, 'options' | 'operands'> {
  const parsed = strictly(command, args);
  const required = command.operands.filter((name) => !name.startsWith('['));
  const missing = required[parsed.positionals.length];
  if (missing !== undefined) throw badUsage(command, `${missing} is missing`);
  const isOpen = required.length < command.operands.length;
  const extra = isOpen ? undefined : parsed.positionals[required.length];
  if (extra !== undefined) throw badUsage(command, `unexpected argument '${extra}'`);
  return { options: parsed.values, operands: parsed.positionals };
}

function strictly(command: Command, args: readonly string[]) {
  const options = Object.fromEntries(
    Object.entries(command.options).map(
      ([name, { type, multiple = false }]) => [name, { type, multiple }] as const,
    ),
  );
  try {
    return parseArgs({ args: args.map((arg) => withValue(command, arg)), options, allowPositionals: true });
  } catch (error) {
    // Node adds advice about `--` after the first sentence.
    throw badUsage(command, messageOf(error).split(/[.\n]( |$)/)[0]!);
  }
}

/** Node knows no option whose value may be left out. */
function withValue({ options }: Command, arg: string): string {
  const bare = options[arg.replace(/^--/, '')]?.bare;
  return arg.startsWith('--') && bare !== undefined ? `${arg}=${bare}` : arg;
}

function badUsage({ name, passesOnTo }: Command, problem: string): FatalError {
  const hint = passesOnTo === undefined ? '' : `; flags of ${passesOnTo} come behind --`;
  return new FatalError(ExitCode.usage, `${name}: ${problem}${hint}; 'vedette help ${name}' says more`);
}

/** The synopsis: `vedette run [OPTIONS] FILE`. */
export function usage({ name, operands, options }: Command): string {
  return ['vedette', name, ...(Object.keys(options).length > 0 ? ['[OPTIONS]'] : []), ...operands].join(' ');
}

/** `--data-dir DIR` */
export function optionLabel(name: string, { value, bare }: Option): string {
  if (value === undefined) return `--${name}`;
  return bare === undefined ? `--${name} ${value}` : `--${name}[=${value}]`;
}
