import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { demoChecks } from '../../src/cli/demo-checks.ts';
import { startDemoTarget, type DemoTarget } from '../../src/cli/demo-target.ts';
import { DEFAULT_RUNTIME } from '../../src/agent/runtimes/index.ts';
import { describeUnless } from '../support/programs.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { listenOn } from '../support/targets/ports.ts';
import { runVedette } from './program.ts';

let demo: DemoTarget;
beforeAll(async () => {
  demo = await startDemoTarget(undefined);
});
afterAll(() => demo.close());

const asInput = (check: object): { input: string } => ({ input: JSON.stringify(check) });
const page = (path: string): object => ({
  checkType: 'URL',
  name: 'Page',
  request: {
    url: `http://127.0.0.1:${demo.ports.http}${path}`,
    assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }],
  },
});

describe('vedette run', () => {
  test.each(['page', 'api', 'echo', 'name'])('passes the example check %s', async (key) => {
    const { path, definition } = demoChecks(demo.ports, 'here').find((check) => check.key === key)!;
    const checkType = path.split('/').at(-1)!.toUpperCase();
    const { code, stdout, stderr } = await runVedette(['run', '-'], asInput({ ...definition, checkType }));
    expect(stderr).toBe('');
    expect(stdout).toMatch(new RegExp(`^PASS {2}${checkType} {2}`));
    expect(code).toBe(0);
  });

  test('a target that fails is exit code 1 with the reason', async () => {
    const { code, stdout } = await runVedette(['run', '-'], asInput(page('/outage')));
    expect(stdout).toMatch(/^FAIL {2}URL {2}Page {2}[\d.]+ ms\n/);
    expect(stdout).toContain('  status   503\n');
    expect(stdout).toMatch(/\n {2}\w+: .*503/);
    expect(code).toBe(1);
  });

  test('a degraded target is exit code 0', async () => {
    const slow = createServer((_, response) => void setTimeout(() => response.end(), 600));
    const port = await listenOn(slow);
    const check = {
      checkType: 'URL',
      name: 'Slow page',
      request: { url: `http://127.0.0.1:${port}/` },
      degradedResponseTime: 300,
    };
    const { code, stdout } = await runVedette(['run', '-'], asInput(check));
    slow.close();
    expect(stdout).toMatch(/^SLOW {2}URL {2}Slow page {2}6\d\d ms\n/);
    expect(code).toBe(0);
  });

  test('--json prints the whole result', async () => {
    const { stdout } = await runVedette(['run', '--json', '-'], asInput(page('/')));
    expect(JSON.parse(stdout)).toMatchObject({
      checkType: 'URL',
      name: 'Page',
      statusCode: 200,
      flags: { hasFailures: false, hasErrors: false },
      measured: { resolvedAddress: '127.0.0.1' },
      detail: { apiCheckResult: { response: { status: 200 } } },
    });
  });

  test('reads a file', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vedette-run-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'check.json');
    writeFileSync(file, JSON.stringify(page('/')));
    expect(await runVedette(['run', file])).toMatchObject({ code: 0 });
  });

  test('names every problem of a bad file', async () => {
    const bad = { checkType: 'TCP', name: '', request: { port: 70_000 }, colour: 'red' };
    const { code, stderr } = await runVedette(['run', '-'], asInput(bad));
    for (const field of ['name', 'request.hostname', 'request.port', 'colour'])
      expect(stderr).toContain(field);
    expect(code).toBe(2);
  });

  test.each([
    ['not JSON', '{', /it is not JSON/],
    ['a list', '[]', /must hold one check/],
    [
      'a type that is not one',
      '{"checkType":"SMTP"}',
      /checkType: must be one of API, BROWSER, DNS, ICMP, MULTI_STEP, TCP, URL/,
    ],
    ['no type', '{}', /checkType: must be one of/],
    [
      'a suite',
      '{"checkType":"PLAYWRIGHT"}',
      /a suite is a whole project: run `vedette pw-test` in its folder/,
    ],
  ])('refuses %s', async (_, input, message) => {
    const { code, stderr } = await runVedette(['run', '-'], { input });
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
  });

  test('refuses a file that is not there', async () => {
    expect(await runVedette(['run', '/nowhere.json'])).toEqual({
      code: 2,
      stdout: '',
      stderr: 'vedette: cannot read /nowhere.json: ENOENT\n',
    });
  });
});

describeUnless(lacksRuntime(DEFAULT_RUNTIME), 'vedette run with scripts', () => {
  test('shows what they print below the headline, and keeps secrets to itself', async () => {
    const check = {
      ...page('/'),
      checkType: 'API',
      localSetupScript: `console.log('as', process.env.NAME, process.env.PASSWORD)`,
      localTearDownScript: `console.warn('answer', response.statusCode)`,
      environmentVariables: [
        { key: 'NAME', value: 'me' },
        { key: 'PASSWORD', value: 'hunter-seven', secret: true },
      ],
    };
    const { code, stdout, stderr } = await runVedette(['run', '-'], asInput(check));
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^PASS {2}API {2}Page {2}[\d.]+ ms\n/);
    expect(stdout).toMatch(/\n {2}INFO {5}as me \S+\n {2}WARN {5}answer 200\n$/);
    expect(stdout).not.toMatch(/hunter-seven|connected to/);
    expect(code).toBe(0);
  });
});
