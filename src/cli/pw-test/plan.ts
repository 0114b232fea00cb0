import { isAbsolute, normalize } from 'node:path';
import { ExitCode, FatalError } from '../../kit/errors.ts';
import { integer, readSettings, setting, type Environment } from '../../kit/settings.ts';
import type { Invocation, OptionValue } from '../command.ts';

/** What the command line asks for. */
export interface Plan {
  name: string | undefined;
  location: string | undefined;
  dataDir: string | undefined;
  report: string;
  record: boolean;
  refreshCache: boolean;
  include: readonly string[];
  variables: readonly { key: string; value: string; secret: boolean }[];
  testCommand: string;
  configPath: string | null;
  /** Fields of the check that are as its schema has them. */
  fields: Record<string, unknown>;
}

/** @throws FatalError with exit code 2 */
export function readPlan({ options, operands, env }: Pick<Invocation, 'options' | 'operands' | 'env'>): Plan {
  const { values } = readSettings(
    {
      timeoutSeconds: setting('--timeout', integer(1, 3600).optional(), { meaning: 'Limit of the tests.' }),
      shards: setting('--shards', integer(1, 10).optional(), { meaning: 'Parts of the suite.' }),
    },
    { '--timeout': textOf(options['timeout']), '--shards': textOf(options['shards']) },
  );
  const { flags, configPath } = readFlags(operands);
  return {
    name: textOf(options['name']),
    location: textOf(options['location']),
    dataDir: textOf(options['data-dir']),
    report: textOf(options['report']) ?? 'vedette-report',
    record: options['no-record'] !== true,
    refreshCache: options['refresh-cache'] === true,
    include: textsOf(options['include']),
    variables: [
      ...textsOf(options['env']).map((text) => variable(text, env, false)),
      ...textsOf(options['secret']).map((text) => variable(text, env, true)),
    ],
    testCommand: ['npx playwright test', ...flags.map(quoted)].join(' '),
    configPath,
    fields: {
      ...(values.timeoutSeconds === undefined ? {} : { timeoutSeconds: values.timeoutSeconds }),
      ...(values.shards === undefined ? {} : { shards: values.shards }),
      ...(options['install-command'] === undefined ? {} : { installCommand: options['install-command'] }),
      ...(options['playwright-version'] === undefined
        ? {}
        : { playwrightVersion: options['playwright-version'] }),
    },
  };
}

const textOf = (value: OptionValue): string | undefined => (typeof value === 'string' ? value : undefined);
const textsOf = (value: OptionValue): string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];

/** A name alone has the value that it has here: what is typed may be read by others on this machine. */
function variable(text: string, env: Environment, secret: boolean): Plan['variables'][number] {
  const [, key, value] = /^([A-Za-z_]\w*)(?:=(.*))?$/s.exec(text) ?? [];
  if (key === undefined) throw refused(`${JSON.stringify(text.split('=')[0])} is no NAME=VALUE, nor a NAME`);
  const found = value ?? env[key];
  if (found === undefined) throw refused(`${key} is not set here: set it, or say ${key}=VALUE`);
  return { key, value: found, secret };
}

/** Flags of Playwright that make no sense where nobody looks, or that are ours to set, and what to do instead. */
const REFUSED: Readonly<Record<string, string>> = {
  '--reporter': 'set reporters in the Playwright config: the agent adds its own to them',
  '--shard': 'use --shards, before --',
  '--ui': 'the tests run on another machine',
  '--ui-host': 'the tests run on another machine',
  '--ui-port': 'the tests run on another machine',
  '--debug': 'the tests run on another machine',
  '--headed': 'the tests run on a machine without a screen',
  '--update-snapshots': 'update snapshots with Playwright itself and commit them',
  '-u': 'update snapshots with Playwright itself and commit them',
};

/** What is for Playwright; its config is told apart, since the agent wraps it. */
function readFlags(operands: readonly string[]): { flags: string[]; configPath: string | null } {
  const flags: string[] = [];
  let configPath: string | null = null;
  for (let at = 0; at < operands.length; at++) {
    const operand = operands[at]!;
    const name = operand.split('=')[0]!;
    const why = REFUSED[name];
    if (why !== undefined) throw refused(`${name} is not passed on: ${why}`);
    if (name === '--config' || name === '-c') {
      configPath = operand.includes('=') ? operand.slice(name.length + 1) : (operands[++at] ?? '');
    } else flags.push(operand);
  }
  return { flags, configPath: configPath === null ? null : relativePath(configPath) };
}

function relativePath(path: string): string {
  const plain = normalize(path);
  if (path === '' || isAbsolute(plain) || plain.startsWith('..')) {
    throw refused('--config must name a file in or below this folder');
  }
  return plain;
}

/** For the shell that runs the test command. */
function quoted(text: string): string {
  if (/\p{Cc}/u.test(text)) throw refused('flags of Playwright must be of one line');
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

const refused = (message: string): FatalError => new FatalError(ExitCode.usage, `pw-test: ${message}`);
