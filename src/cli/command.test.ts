import { describe, expect, test } from 'vitest';
import { ExitCode } from '../kit/errors.ts';
import { parseCommandLine } from './command.ts';
import { commands, findCommand } from './commands.ts';
import { commandHelp, overview } from './help.ts';

const up = findCommand('up')!;
const run = findCommand('run')!;

describe('a command line', () => {
  test('gives options and operands', () => {
    expect(parseCommandLine(up, ['--port', '3001', '--no-examples'])).toEqual({
      options: { port: '3001', 'no-examples': true },
      operands: [],
    });
    expect(parseCommandLine(run, ['--json', '-']).operands).toEqual(['-']);
  });

  test.each([
    [up, ['--prot', '3001'], "up: Unknown option '--prot'; 'vedette help up' says more"],
    [up, ['--port'], "up: Option '--port <value>' argument missing; 'vedette help up' says more"],
    [up, ['now'], "up: unexpected argument 'now'; 'vedette help up' says more"],
    [run, [], "run: FILE is missing; 'vedette help run' says more"],
    [run, ['a', 'b'], "run: unexpected argument 'b'; 'vedette help run' says more"],
  ])('that is wrong ends in one line: %#', (command, args, message) => {
    expect(() => parseCommandLine(command, args)).toThrow(
      expect.objectContaining({ message, exitCode: ExitCode.usage }),
    );
  });
});

describe('help', () => {
  test('lists every command', () => {
    for (const { name, summary } of commands) expect(overview()).toMatch(new RegExp(`${name} +${summary}`));
  });

  test.each(commands.map((command) => [command.name, command] as const))(
    'explains %s',
    async (_, command) => {
      const text = await commandHelp(command);
      expect(text).toContain(`Usage: vedette ${command.name}`);
      for (const option of Object.keys(command.options)) expect(text).toContain(`--${option}`);
      expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(110);
    },
  );
});
