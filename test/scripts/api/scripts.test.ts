import { afterAll, beforeAll, describe, expect, test, type TestContext } from 'vitest';
import type { Runtime } from '../../../src/agent/runtimes/index.ts';
import { closedPort, httpServer } from '../../../src/checks/http-probe/servers.ts';
import { type ApiChild, REQUEST, RUNTIMES, startApiChild, translates } from './child.ts';

/** A process of its own, for what must not be left to others. */
async function started(
  { onTestFinished }: TestContext,
  files: Readonly<Record<string, string>>,
): Promise<ApiChild> {
  const child = await startApiChild(files);
  onTestFinished(() => child[Symbol.asyncDispose]());
  return child;
}

/** One process for tests one after the other. The returned function puts files into it. */
function sharedChild(runtime?: Runtime): (files: Readonly<Record<string, string>>) => ApiChild {
  let child: ApiChild;
  beforeAll(async () => {
    child = await startApiChild({}, runtime);
  });
  afterAll(() => child[Symbol.asyncDispose]());
  return (files) => {
    child.write(files);
    return child;
  };
}

function needsTranslation(context: TestContext, runtime: Runtime): void {
  if (!translates(runtime)) context.skip('no runtime with Playwright is installed: vedette runtime install');
}

describe.each(RUNTIMES.map((runtime) => ({ id: runtime.id, runtime })))('in runtime $id', ({ runtime }) => {
  const childWith = sharedChild(runtime);

  test('CommonJS runs as it is written, sloppy, with top-level await and return', async () => {
    const child = childWith({
      'setup.js': `
          const { join } = require('path');
          token = await Promise.resolve('t');          // undeclared: no strict mode
          request.headers.Token = token + join('a', 'b') + typeof module.exports + __filename.slice(-9);
          if (token) return;
          request.url = 'not reached';`,
    });
    const { error, request } = await child.setup('setup.js');
    expect(error).toBeNull();
    expect(request).toEqual({ ...REQUEST, headers: { Accept: '*/*', Token: 'ta/bobject/setup.js' } });
  });

  test('ES modules and TypeScript run, mixed with require', async (context) => {
    needsTranslation(context, runtime);
    const child = childWith({
      'setup.ts': `
          import { basename } from 'node:path';
          import type { Nothing } from './not-there';
          import { twice, Kind } from './lib/util';
          import data from './lib/data.json';
          interface Shape { a: number }
          namespace Space { export const one = 1 }
          class Box { constructor(private readonly value: number) {} get(): number { return this.value } }
          const shape: Shape = { a: await twice(new Box(10).get()) };
          const lazy = await import('./lib/lazy');
          const { cjs } = require('./lib/lazy.js');
          request.body = [shape.a, Kind.B, Space.one, data.k, lazy.cjs, cjs, basename(import.meta.url)].join() as string;`,
      'lib/util.ts': `
          import { factor } from './factor.js';
          export enum Kind { A, B = 7 }
          export async function twice(n: number): Promise<number> { return n * factor }`,
      'lib/factor.ts': 'export const factor: number = await Promise.resolve(2);',
      'lib/lazy.js': 'exports.cjs = "c";',
      'lib/data.json': '{"k":9}',
    });
    const { error, request } = await child.setup('setup.ts');
    expect(error).toBeNull();
    expect(request.body).toBe('20,7,1,9,c,c,setup.ts');
  });

  test('types are understood in a script without a name', async (context) => {
    needsTranslation(context, runtime);
    const child = childWith({ 'setup.js': 'const n: number = 5; request.url += String(n as number);' });
    expect((await child.setup('setup.js')).request.url).toBe(`${REQUEST.url}5`);
  });

  test('what setup keeps in memory is there in teardown', async () => {
    const child = childWith({
      'setup.js': `require('./state').count++; globalThis.made = { id: 7 };`,
      'teardown.js': `response.body = [require('./state').count, made.id, response.statusCode].join();`,
      'state.js': 'exports.count = 1;',
    });
    await child.setup('setup.js');
    const { error, response } = await child.teardown('teardown.js');
    expect(error).toBeNull();
    expect(response).toMatchObject({ statusCode: 200, body: '2,7,200' });
  });

  test('an error says what and where, in the lines of the author', async (context) => {
    const files: Record<string, string> = {
      'setup.js': `const { check } = require('./lib/check');\n\nfunction deep() {\n  check();\n}\ndeep();`,
      'lib/check.js': `exports.check = () => {\n  throw new TypeError('no stock');\n};`,
    };
    const child = childWith(files);
    const { error } = await child.setup('setup.js');
    expect(error).toMatchObject({
      message: 'the setup script failed: TypeError: no stock',
      file: '/lib/check.js',
      line: 2,
      column: 9,
    });
    expect(error?.stack?.split('\n')).toEqual([
      'TypeError: no stock',
      expect.stringMatching(/^ {4}at .*\(\/lib\/check\.js:2:9\)$/),
      '    at deep (/setup.js:4:3)',
      '    at /setup.js:6:1',
    ]);
    needsTranslation(context, runtime);
    const typed = childWith({
      'a.ts': `type A = {\n  b: string;\n};\n\nconst a: A = { b: 'x' };\nthrow new Error(a.b);`,
    });
    expect((await typed.setup('a.ts')).error).toMatchObject({ file: '/a.ts', line: 6, column: 7 });
  });

  test.each([
    ['const a = 1;\nconst b = ;', 'the setup script has a syntax error: Unexpected token', 2],
    ['throw { a: 1 };', 'the setup script failed: it threw { a: 1 }, which is no Error', undefined],
    ['throw undefined;', 'the setup script failed: it threw undefined, which is no Error', undefined],
    ['throw new Error();', 'the setup script failed: it threw an Error without a message', 1],
    ['\nnothing.here', 'the setup script failed: ReferenceError: nothing is not defined', 2],
    ["\nrequire('lodsh')", /^the setup script failed: there is no package lodsh in runtime \d{4}\.\d\d$/, 2],
    ["require('@a/b/c')", /there is no @a\/b\/c in the packages of runtime/, 1],
    ["await import('lodsh')", /there is no package lodsh in runtime/, undefined],
    ["require('./util')", 'the setup script failed: ./util is not among the files of the check', 1],
    ["require('assert').equal(1, 2, 'not equal')", 'the setup script failed: AssertionError: not equal', 1],
    ["Promise.reject(new Error('lost')); await new Promise(() => {})", 'the setup script failed: lost', 1],
    [
      "setTimeout(() => { throw new Error('later') }, 1); await new Promise(() => {})",
      'the setup script failed: later',
      1,
    ],
    ["throw new Error('outer', { cause: new Error('inner') })", 'the setup script failed: outer: inner', 1],
    [
      'throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } })',
      'the setup script failed: it threw something that cannot be shown',
      undefined,
    ],
  ])('the error of %j', async (code, message, line) => {
    const child = childWith({ 'setup.js': code });
    const { error } = await child.setup('setup.js');
    expect(error?.message).toEqual(typeof message === 'string' ? message : expect.stringMatching(message));
    if (line !== undefined) expect(error).toMatchObject({ file: '/setup.js', line });
  });

  test('a request that is refused says so', async () => {
    const port = await closedPort();
    const child = childWith({ 'setup.js': `await fetch('http://127.0.0.1:${port}/')` });
    const { error } = await child.setup('setup.js');
    expect(error).toMatchObject({
      message: `the setup script failed: TypeError: fetch failed: connect ECONNREFUSED 127.0.0.1:${port}`,
      file: '/setup.js',
      line: 1,
    });
  });

  test('what nobody awaits is waited for', async () => {
    await using server = await httpServer((_, response) => void setTimeout(() => response.end('tok'), 100));
    const child = childWith({
      'setup.js': `
          async function setup() {
            const answer = await fetch(${JSON.stringify(server.url())});
            request.headers.Token = await answer.text();
          }
          setup();`,
    });
    const { request } = await child.setup('setup.js');
    expect(request.headers['Token']).toBe('tok');
    expect(child.log).toEqual([]);
  });
});

