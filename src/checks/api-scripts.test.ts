import { expect, test } from 'vitest';
import { apiCodeOf } from './api-scripts.ts';

const names = (scripts: { title: string; entry: string }[]): string[] =>
  scripts.map(({ title, entry }) => `${title}: ${entry}`);

test('setup goes from the group inwards, teardown back out', () => {
  const { setup, teardown, files } = apiCodeOf({
    localSetupScript: 'own',
    localTearDownScript: 'own end',
    groupScripts: { setup: 'group', tearDown: 'group end' },
    snippetScripts: { setup: 'snippet', tearDown: 'snippet end' },
  });
  expect(names(setup)).toEqual([
    'group setup script: group-setup.js',
    'setup snippet: setup-snippet.js',
    'setup script: setup.js',
  ]);
  expect(names(teardown)).toEqual([
    'teardown snippet: teardown-snippet.js',
    'teardown script: teardown.js',
    'group teardown script: group-teardown.js',
  ]);
  expect(Object.fromEntries(files.map(({ path, content }) => [path, content]))).toEqual({
    'group-setup.js': 'group',
    'setup-snippet.js': 'snippet',
    'setup.js': 'own',
    'teardown-snippet.js': 'snippet end',
    'teardown.js': 'own end',
    'group-teardown.js': 'group end',
  });
});

test('the names of the check stay as they are; others give way', () => {
  const { setup, files } = apiCodeOf({
    localSetupScript: 'own',
    setupScriptPath: 'group-setup.js',
    setupScriptDependencies: [{ path: 'group-setup-2.js', content: 'x' }],
    groupScripts: { setup: 'group', tearDown: null },
  });
  expect(names(setup)).toEqual(['group setup script: group-setup-3.js', 'setup script: group-setup.js']);
  expect(files).toHaveLength(3);
});

test('a script may be one of the dependencies, shared by both phases', () => {
  const shared = [
    { path: 'hooks.ts', content: 'both' },
    { path: 'setup.js', content: 'not meant' },
  ];
  const code = apiCodeOf({
    setupScriptPath: 'hooks.ts',
    setupScriptDependencies: shared,
    tearDownScriptPath: 'hooks.ts',
    tearDownScriptDependencies: shared,
  });
  expect(names(code.setup)).toEqual(['setup script: hooks.ts']);
  expect(names(code.teardown)).toEqual(['teardown script: hooks.ts']);
  expect(code.files.map(({ path }) => path)).toEqual(['hooks.ts', 'setup.js']);
});

test('empty scripts are none, and a file called setup.js alone is none', () => {
  const code = apiCodeOf({
    localSetupScript: '\n ',
    localTearDownScript: null,
    groupScripts: { setup: '', tearDown: null },
    setupScriptDependencies: [{ path: 'setup.js', content: 'x' }],
  });
  expect(code).toMatchObject({ setup: [], teardown: [] });
});
