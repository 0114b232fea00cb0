import { expect, test } from 'vitest';
import { parseNaming } from '../kit/problems.ts';
import { checkSchema, findCheckType } from './index.ts';

const browser = checkSchema(findCheckType('BROWSER')!);
const multistep = checkSchema(findCheckType('MULTI_STEP')!);

function problemsOf(change: object, schema = browser): string[] {
  const check = { name: 'x', privateLocations: ['here'], script: 'x', ...change };
  const parsed = parseNaming(schema, check, 'the check');
  return parsed.success ? [] : parsed.problems;
}

const file = (path: string, content = ''): { path: string; content: string } => ({ path, content });

test('files lie below one folder, each once', () => {
  expect(problemsOf({ scriptPath: './a/login.spec.ts', dependencies: [file('a/pages/x.ts')] })).toEqual([]);
  expect(
    browser.parse({ name: 'x', privateLocations: ['a'], script: '', scriptPath: './a.ts' }),
  ).toMatchObject({
    scriptPath: 'a.ts',
  });
  for (const path of [
    '/etc/passwd',
    '../x.js',
    'a/../../x.js',
    'a//b.js',
    'a/./b.js',
    'a\\b.js',
    'a/',
    '',
    'x\0',
  ]) {
    expect(problemsOf({ dependencies: [file(path)] })[0], path).toMatch(/^dependencies\[0\]\.path: must /);
    expect(problemsOf({ scriptPath: path })[0], path).toMatch(/^scriptPath: must /);
  }
  expect(problemsOf({ dependencies: [file('a.js'), file('./a.js')] })).toEqual([
    'dependencies: a.js is there twice',
  ]);
  expect(problemsOf({ dependencies: [file('a'), file('a/b')] })).toEqual([
    'dependencies: a is a file and a folder',
  ]);
  expect(problemsOf({ dependencies: [file('script.js')] })[0]).toBe(
    'dependencies: script.js is the script itself',
  );
});

test('the script may be one of the dependencies, and is nowhere else', () => {
  expect(problemsOf({ script: null, scriptPath: 'a.ts', dependencies: [file('a.ts')] })).toEqual([]);
  expect(problemsOf({ script: null })).toEqual([
    'script: may be null only when scriptPath names one of the dependencies',
  ]);
});

test('code fits into one message', () => {
  expect(problemsOf({ script: 'x'.repeat(799_000) })).toEqual([]);
  expect(problemsOf({ script: 'x'.repeat(799_000), dependencies: [file('a', 'y'.repeat(2000))] })[0]).toMatch(
    /^script: has 801\d{3} bytes together with its dependencies; at most 800000 are allowed$/,
  );
});

test('the honoured part of a Playwright configuration is taken, anything else refused by name', () => {
  const use = { viewport: null, locale: 'de-DE', httpCredentials: { username: 'a', password: 'b' } };
  expect(problemsOf({ playwrightConfig: { timeout: 1000, expect: { timeout: 1 }, use } })).toEqual([]);
  expect(problemsOf({ playwrightConfig: { workers: 4 } })).toEqual([
    'playwrightConfig.workers: is not a known field (allowed: timeout, expect, use)',
  ]);
  expect(problemsOf({ playwrightConfig: { use: { launchOptions: { executablePath: '/bin/sh' } } } })).toEqual(
    [
      'playwrightConfig.use.launchOptions.executablePath: is not a known field (allowed: args, ignoreDefaultArgs, slowMo, timeout)',
    ],
  );
  expect(problemsOf({ playwrightConfig: { use: { channel: 'firefox' } } })[0]).toBe(
    'playwrightConfig.use.channel: must be one of chromium, chrome, chromium-headless-shell',
  );
});

test('a run every few seconds is not for scripts; multistep has no browser fields', () => {
  expect(problemsOf({ frequency: 0, frequencyOffset: 10 })).toHaveLength(1);
  expect(problemsOf({ sslCheckDomain: 'https://shop.example' })).toEqual([
    'sslCheckDomain: must be a host name such as shop.example.com',
  ]);
  expect(problemsOf({ sslCheckDomain: 'shop.example' })).toEqual([]);
  expect(problemsOf({ sslCheckDomain: 'shop.example' }, multistep)[0]).toContain(
    'sslCheckDomain: is not a known',
  );
  expect(problemsOf({ snapshots: [{ path: 'a', key: 'b' }] })[0]).toContain('data:image/png;base64');
});
