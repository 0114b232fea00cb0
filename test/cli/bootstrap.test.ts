import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { waitUntil } from '../support/programs.ts';

/** One per test: a project as small as can be: the real bootstrap, one package without a registry, a program. */
let project: string;

beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), 'vedette-bootstrap-'));
  mkdirSync(join(project, 'src/cli'), { recursive: true });
  mkdirSync(join(project, 'tiny'));
  cpSync(join(import.meta.dirname, '../../src/cli/bootstrap.mjs'), join(project, 'src/cli/bootstrap.mjs'));
  write('package.json', {
    name: 'p',
    version: '1.0.0',
    type: 'module',
    scripts: { start: manifest.scripts.start },
    dependencies: { tiny: 'file:tiny' },
  });
  write('tiny/package.json', { name: 'tiny', version: '1.0.0', main: 'index.js' });
  write('tiny/index.js', 'module.exports = "tiny is here";');
  main('import tiny from "tiny"; console.log(tiny, process.argv.slice(2).join()); process.exitCode = 7;');
  expect(spawnSync('npm', ['install', '--package-lock-only'], { cwd: project }).status).toBe(0);
});

function write(file: string, content: object | string): void {
  writeFileSync(join(project, file), typeof content === 'string' ? content : JSON.stringify(content));
}
const main = (program: string): void => write('src/cli/main.ts', program);

interface Run {
  child: ChildProcess;
  output: () => string;
  ended: Promise<[number | null, NodeJS.Signals | null]>;
}

function run(file: string, args: string[]): Run {
  const child = spawn(file, args, { cwd: project, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  groups.push(child.pid!);
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)));
  const ended = once(child, 'close') as Run['ended'];
  return { child, output: () => text, ended };
}
const bootstrap = (...args: string[]): Run => run(process.execPath, ['src/cli/bootstrap.mjs', ...args]);
/** Whatever a failed test left, in whatever state. */
const groups: number[] = [];
afterEach(() => {
  for (const group of groups.splice(0)) {
    try {
      process.kill(-group, 'SIGKILL');
    } catch {
      // Ended, as it should have.
    }
  }
  rmSync(project, { recursive: true });
});
const count = (text: string, part: string): number => text.split(part).length - 1;

describe('the bootstrap', () => {
  test('installs once, says so, and passes arguments and exit code on', async () => {
    const first = bootstrap('up', '--port', '1');
    expect(await first.ended).toEqual([7, null]);
    expect(first.output()).toMatch(
      /^vedette: installing .*\nvedette: packages installed in \d+ s\ntiny is here up,--port,1\n$/,
    );
    const second = bootstrap('up');
    expect(await second.ended).toEqual([7, null]);
    expect(second.output()).toBe('tiny is here up\n');
    expect(existsSync(join(project, '.install.lock'))).toBe(false);
  });

  test('installs again when a package of the lock file is missing', async () => {
    await bootstrap().ended;
    rmSync(join(project, 'node_modules/.package-lock.json'));
    const again = bootstrap();
    await again.ended;
    expect(again.output()).toContain('packages installed');
  });

  test('two starts at once install once', async () => {
    const both = [bootstrap('a'), bootstrap('b')];
    for (const each of both) expect(await each.ended).toEqual([7, null]);
    expect(count(both.map((each) => each.output()).join(''), 'packages installed')).toBe(1);
  });

  test('takes over from an installation that died', async () => {
    const dead = spawnSync(process.execPath, ['-p', 'process.pid'], { encoding: 'utf8' });
    write('.install.lock', dead.stdout.trim());
    const start = bootstrap();
    expect(await start.ended).toEqual([7, null]);
    expect(start.output()).toContain('packages installed');
  });

  test('ends with one line when npm cannot install', async () => {
    write('package.json', { name: 'p', version: '1.0.0', dependencies: { other: 'file:other' } });
    const start = bootstrap();
    expect(await start.ended).toEqual([3, null]);
    expect(start.output()).toMatch(/vedette: npm ci failed; its first messages are above\n$/);
  });

  test('runs a development script', async () => {
    write('script.ts', 'const words: string[] = process.argv.slice(2); console.log("script", ...words);');
    const start = bootstrap('--script', 'script.ts', 'a', 'b');
    expect(await start.ended).toEqual([0, null]);
    expect(start.output()).toMatch(/\nscript a b\n$/);
  });
});

describe('signals', () => {
  beforeEach(async () => {
    await bootstrap().ended;
    main(`
      for (const signal of ['SIGINT', 'SIGTERM']) {
        process.on(signal, () => {
          console.log('got', signal);
          setTimeout(() => process.exit(0), 500);
        });
      }
      console.log('pid', process.pid);
      setInterval(() => {}, 1000);
    `);
  });

  async function programPid(started: Run): Promise<number> {
    await waitUntil(() => /pid \d+\n/.test(started.output()), 20_000, 'the start');
    return Number(/pid (\d+)\n/.exec(started.output())![1]);
  }

  test.each([
    ['SIGTERM', 'npm', false],
    ['SIGINT', 'npm', false],
    ['SIGINT', 'npm', true],
    ['SIGTERM', 'npm', true],
    ['SIGTERM', 'node', false],
    ['SIGINT', 'node', true],
  ] as const)(
    '%s to %s (whole group: %s) ends the program and is waited for',
    async (signal, file, toGroup) => {
      const started = file === 'npm' ? run('npm', ['start']) : bootstrap();
      const pid = await programPid(started);
      process.kill(toGroup ? -started.child.pid! : started.child.pid!, signal);
      const [code] = await started.ended;
      expect(started.output()).toContain(`got ${signal}`);
      expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
      if (file === 'node') expect(code).toBe(0);
    },
  );
});
