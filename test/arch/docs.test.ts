import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { agentSettings } from '../../src/agent/settings.ts';
import { checkSchema, checkTypes, findCheckType } from '../../src/checks/index.ts';
import { serviceSettings } from '../../src/service/settings.ts';
import { GENERATED, regenerate } from '../support/gen.ts';

const root = join(import.meta.dirname, '../..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');

test.each(Object.keys(GENERATED))('%s carries the tables that the code gives', (file) => {
  const present = readFileSync(join(root, file), 'utf8');
  // The whole diff would bury what to do.
  expect(present === regenerate(present, file), `'npm run gen' updates ${file}`).toBe(true);
});

describe('README.md', () => {
  test.each(Object.values({ ...agentSettings, ...serviceSettings }).map(({ name }) => name))(
    'documents %s',
    (name) => {
      expect(readme).toContain(`| \`${name}\` |`);
    },
  );

  test('names only files that exist', () => {
    const named = [...readme.matchAll(/`((?:src|test|bench|examples)\/[\w./-]+)`/g)].map(([, path]) => path!);
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((path) => globSync(path.replace(/\/$/, ''), { cwd: root }).length === 0)).toEqual([]);
  });

  test('names only scripts that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object };
    const named = [...readme.matchAll(/npm (?:run )?(start|test|check|bench|gen|build|format|vedette)\b/g)];
    for (const [, script] of named) expect(scripts).toHaveProperty(script!);
  });
});

describe('examples/', () => {
  const files = globSync('examples/*.json', { cwd: root });

  test('has one of each type', () => {
    expect(files.sort()).toEqual(
      checkTypes()
        .map(({ route }) => `examples/${route}.json`)
        .sort(),
    );
  });

  test.each(files)('%s is a check', (file) => {
    const { checkType, ...definition } = JSON.parse(readFileSync(join(root, file), 'utf8')) as {
      checkType: string;
    };
    checkSchema(findCheckType(checkType)!).parse({ ...definition, privateLocations: ['here'] });
  });
});
