import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { statusOf } from '../support/processes.ts';
import { waitUntil } from '../support/programs.ts';
import { freePort } from '../support/targets/ports.ts';
import { runVedette, vedette, type Program } from './program.ts';

const folder = mkdtempSync(join(tmpdir(), 'vedette-up-'));
const dataDir = join(folder, 'data');
const [port, healthPort] = [await freePort(), await freePort()];
const ports = ['--port', String(port), '--health-port', String(healthPort)];
const args = ['up', '--no-runtime', '--data-dir', dataDir, ...ports];
const health = `http://127.0.0.1:${healthPort}`;

const started: Program[] = [];
afterAll(() => {
  for (const { child } of started) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

async function startUp(): Promise<Program> {
  const program = vedette(args);
  started.push(program);
  await until(program, async () => (await statusOf(`${health}/-/readiness`)) === 200);
  return program;
}

/** @throws Error with what the program printed */
async function until(program: Program, condition: () => boolean | Promise<boolean>): Promise<void> {
  try {
    await waitUntil(condition, 30_000);
  } catch (error) {
    throw new Error(`printed so far:\n${program.stdout()}\n${program.stderr()}`, { cause: error });
  }
}

const waitForLine = (program: Program, line: RegExp): Promise<void> =>
  until(program, () => line.test(program.stdout()));

interface Credentials {
  serviceUrl: string;
  apiKey: string;
  accountId: string;
  privateLocation: { slugName: string; key: string };
}
const credentials = (): Credentials =>
  JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8')) as Credentials;

async function checks(): Promise<{ id: string; name: string }[]> {
  const { serviceUrl, apiKey, accountId } = credentials();
  const response = await fetch(`${serviceUrl}/v1/checks?limit=100`, {
    headers: { authorization: `Bearer ${apiKey}`, 'x-service-account': accountId },
  });
  expect(response.status).toBe(200);
  return (await response.json()) as { id: string; name: string }[];
}

// One story, in order: each test continues where the one before ended.
describe('vedette up', () => {
  let program: Program;
  let first: Credentials;
  let examples: { id: string }[];

  test('shows results of all five types without further ado', async () => {
    program = await startUp();
    for (const type of ['URL', 'API', 'TCP', 'DNS', 'ICMP']) {
      await waitForLine(program, new RegExp(`^\\d\\d:\\d\\d:\\d\\d  PASS   ${type} `, 'm'));
    }
    await waitForLine(program, /FAIL {3}URL +Demo outage \(fails on purpose\)/);
    expect(program.stderr()).toBe('');
  });

  test('prints and keeps what one needs to use it', async () => {
    first = credentials();
    expect(program.stdout()).toContain(first.serviceUrl);
    expect(program.stdout()).toContain(first.apiKey);
    expect(statSync(join(dataDir, 'credentials.json')).mode & 0o777).toBe(0o600);
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
    examples = await checks();
    expect(examples).toHaveLength(8);
  });

  test('refuses a second start with a taken port, and one on the same folder', async () => {
    const taken = await runVedette(args);
    expect(taken).toMatchObject({ code: 2, stdout: '' });
    expect(taken.stderr).toBe(
      `vedette: port ${port} is taken; stop the program that uses it, or choose another port with --port\n`,
    );
    const other = ['--port', String(await freePort()), '--health-port', String(await freePort())];
    const same = await runVedette(['up', '--no-runtime', '--data-dir', dataDir, ...other]);
    expect(same.stderr).toMatch(/^vedette: .*in use by another process.*\n$/);
    expect(same.code).toBe(78);
    expect(credentials()).toEqual(first);
  });

  test('ends whole on one Ctrl-C, however often it is delivered', async () => {
    program.child.kill('SIGINT');
    program.child.kill('SIGINT');
    expect(await program.ended).toBe(0);
    expect(await statusOf(`${health}/-/liveness`)).toBe(0);
    expect(program.stderr()).toBe('');
  });

  test('continues with the same data', async () => {
    program = await startUp();
    await waitForLine(program, /PASS {3}URL +Demo page/);
    expect(program.stdout()).not.toContain(first.apiKey);
    expect(credentials()).toEqual(first);
    expect((await checks()).map(({ id }) => id)).toEqual(examples.map(({ id }) => id));
  });

  test('leaves no agent behind when it is killed', async () => {
    program.child.kill('SIGKILL');
    expect(await program.ended).toBe('SIGKILL');
    await until(program, async () => (await statusOf(`${health}/-/liveness`)) === 0);
  });

  test('starts again after that, and ends on SIGTERM', async () => {
    program = await startUp();
    program.child.kill('SIGTERM');
    expect(await program.ended).toBe(0);
  });
});
