import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts';
import { installsByOwnCode } from './own-code.ts';

const manifest = (fields: object): string => JSON.stringify({ name: 'x', ...fields });

test.each<[string, Record<string, string>, string | null, boolean]>([
  ['dependencies only', { 'package.json': manifest({ devDependencies: { a: '^1.0.0' } }) }, null, false],
  ['a script for tests', { 'package.json': manifest({ scripts: { test: 'node x.js' } }) }, null, false],
  ['hooks of git', { 'package.json': manifest({ scripts: { prepare: 'husky' } }) }, null, false],
  [
    'browsers',
    { 'package.json': manifest({ scripts: { postinstall: 'npx playwright install --with-deps chromium' } }) },
    null,
    false,
  ],
  [
    'a script of its own',
    { 'package.json': manifest({ scripts: { postinstall: 'node make.js' } }) },
    null,
    true,
  ],
  [
    'a script in a workspace',
    { 'packages/a/package.json': manifest({ scripts: { prepare: 'tsc' } }) },
    null,
    true,
  ],
  ['a folder as package', { 'package.json': manifest({ dependencies: { a: 'file:./a' } }) }, null, true],
  [
    'a package manager of its own',
    { '.yarnrc.yml': 'nodeLinker: pnpm\nyarnPath: .yarn/yarn.cjs\n' },
    null,
    true,
  ],
  ['settings of one', { '.yarnrc.yml': 'nodeLinker: node-modules\n' }, null, false],
  ['options of Node', { '.npmrc': 'audit=false\nnode-options=--require ./x.js\n' }, null, true],
  ['a plain command', {}, 'npm ci --omit=optional', false],
  ['a command that does more', {}, 'npm ci && node make.js', true],
])('%s', (_what, files, command, expected) => {
  using folder = temporaryFolder();
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder.path, file)), { recursive: true });
    writeFileSync(join(folder.path, file), text);
  }
  expect(installsByOwnCode(folder.path, Object.keys(files), command)).toBe(expected);
});