describe('modules', () => {
  const childWith = sharedChild();

  test('snippets are found from everywhere, with and without ending', async () => {
    const child = childWith({
      'checks/a/setup.js': `request.url += require('./snippets/auth').sign() + require('../../snippets/auth.js').sign()`,
      'snippets/auth.js': `const { key } = require('./snippets/key'); exports.sign = () => key;`,
      'snippets/key.js': `exports.key = 'k';`,
    });
    expect((await child.setup('checks/a/setup.js')).request.url).toBe(`${REQUEST.url}kk`);
  });

  test('that need one another get what is there so far', async (context) => {
    needsTranslation(context, RUNTIMES[0]!);
    const child = childWith({
      'setup.js': `import { a } from './a'; request.body = a();`,
      'a.js': `import { b } from './b'; export const a = () => 'a' + b();`,
      'b.js': `import { a } from './a'; export const b = () => 'b' + typeof a;`,
    });
    expect((await child.setup('setup.js')).request.body).toBe('abfunction');
  });

  test('that await at their top level can be imported, not required', async () => {
    const files = { 'later.js': 'exports.value = await 5;', 'setup.js': "require('./later')" };
    const child = childWith(files);
    expect((await child.setup('setup.js')).error?.message).toMatch(
      /\/later\.js awaits at its top level, so it cannot be required; use import$/,
    );
  });
});

