import { describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { runVedette } from './program.ts';

describe('vedette', () => {
  test('says its version', async () => {
    expect(await runVedette(['--version'])).toEqual({ code: 0, stdout: `${manifest.version}\n`, stderr: '' });
  });

  test.each([[[]], [['help']], [['--help']]])('explains itself with %j', async (args) => {
    const { code, stdout } = await runVedette(args);
    expect(stdout).toContain('Usage: vedette COMMAND');
    expect(code).toBe(0);
  });

  test.each([
    [['upp'], /^vedette: unknown command 'upp'; the commands are .*\n$/],
    [['--colour'], /^vedette: unknown option '--colour'; .*\n$/],
    [['help', 'upp'], /^vedette: unknown command 'upp'; .*\n$/],
    [['up', '--prot', '1'], /^vedette: up: Unknown option '--prot'; .*\n$/],
    [['up', '--port', 'http'], /^vedette: --port="http": a whole number from 1 to 65535 is allowed\..*\n$/],
    [
      ['up', '--data-dir', '/dev/null/nowhere'],
      /^vedette: cannot create the data folder \/dev\/null\/nowhere .*\n$/,
    ],
    [['agent'], /^vedette: API_KEY: it is not set\..*\n$/],
    [['run'], /^vedette: run: FILE is missing; .*\n$/],
  ])('%j ends with code 2 and one line', async (args, line) => {
    const { code, stdout, stderr } = await runVedette(args);
    expect(stderr).toMatch(line);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });

  test('a wrong setting ends the service with code 2 and one line', async () => {
    const { code, stderr } = await runVedette(['service'], { env: { SERVICE_PORT: '70000' } });
    expect(stderr).toMatch(
      /^vedette: SERVICE_PORT="70000": a whole number from 0 to 65535 is allowed\..*\n$/,
    );
    expect(code).toBe(2);
  });
});

describe('vedette help', () => {
  test.each(['up', 'agent', 'service', 'doctor', 'run', 'runtime'])(
    'for %s, asked in both ways',
    async (name) => {
      const { code, stdout } = await runVedette([name, '--help']);
      expect(stdout).toMatch(new RegExp(`^Usage: vedette ${name}\\b`));
      expect(stdout.split('\n').filter((line) => line.length > 200)).toEqual([]);
      expect(await runVedette(['help', name])).toEqual({ code: 0, stdout, stderr: '' });
      expect(code).toBe(0);
    },
  );

  test('agent: options, examples, exit codes, and every setting', async () => {
    const { stdout } = await runVedette(['help', 'agent']);
    for (const part of ['--once[=N]', 'Examples:', 'Exit code:', '  API_KEY (required)\n', '  NO_PROXY\n']) {
      expect(stdout).toContain(part);
    }
  });
});
