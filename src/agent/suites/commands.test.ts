import { expect, test } from 'vitest';
import { SuiteJob } from '../../checks/index.ts';
import { installCommand, testCommand } from './commands.ts';

const sha256 = 'a'.repeat(64);
const suite = (more: Record<string, unknown> = {}): SuiteJob =>
  SuiteJob.parse({
    codeBundlePath: `bundles/${sha256}.tar.gz`,
    bundle: { sha256, size: 1 },
    frequency: 10,
    ...more,
  });
const npm = { name: 'npm', version: null, isBerry: false, pnp: false } as const;
const berry = { name: 'yarn', version: null, isBerry: true, pnp: true } as const;

test('the test command gets the config, the projects, the tags and the part', () => {
  const more = {
    pwProjects: ['chromium', "it's"],
    pwTags: ['@a', 'b.c'],
    shards: 2,
    shard: { index: 1, total: 2 },
  };
  expect(testCommand(suite(more), npm, 'e2e/x.config.ts')).toBe(
    `npx playwright test --config e2e/x.config.ts --project chromium --project 'it'\\''s' --grep '@a|b\\.c' --shard 1/2`,
  );
});

test.each([
  ['npm run e2e', 'npm run e2e -- --config c.ts'],
  ['npm test -- --workers 2', 'npm test -- --workers 2 --config c.ts'],
  ['pnpm e2e', 'pnpm e2e --config c.ts'],
])('%s hands on what is added', (said, command) => {
  expect(testCommand(suite({ testCommand: said }), npm, 'c.ts')).toBe(command);
});

test("Plug'n'Play has no npx", () => {
  expect(testCommand(suite(), berry, 'c.ts')).toBe('yarn playwright test --config c.ts');
});

test('lifecycle scripts are left out on request', () => {
  expect(installCommand(npm, false)).toMatch(/^npm ci .*--ignore-scripts$/);
  expect(installCommand(berry, false)).toBe('yarn install --immutable --mode=skip-build');
  expect(installCommand({ ...npm, name: 'pnpm' }, true)).not.toContain('ignore-scripts');
});
