import { expect, test } from 'vitest';
import { DEFAULT_RUNTIME } from '../../src/agent/runtimes/index.ts';
import { describeUnless } from '../support/programs.ts';
import { usePlaywright } from '../support/playwright-bench.ts';
import { lacksRuntime } from '../support/runtime-root.ts';

/** Scripts without a test runner, as multistep checks. */

const FILES = [
  { path: 'lib/util.ts', content: 'export const next = (n: number): number => n + 1;' },
  { path: 'data.json', content: '{"five":5}' },
  { path: 'note.txt', content: 'hello' },
];

describeUnless(lacksRuntime(DEFAULT_RUNTIME), 'a plain script', () => {
  const { run } = usePlaywright();

  test.concurrent.each([
    [
      'TypeScript',
      'interface A { b: number }\nconst a: A = { b: 1 };\nenum E { X = "x" }\nconsole.log(a.b as number, E.X);',
      ['1 x'],
    ],
    [
      'ES modules',
      `import fs from 'node:fs'; import { next } from './lib/util'; import data from './data.json';
      export const x = 1;\nawait null;\nconsole.log(next(1), data.five, fs.readFileSync('note.txt', 'utf8'));`,
      ['2 5 hello'],
    ],
    [
      'CommonJS',
      `const { next } = require('./lib/util.js'); const { five } = require('./data');
      console.log(next(1), five, require('fs').readFileSync(__dirname + '/note.txt', 'utf8'), require.main === module, process.argv[1]);`,
      ['2 5 hello true /script.js'],
    ],
    [
      'work that nobody awaits',
      `(async () => { await new Promise((r) => setTimeout(r, 100)); console.log('end'); })();`,
      ['end'],
    ],
    ['its own end', `console.log('end');\nprocess.exit(0);\nconsole.log('never');`, ['end']],
    [
      'a degraded target',
      `require('@vedette/playwright-helpers').markCheckAsDegraded('slow');`,
      [],
      'degraded',
    ],
    [
      'expect without a test',
      `const { expect } = require('@playwright/test'); expect(1).toBe(1); await null; console.log('end');`,
      ['end'],
    ],
    [
      'a closed stdout',
      `require('fs').closeSync(1); console.log('still'); await new Promise((r) => setTimeout(r, 50));`,
      ['still'],
    ],
  ])('passes: %s', async (_what, script, printed, verdict = 'passed') => {
    const ran = await run(script, { dependencies: FILES });
    expect(ran.failures).toEqual([]);
    expect(ran.verdict).toBe(verdict);
    expect(ran.log).toEqual(printed.map((line) => `INFO ${line}`));
  });

  test.concurrent.each([
    [
      'a syntax error',
      'const a = 1;\nconst x = = 3;',
      'the script has a syntax error: Unexpected token (/script.js:2:11)',
    ],
    [
      'a package that is missing',
      `require('left-out');`,
      `the script failed: there is no package left-out in runtime ${DEFAULT_RUNTIME} (/script.js:1:1)`,
    ],
    [
      'a file that is missing',
      `const a = 1;\nimport b from './left/out.js';\nconsole.log(b);`,
      'the script failed: ./left/out.js is not among the files of the check (/script.js:2:1)',
    ],
    ['what is no Error', `throw { a: 1 };`, 'the script failed: it threw { a: 1 }, which is no Error'],
    ['nothing', `await Promise.reject();`, 'the script failed: it threw undefined, which is no Error'],
    [
      'a rejection that nobody handles',
      `void Promise.reject(new Error('alone'));\nawait new Promise((r) => setTimeout(r, 5_000));`,
      'the script failed: alone (/script.js:1:21)',
    ],
    [
      'an error in a timer',
      `setTimeout(() => {\n  throw new TypeError('late'); }, 50);`,
      'the script failed: TypeError: late (/script.js:2:9)',
    ],
    [
      'colours',
      String.raw`throw new Error('\u001b[31mred\u001b[39m');`,
      'the script failed: red (/script.js:1:7)',
    ],
    ['an exit code', `process.exitCode = 3;`, 'the script set process.exitCode to 3'],
    [
      'no browser in a multistep check',
      `const { chromium } = require('playwright');\nawait chromium.launch();`,
      'the script failed: browserType.launch: a multistep check has no browser; make it a browser check to open pages (/script.js:2:16)',
    ],
    [
      'a port of its own',
      `require('http').createServer().listen(0);`,
      expect.stringMatching(
        /^the script failed: listen EACCES: .* \(scripts may not listen for connections\)/,
      ),
    ],
  ])('fails: %s', async (_what, script, sentence) => {
    const { verdict, failures, shown } = await run(script);
    expect(verdict).toBe('failed');
    expect(failures.map((failure) => failure.replace(/^SCRIPT_ERROR /, ''))).toEqual([sentence]);
    expect(JSON.stringify(shown.errors)).not.toContain(String.raw`\u001b`);
    expect(shown.errors[0]!.stack ?? '').not.toMatch(/\n +at (?!.*\/script\.js)/);
  });

  test('has the levels of its console', async () => {
    const { log } = await run(
      `console.log('%s and %d', 'a', 3, { a: 1 }); console.warn('careful'); console.error('bad'); console.debug('small'); process.stdout.write('raw\\n'); process.stderr.write('worse\\n');`,
    );
    expect(log).toEqual([
      'INFO a and 3 { a: 1 }',
      'WARN careful',
      'ERROR bad',
      'DEBUG small',
      'INFO raw',
      'ERROR worse',
    ]);
  });

  test('sees its variables and nothing else', async () => {
    const { log } = await run(`console.log(JSON.stringify(process.env));`, {
      env: { CHECK_NAME: 'mine' },
      more: { lane: 1 },
    });
    const env = JSON.parse(log[0]!.replace('INFO ', '')) as Record<string, string>;
    expect(Object.keys(env).toSorted()).toEqual([
      'CHECK_ID',
      'CHECK_NAME',
      'CHECK_RESULT_ID',
      'CHECK_RUN_ID',
      'CHECK_TYPE',
      'REGION',
      'RUNTIME_VERSION',
      'SITE_URL',
    ]);
    expect(env['CHECK_NAME']).toBe('mine');
  });

  test('names the call that it was waiting for when its time was up', async () => {
    const script = `const { request } = require('playwright');\nconst c = await request.newContext();\nconsole.log('so far');\nawait c.get(process.env.SITE_URL + '/slow?ms=20000', { timeout: 0 });\nawait new Promise(() => {});`;
    const { failures, log } = await run(script, { timeoutMs: 1_500 });
    expect(failures[0]).toBe('TIMEOUT the script was not finished within 1.5 s');
    expect(log).toEqual(['INFO so far']);
  });

  test('has its requests with their times, failed and followed ones, at once or not', async () => {
    const { shown, log } = await run(
      `const { request } = require('playwright');
      const [own, other] = [await request.newContext(), await request.newContext({ userAgent: 'mine' })];
      const site = process.env.SITE_URL;
      await Promise.all([own.get(site + '/api/status'), own.get(site + '/api/products')]);
      await other.get(site + '/nothing');
      await own.get('http://127.0.0.1:1/').catch(({ message }) => console.log(message));
      await own.get('http://nobody.invalid/').catch(({ message }) => console.log(message));`,
    );
    const requests = shown.requests!;
    expect(requests.map(({ url, status }) => [new URL(url).pathname, status])).toEqual([
      ['/api/status', 200],
      ['/api/products', 200],
      ['/nothing', 404],
      ['/', null],
      ['/', null],
    ]);
    for (const { timings, duration } of requests.slice(0, 3)) {
      expect(timings).toMatchObject({ wait: expect.any(Number), total: duration });
    }
    expect(log[0]).toMatch(/ECONNREFUSED 127\.0\.0\.1:1[^]*user-agent: Vedette\/1\.0/);
    expect(log[1]).toMatch(/ENOTFOUND nobody\.invalid/);
  });
});
