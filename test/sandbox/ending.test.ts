import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { hardenSelf, removeFolder, sandboxReport, sweepMarkers } from '../../src/agent/sandbox/index.ts';
import { waitUntil } from '../support/programs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { imprison } from './runner.ts';

const { state } = sandboxReport();
if (state === 'none') process.stdout.write('skipped: there are no walls on this machine\n');
const MB = 1024 * 1024;
const limits = { memoryBytes: 400 * MB, processes: 40, diskBytes: 50 * MB };

/** The mark of a process: nobody else has it. */
const markOf = (pid: number): string | undefined =>
  /realtime timeout\s+\S+\s+(\d+)/.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))?.[1];

/** Every process with this mark, the ended ones included. */
function withMark(mark: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && markOf(Number(pid)) === mark;
    } catch {
      return false;
    }
  });
}

const living = (mark: string): string[] =>
  withMark(mark).filter((pid) => !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1')));

/** Starts processes that leave its session, its group, its environment and its parent. */
const DAEMONS = `
  const { spawnSync } = load('node:child_process');
  const script = 'for i in 1 2 3 4 5 6; do (setsid env -i sleep 100 &) ; done';
  // Their output must not be a pipe of ours, which would be waited for.
  spawnSync('/bin/sh', ['-c', script], { stdio: 'ignore' });
  return process.pid;`;

/** Every process starts two more: a thousand in the end, and each is gone by itself after some seconds. */
const BOMB = 'bomb() { [ $1 -lt 9 ] || exec sleep 9; bomb $(($1+1)) | bomb $(($1+1)) & }; bomb 0';

describe.skipIf(state === 'none')('the end of a job', () => {
  test('leaves no daemon and no zombie', async () => {
    hardenSelf();
    await using prisoner = imprison({ profile: 'browser' });
    await prisoner.run(DAEMONS);
    const mark = markOf(prisoner.child.pid!)!;
    expect(withMark(mark).length).toBeGreaterThan(6);
    expect(prisoner.child.usage().processes).toBeGreaterThan(6);
    await prisoner.child.end();
    expect(withMark(mark)).toEqual([]);
    expect(await prisoner.child.exited).toMatchObject({ cause: 'killed' });
  });

  test('leaves no daemon of a child that ended by itself', async () => {
    await using prisoner = imprison({ profile: 'browser' });
    await prisoner.run(DAEMONS);
    const mark = markOf(prisoner.child.pid!)!;
    prisoner.child.channel.destroy();
    expect(await prisoner.child.exited).toMatchObject({ cause: 'exit' });
    expect(withMark(mark).length).toBe(6);
    await prisoner.child.end();
    expect(withMark(mark)).toEqual([]);
  });

  test('leaves the other jobs alone', async () => {
    await using one = imprison();
    await using other = imprison();
    await other.run('return 1;');
    await one.child.end();
    expect(await other.run('return 2;')).toBe(2);
  });

  test.each([
    [
      'processes',
      'browser',
      `const sh = load('node:child_process').spawn('/bin/sh', ['-c', ${JSON.stringify(BOMB)}], { detached: true });
       return sh.pid > 0;`,
    ],
    [
      'memory',
      'script',
      `globalThis.kept = []; setInterval(() => kept.push(Buffer.alloc(${20 * MB}, 1)), 10); return 1;`,
    ],
    [
      'memory',
      'browser',
      `const { spawn } = load('node:child_process');
       const eater = 'const kept = []; setInterval(() => kept.push(Buffer.alloc(${4 * MB}, 1)), 20)';
       for (let i = 0; i < 6; i++) spawn(process.execPath, ['-e', eater]);
       return 1;`,
    ],
    [
      'disk',
      'script',
      `const fs = load('node:fs');
       let n = 0;
       setInterval(() => fs.writeFileSync('file' + n++, Buffer.alloc(${4 * MB}, 1)), 5);
       return 1;`,
    ],
    [
      'disk',
      'script',
      `load('node:fs').mkdirSync('hidden', { mode: ${process.getuid?.() === 0 ? '0o700' : '0'} });
       load('node:fs').writeFileSync('large', Buffer.alloc(${49 * MB}, 1));
       load('node:fs').writeFileSync('larger', Buffer.alloc(${2 * MB}, 1));
       return 1;`,
    ],
  ] as const)('comes when it goes over its limit of %s as a %s', async (excess, profile, bomb) => {
    await using prisoner = imprison({ profile, limits });
    const mark = await prisoner.run('return 1;').then(() => markOf(prisoner.child.pid!)!);
    await prisoner.run(bomb);
    expect(await prisoner.child.exceeded).toBe(excess);
    await prisoner.child.end();
    expect(withMark(mark)).toEqual([]);
    expect(prisoner.child.usage().peakMemoryBytes).toBeGreaterThan(20 * MB);
  });

  test('one file cannot be larger than the limit of all', async () => {
    await using prisoner = imprison({ limits });
    const code = await prisoner.run(
      `return outcome(() => load('node:fs').writeFileSync('one', Buffer.alloc(${60 * MB})));`,
    );
    expect(code).toBe('EFBIG');
  });
});

describe.skipIf(state === 'none')('an agent that is killed', () => {
  test('takes its children along; the next one sweeps what they started', async () => {
    const agent = spawn(process.execPath, [join(import.meta.dirname, 'short-agent.ts')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [printed] = (await once(agent.stdout, 'data')) as [Buffer];
    const child = Number(printed.toString());
    const mark = markOf(child)!;
    expect(withMark(mark).length).toBeGreaterThan(3);
    agent.kill('SIGKILL');
    await once(agent, 'exit');
    await waitUntil(() => Promise.resolve(!living(mark).includes(String(child))), 5000, 'its child');
    expect(living(mark).length).toBeGreaterThan(2);
    await using mine = imprison();
    await mine.run('return 1;');
    expect(await sweepMarkers()).toBeGreaterThanOrEqual(1);
    // Who asks about the ended is up to the machine's first process: they were nobody's.
    expect(living(mark)).toEqual([]);
    expect(await mine.run('return 2;')).toBe(2);
  });
});

describe('a job folder', () => {
  test('is removed with whatever a job made there', async () => {
    using outside = temporaryFolder();
    using inside = temporaryFolder();
    writeFileSync(join(outside.path, 'kept'), 'kept');
    const folder = join(inside.path, 'job');
    // Deeper than a path can be long, closed, with names that are no text.
    const script = `
      grow() {
        i=0; while [ $i -lt 150 ]; do mkdir aaaaaaaaaaaaaaaaaaaa && cd aaaaaaaaaaaaaaaaaaaa; i=$((i+1)); done
        touch bottom
      }
      mkdir job half && cd job && ln -s "$1" link && mkfifo pipe && mkdir closed && echo x > closed/file
      touch "$(printf 'b\\\\377d')" .removed-0 && mkdir .removed-1
      (cd ../half && grow) && (grow && mv "$2/half" half)
      chmod 000 closed && chmod 500 aaaaaaaaaaaaaaaaaaaa`;
    execFileSync('/bin/sh', ['-c', script, 'sh', outside.path, inside.path], { cwd: inside.path });
    await removeFolder(folder);
    expect(existsSync(folder)).toBe(false);
    expect(readdirSync(outside.path)).toEqual(['kept']);
    await removeFolder(folder);
  });
});
