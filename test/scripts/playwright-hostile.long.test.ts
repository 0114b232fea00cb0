import { expect, test } from 'vitest';
import { DEFAULT_RUNTIME } from '../../src/agent/runtimes/index.ts';
import { describeUnless } from '../support/programs.ts';
import { usePlaywright } from '../support/playwright-bench.ts';
import { lacksRuntime } from '../support/runtime-root.ts';

/** Multistep checks that end their process, take everything or never end: one verdict, one sentence. */

const spec = (body: string): string =>
  `import { test } from '@playwright/test'; import fs from 'node:fs';\ntest('a', async () => {\n${body}\n});`;
const LATE = 'TIMEOUT the script was not finished within 2.5 s';

describeUnless(lacksRuntime(DEFAULT_RUNTIME), 'a script', () => {
  const { run } = usePlaywright();

  test.concurrent.each([
    ['loops', `console.log('x'); while (true) {}`, LATE],
    ['loops in a test', spec(`console.log('x'); while (true) {}`), LATE],
    ['awaits for ever', `console.log('x'); await new Promise(() => {});`, LATE],
    ['leaves a timer running', `console.log('x'); setInterval(() => {}, 100);`, LATE],
  ])('%s: ended when its time is up, with its log', async (_what, script, failure) => {
    const { failures, log } = await run(script, { timeoutMs: 2_500 });
    expect(failures[0]).toBe(failure);
    expect(log).toEqual(['INFO x']);
  });

  test.concurrent.each([
    ['exits with 3', `process.exit(3);`, 'process.exit(3) (/script.js:1:9)'],
    ['exits in a test, as if all were well', spec(`process.exit(0);`), 'process.exit(0) (/script.js:3:9)'],
    ['aborts', spec(`process.abort();`), 'process.abort() (/script.js:3:9)'],
    [
      'kills itself',
      `process.kill(process.pid, 'SIGKILL');`,
      'process.kill(process.pid, SIGKILL) (/script.js:1:9)',
    ],
  ])('%s: the call and its place', async (_what, script, call) => {
    const { verdict, failures, log } = await run(script);
    expect(verdict).toBe('failed');
    expect(failures).toEqual([`PROCESS_EXIT the script ended its process with ${call}`]);
    expect(log).toEqual([]);
  });

  test.concurrent.each([
    ['a heap', spec(`const a = []; for (;;) a.push(new Array(1000).fill({}));`), /^OUT_OF_MEMORY .* 384 MB$/],
    [
      'buffers',
      `const a = []; for (;;) { a.push(Buffer.alloc(1 << 24, 1)); await new Promise((r) => setTimeout(r, 1)); }`,
      /^MEMORY_LIMIT .* 768 MB /,
    ],
    [
      'disk',
      `const fs = require('fs'); for (let i = 0; ; i++) { fs.writeFileSync('f' + i, Buffer.alloc(1 << 22)); await new Promise((r) => setTimeout(r, 5)); }`,
      /^DISK_LIMIT .* 200 MB /,
    ],
    ['its channel', `require('fs').closeSync(3); console.log('gone');`, /^PROCESS_EXIT .* exit code 1$/],
  ])('takes %s: ended, and said what of', async (_what, script, failure) => {
    const { verdict, failures } = await run(script);
    expect(verdict).toBe('failed');
    expect(failures).toEqual([expect.stringMatching(failure)]);
  });

  test('prints a gigabyte: the log is cut, the run and the agent go on', async () => {
    const before = process.memoryUsage().rss;
    const script = `const line = 'z'.repeat(65535) + '\\n';
      for (let i = 0; i < 16384; i++) if (!process.stdout.write(line)) await new Promise((r) => process.stdout.once('drain', r));`;
    const { verdict, log, report } = await run(script, { timeoutMs: 60_000 });
    expect(verdict).toBe('passed');
    expect(JSON.stringify(report).length).toBeLessThan(1_000_000);
    expect(log.at(-1)).toMatch(/^WARN \d+ bytes more were left out/);
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
  });

  test.concurrent.each([
    ['a test', spec(`throw new Error('x'.repeat(5_000_000));`)],
    ['a plain script', `throw new Error('x'.repeat(5_000_000));`],
  ])('throws a huge error in %s: cut, with its place', async (_what, script) => {
    const { failures, report } = await run(script);
    expect(failures[0]).toMatch(/^SCRIPT_ERROR .*x{500}/);
    expect(JSON.stringify(report).length).toBeLessThan(100_000);
  });

  test('starts a daemon: no shell is there, and Node ends with the run', async () => {
    const { verdict, log } = await run(
      `const { spawn } = require('child_process');
      const start = (...args) => new Promise((resolve) => { const c = spawn(...args, { detached: true, stdio: 'ignore' });
        c.on('error', ({ code }) => resolve(code)).on('spawn', () => resolve('started')).unref(); });
      console.log(await start('/bin/sh', ['-c', 'sleep 100']), await start(process.execPath, ['-e', 'setInterval(() => {}, 1000)']));`,
    );
    expect({ verdict, log }).toEqual({ verdict: 'passed', log: ['INFO EACCES started'] });
  });

  test('deletes its own folder: its verdict is its own', async () => {
    const { verdict } = await run(
      spec(`fs.rmSync(process.cwd() + '/..', { recursive: true, force: true });`),
    );
    expect(verdict).toBe('passed');
  });

  test('leaves a file of 200 MB: refused with its size and the limit', async () => {
    const { verdict, log, refused } = await run(
      `const fs = require('fs'); const fd = fs.openSync('big.bin', 'w'); for (let i = 0; i < 160; i++) fs.writeSync(fd, Buffer.alloc(1e6, i));`,
    );
    expect(verdict).toBe('passed');
    expect(refused).toMatchObject([{ name: 'files/big.bin', size: 160_000_000 }]);
    expect(log).toEqual([
      expect.stringMatching(/^WARN files\/big\.bin \(160000000 bytes\) is not kept: .*150000000/),
    ]);
  });
});
