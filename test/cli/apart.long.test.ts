import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { statusOf } from '../support/processes.ts';
import { waitUntil } from '../support/programs.ts';
import { freePort } from '../support/targets/ports.ts';
import { vedette, type Program } from './program.ts';

const folder = mkdtempSync(join(tmpdir(), 'vedette-apart-'));
const [port, healthPort] = [await freePort(), await freePort()];
const serviceUrl = `http://127.0.0.1:${port}`;

const started: Program[] = [];
afterAll(() => {
  for (const { child } of started) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

function start(command: string, env: Record<string, string>): Program {
  const program = vedette([command], { cwd: folder, env });
  started.push(program);
  return program;
}

const startAgent = (key: string): Program =>
  start('agent', {
    API_KEY: key,
    AGENT_SERVICE_URL: serviceUrl,
    AGENT_DATA_DIR: join(folder, 'agent'),
    AGENT_HEALTH_PORT: String(healthPort),
  });

const ready = async (): Promise<boolean> =>
  (await statusOf(`http://127.0.0.1:${healthPort}/-/readiness`)) === 200;

// One story, in order: what README.md says about agent and service apart.
describe('agent and service apart', () => {
  let service: Program;
  let key = '';

  test('the service prints its account and API key once, on standard error', async () => {
    service = start('service', { SERVICE_PORT: String(port), SERVICE_HOST: '127.0.0.1' });
    await waitUntil(async () => (await statusOf(`${serviceUrl}/-/readiness`)) === 200, 30_000);
    const line = /^vedette: first start; account \S{36}, API key (vk_\w+) \(shown this once\)\n$/;
    expect(service.stderr()).toMatch(line);
    key = line.exec(service.stderr())![1]!;
    expect(service.stdout()).not.toContain(key);
  });

  test('an agent with a wrong key ends with code 4 and one line', async () => {
    const agent = startAgent('pl_0123456789abcdef0123456789abcdef');
    expect(await agent.ended).toBe(4);
    expect(agent.stderr()).toMatch(/^vedette: the service refuses API_KEY \.\.\.cdef: .*\n$/);
  });

  test('an agent with the key of a new location becomes ready, and ends on SIGTERM', async () => {
    const response = await fetch(`${serviceUrl}/v1/private-locations`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'Office', slugName: 'office' }),
    });
    expect(response.status).toBe(201);
    const { keys } = (await response.json()) as { keys: { rawKey: string }[] };
    const agent = startAgent(keys[0]!.rawKey);
    await waitUntil(ready, 20_000, 'readiness');
    agent.child.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
    expect(agent.stdout()).not.toContain(keys[0]!.rawKey);
  });

  test('the service ends on SIGTERM', async () => {
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(0);
  });

  test('a key that was configured is not printed', async () => {
    const BOOTSTRAP_API_KEY = 'chosen_by_the_operator';
    const other = start('service', {
      SERVICE_DATA_DIR: join(folder, 'other'),
      SERVICE_PORT: '0',
      SERVICE_HOST: '127.0.0.1',
      BOOTSTRAP_API_KEY,
    });
    await waitUntil(async () => other.stderr().includes('first start'), 30_000);
    other.child.kill('SIGTERM');
    expect(await other.ended).toBe(0);
    expect(other.stdout() + other.stderr()).not.toContain(BOOTSTRAP_API_KEY);
  });
});