describe('values', () => {
  const childWith = sharedChild();

  const after = async (code: string): Promise<Awaited<ReturnType<ApiChild['setup']>>> => {
    const child = childWith({ 'setup.js': code });
    return await child.setup('setup.js', { env: { GIVEN: 'g' } });
  };

  test('request takes what means the same', async () => {
    const { request } = await after(`
      request.method = 'post';
      request.url = new URL('http://a.test/x?y=1');
      request.headers = new Headers({ A: 'b' });
      request.queryParameters = { n: 1, t: true, gone: undefined, list: ['a', 'b'] };
      request.body = { a: [1] };`);
    expect(request).toEqual({
      method: 'post',
      url: 'http://a.test/x?y=1',
      headers: { a: 'b', 'Content-Type': 'application/json' },
      queryParameters: { n: '1', t: 'true', list: 'a, b' },
      body: '{"a":[1]}',
    });
    const form = await after(
      `request.body = new URLSearchParams({ a: 'b c' }); request.headers['CONTENT-TYPE'] = 'x'`,
    );
    expect(form.request).toMatchObject({ body: 'a=b+c', headers: { 'CONTENT-TYPE': 'x' } });
    expect(Object.keys(form.request.headers)).not.toContain('Content-Type');
    const bytes = await after(`request.body = Buffer.from('ü')`);
    expect(bytes.request.body).toBe('ü');
  });

  test.each([
    [
      'request.headers.x = {}',
      /^after the setup script, request\.headers\["x"\] is an object; it must be text$/,
    ],
    ['request.url = fetch', /request\.url is a function/],
    ['request.body = Promise.resolve("x")', /request\.body is a promise that nobody awaited/],
    ['request.body = "x".repeat(300000)', /request has \d+ bytes; at most 262144 are allowed/],
    ['process.env.X = "x".repeat(300000)', /process\.env have \d+ bytes/],
    ['const a = {}; a.a = a; request.body = a', /request\.body cannot be written as JSON/],
    ['request = null', /request is no object any more/],
    ['Object.defineProperty(request, "url", { get() { throw new Error("no") } })', /failed: no$/],
  ])('%s is an error', async (code, message) => {
    expect((await after(code)).error?.message).toMatch(message);
  });

  test('a body that is too long, in teardown', async () => {
    const child = childWith({
      'a.js': 'response.body = "x".repeat(300000)',
      'b.js': 'response.body = ""',
    });
    expect((await child.teardown('a.js')).error?.message).toMatch(/response\.body has 300000 bytes/);
    const long = { ...RESPONSE_OF_LIMIT };
    expect((await child.teardown('b.js', { response: long })).response?.body).toBe('');
  });

  test('process.env has the variables of the run and nothing else, as text', async () => {
    const { env, request } = await after(`
      request.body = JSON.stringify(process.env);
      process.env.N = 5;
      Object.assign(process.env, { T: true });
      delete process.env.GIVEN;
      request.headers.Has = String('N' in process.env && process.env.hasOwnProperty('T'));
      request.headers.Tmp = String(require('os').tmpdir().length > 5);`);
    expect(request.body).toBe('{"GIVEN":"g"}');
    expect(env).toEqual({ N: '5', T: 'true' });
    expect(request.headers).toMatchObject({ Has: 'true', Tmp: 'true' });
  });

  test('a secret is told before anything that may contain it', async () => {
    const child = childWith({
      'setup.js': `process.env.SERVICE_SECRET_A = 'hidden'; console.log(process.env.SERVICE_SECRET_A);`,
    });
    const { env } = await child.setup('setup.js');
    expect(child.said.map(({ t }) => t)).toEqual(['secret', 'log']);
    expect(child.said[0]).toEqual({ t: 'secret', value: 'hidden' });
    expect(env).toEqual({ SERVICE_SECRET_A: 'hidden' });
  });

  test('teardown without an answer has no response', async () => {
    const child = childWith({ 'teardown.js': 'console.log(typeof response, request.url)' });
    const { response, error } = await child.teardown('teardown.js', { response: null });
    expect({ response, error }).toEqual({ response: null, error: null });
    expect(child.log).toEqual([`info undefined ${REQUEST.url}`]);
  });

  test('request cannot be changed any more in teardown', async () => {
    const child = childWith({ 'teardown.js': 'request.url = "http://other.test/"' });
    expect((await child.teardown('teardown.js')).request).toEqual(REQUEST);
  });
});

