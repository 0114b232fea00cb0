import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { migrations } from './index.ts';

const TAKES_AWAY =
  /\bdrop\b(?! index)|\brename\b|\bset not null\b|\balter column\b[^`]*\btype\b|\btruncate\b/i;

const files = readdirSync(import.meta.dirname).filter((name) => /^\d{4}-.*\.ts$/.test(name));

describe('steps of the database', () => {
  test('are all listed, in the order of their names', () => {
    expect(Object.keys(migrations)).toEqual(files.map((name) => name.replace(/\.ts$/, '')).sort());
  });

  test.each(files.filter((name) => !name.endsWith('-contract.ts')))(
    '%s takes nothing away from the release before',
    (name) => {
      const text = readFileSync(join(import.meta.dirname, name), 'utf8');
      const statements = [...text.matchAll(/sql`([^`]*)`/g)].map(([, statement]) => statement);
      expect(statements).not.toEqual([]);
      expect(statements.filter((statement) => TAKES_AWAY.test(statement!))).toEqual([]);
    },
  );
});
