import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readAgentSettings, tryAgentSettings } from './settings.ts';

const needed = { API_KEY: 'pl_0123456789abcdef', AGENT_SERVICE_URL: 'https://service.example/' };

test('two settings are enough', () => {
  const { values, warnings } = readAgentSettings(needed);
  expect(warnings).toEqual([]);
  expect(values).toMatchObject({
    apiKey: needed.API_KEY,
    serviceUrl: 'https://service.example',
    logLevel: 'info',
    healthPort: 8081,
    healthHost: '0.0.0.0',
    drainTimeoutMs: 600_000,
    useOsResolver: false,
    sandbox: 'best-effort',
  });
});

test('every setting is read into its unit', () => {
  const { values } = readAgentSettings({
    ...needed,
    JOB_CONCURRENCY: '5',
    LOG_LEVEL: 'Log',
    LOG_FORMAT: 'PRETTY',
    AGENT_HEALTH_PORT: '0',
    AGENT_DRAIN_TIMEOUT: '2',
    USE_OS_DNS_RESOLVER: 'TRUE',
    https_proxy: 'http://proxy:3128',
    no_proxy: '*',
    SANDBOX: 'require',
  });
  expect(values).toMatchObject({
    jobConcurrency: 5,
    logLevel: 'info',
    logFormat: 'pretty',
    healthPort: 0,
    drainTimeoutMs: 2000,
    useOsResolver: true,
    httpsProxy: 'http://proxy:3128',
    noProxy: '*',
    sandbox: 'require',
  });
});

test('the key may lie in a file, and never appears in a message', () => {
  const dir = mkdtempSync(join(tmpdir(), 'settings-'));
  writeFileSync(join(dir, 'key'), 'pl_fromafile123\n');
  const { API_KEY: _, ...rest } = needed;
  expect(readAgentSettings({ ...rest, API_KEY_FILE: join(dir, 'key') }).values.apiKey).toBe(
    'pl_fromafile123',
  );
  rmSync(dir, { recursive: true });
  expect(() => readAgentSettings({ ...rest, API_KEY: 'sk_somethingelse' })).toThrow(
    /^(?!.*sk_something)API_KEY: .*pl_/,
  );
});

test.each([
  ['AGENT_SERVICE_URL', 'service.example'],
  ['AGENT_SERVICE_URL', 'ftp://service.example'],
  ['JOB_CONCURRENCY', '0'],
  ['JOB_CONCURRENCY', 'many'],
  ['LOG_LEVEL', 'loud'],
  ['AGENT_HEALTH_PORT', '70000'],
  ['AGENT_DRAIN_TIMEOUT', '-1'],
  ['USE_OS_DNS_RESOLVER', 'maybe'],
  ['SANDBOX', 'none'],
  ['BLOCKED_TARGETS', '10.0.0.0/8 10.0.0.0/33'],
  ['ALLOWED_TARGETS', 'http://shop.example'],
  ['SCRIPT_EGRESS', 'closed'],
])('%s=%s ends the start with one line that names it', (name, value) => {
  expect(() => readAgentSettings({ ...needed, [name]: value })).toThrow(
    new RegExp(`^${name}="${value}": .*allowed`),
  );
});

test('an unknown AGENT_ name warns', () => {
  const { warnings } = readAgentSettings({ ...needed, AGENT_HEALTHPORT: '1' });
  expect(warnings).toEqual(['AGENT_HEALTHPORT is not a setting; the nearest is AGENT_HEALTH_PORT']);
});

test('the value of a proxy that is wrong is not shown: it may hold a password', () => {
  expect(() => readAgentSettings({ ...needed, HTTPS_PROXY: 'me:secret@proxy:3128' })).toThrow(
    /^HTTPS_PROXY: an address that starts with http.* is allowed/,
  );
});

test('all problems at once, with the values that are good', () => {
  const { values, problems, warnings } = tryAgentSettings({
    API_KEY: 'x',
    no_proxy: 'a',
    AGENT_DATE_DIR: '/',
  });
  expect(problems.map((text) => text.split(':')[0])).toEqual(['API_KEY', 'AGENT_SERVICE_URL']);
  expect(values).toMatchObject({ noProxy: 'a', healthPort: 8081 });
  expect(warnings).toEqual(['AGENT_DATE_DIR is not a setting; the nearest is AGENT_DATA_DIR']);
});