describe('several scripts', () => {
  const childWith = sharedChild();

  const files = {
    'group.js': `request.headers.Order = (request.headers.Order ?? '') + 'g'; process.env.FROM = 'group';`,
    'own.js': `request.headers.Order += 'o' + process.env.FROM;`,
    'fails.js': `throw new Error('first')`,
    'also-fails.js': `response.body = 'black'; throw new Error('second')`,
    'cleans.js': `console.log('cleaned'); response.body += '!'`,
  };

  test('run in order, each on what the one before left', async () => {
    const child = childWith(files);
    expect((await child.setup(['group.js', 'own.js'])).request.headers['Order']).toBe('gogroup');
  });

  test('setup stops at the first that fails; teardown cleans up and reports the first', async () => {
    const child = childWith(files);
    const setup = await child.setup(['fails.js', 'group.js']);
    expect(setup.error?.message).toBe('the setup script failed: first');
    expect(setup.request).toEqual(REQUEST);
    const teardown = await child.teardown(['fails.js', 'also-fails.js', 'cleans.js']);
    expect(teardown.error?.message).toBe('the teardown script failed: first');
    expect(teardown.response?.body).toBe('black!');
    expect(child.log).toEqual(['error the teardown script failed: second', 'info cleaned']);
  });
});

describe.concurrent('a script that', () => {
  test('prints is logged with levels, in order, without paths of this machine', async (context) => {
    const child = await started(context, {
      'setup.js': `
        console.log('a', { b: [1] }); console.info('%s!', 'i'); console.debug('d'); console.warn('w');
        console.error(new Error('e')); console.table([{ x: 1 }]); console.log(__dirname + '/x', __filename);`,
    });
    await child.setup('setup.js');
    const table = child.log.findIndex((line) => line.includes('┌'));
    expect(child.log.toSpliced(table, 1)).toEqual([
      'info a { b: [ 1 ] }',
      'info i!',
      'debug d',
      'warn w',
      'error Error: e\n    at /setup.js:3:23',
      'info /x /setup.js',
    ]);
  });

  test('prints without end is heard up to a limit', async (context) => {
    const child = await started(context, {
      'setup.js': `const line = 'x'.repeat(1000); for (let i = 0; i < 100000; i++) console.log(line);
        console.log('y'.repeat(50_000_000));`,
    });
    expect((await child.setup('setup.js')).error).toBeNull();
    expect(child.log.length).toBeLessThan(1100);
    expect(child.log.at(-1)).toMatch(/^warn 990\d\d more lines with \d+ characters were left out$/);
  });

  test('writes to its output directly has nothing that goes on', async (context) => {
    const child = await started(context, {
      'setup.js': `process.stdout.write('direct'); process.stderr.write('too');`,
    });
    expect((await child.setup('setup.js')).error).toBeNull();
    expect(child.log).toEqual([]);
  });

  test('takes too long is not waited for', async (context) => {
    const child = await started(context, {
      'setup.js': 'await new Promise((done) => setTimeout(done, 60_000))',
    });
    const { error } = await child.setup('setup.js', { timeoutMs: 100 });
    expect(error).toEqual({ message: 'the setup script was not finished within 0.1 s' });
  });

  test('leaves a timer running is told to await', async (context) => {
    const child = await started(context, { 'setup.js': 'setInterval(() => {}, 10)' });
    const begunMs = performance.now();
    expect((await child.setup('setup.js')).error).toBeNull();
    expect(performance.now() - begunMs).toBeLessThan(8000);
    expect(child.log).toEqual([
      'warn the setup script has ended, but something that it started goes on: await it',
    ]);
  });

  test.for([
    ['process.exit(3)', { call: 'process.exit(3)', code: 3 }],
    ['setTimeout(() => process.exit(), 1); await new Promise(() => {})', { call: 'process.exit()', code: 0 }],
    ['process.abort()', { call: 'process.abort()' }],
    ['process.kill(process.pid, "SIGKILL")', { call: 'process.kill(process.pid, SIGKILL)' }],
  ] as const)('ends its process with %s says so first', async ([code, leaving], context) => {
    const child = await started(context, { 'setup.js': `console.log('before');\n${code}` });
    await expect(child.setup('setup.js')).rejects.toThrow('the process has ended');
    expect(child.said).toMatchObject([
      { t: 'log', text: 'before' },
      { t: 'leaving', ...leaving, error: { file: '/setup.js', line: 2 } },
    ]);
  });

  test('closes its output goes on', async (context) => {
    const child = await started(context, {
      'setup.js': `process.stdout.destroy(); require('fs').closeSync(1); console.log('still'); request.url += 'x';`,
    });
    expect((await child.setup('setup.js')).request.url).toBe(`${REQUEST.url}x`);
    expect(child.log).toEqual(['info still']);
  });

  test('closes the line to the agent ends', async (context) => {
    const child = await started(context, {
      'setup.js': `require('fs').closeSync(3); console.log('nobody hears');`,
    });
    await expect(child.setup('setup.js')).rejects.toThrow('the process has ended');
    expect((await child.ended).code).toBe(1);
  });

  test('puts its own in the place of what we use harms only itself', async (context) => {
    const child = await started(context, {
      'setup.js': `
        globalThis.setTimeout = () => { throw new Error('mine') };
        process.exit = () => {};
        JSON.parse = () => ({ t: 'phase-done' });
        console.log('x'); request.url += 'y';`,
    });
    expect((await child.setup('setup.js')).request.url).toBe(`${REQUEST.url}y`);
  });
});

const RESPONSE_OF_LIMIT = {
  statusCode: 200,
  statusText: 'OK',
  headers: {},
  body: 'x'.repeat(256 * 1024),
  timings: {},
  timingPhases: {},
};
