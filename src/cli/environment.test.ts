import { mkdtempSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ExitCode } from '../kit/errors.ts';
import { readEnvironment } from './environment.ts';

const file = (text: string): string => {
  const path = join(mkdtempSync(join(tmpdir(), 'vedette-env-')), '.env');
  writeFileSync(path, text);
  return path;
};

test('the environment wins over .env, an empty variable does not', () => {
  const env = readEnvironment({ LOG_LEVEL: 'warn', API_KEY: '' }, file('LOG_LEVEL=debug\nAPI_KEY="pl_1"\n'));
  expect(env).toEqual({ LOG_LEVEL: 'warn', API_KEY: 'pl_1' });
});

test('no .env is fine', () => {
  expect(readEnvironment({ A: '1' }, '/nonexistent/.env')).toEqual({ A: '1' });
});

test('a .env that cannot be read is bad configuration', () => {
  const folder = join(mkdtempSync(join(tmpdir(), 'vedette-env-')), '.env');
  mkdirSync(folder);
  expect(() => readEnvironment({}, folder)).toThrow(expect.objectContaining({ exitCode: ExitCode.usage }));
});
