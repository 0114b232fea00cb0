import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ExitCode } from '../kit/errors.ts';
import { readEnvironment } from './environment.ts';

function envFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-env-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, '.env');
}

test('the environment wins over .env, an empty variable does not', () => {
  const file = envFile();
  writeFileSync(file, 'LOG_LEVEL=debug\nAPI_KEY="pl_1"\n');
  const env = readEnvironment({ LOG_LEVEL: 'warn', API_KEY: '' }, file);
  expect(env).toEqual({ LOG_LEVEL: 'warn', API_KEY: 'pl_1' });
});

test('no .env is fine', () => {
  expect(readEnvironment({ A: '1' }, '/nonexistent/.env')).toEqual({ A: '1' });
});

test('a .env that cannot be read is bad configuration', () => {
  const folder = envFile();
  mkdirSync(folder);
  expect(() => readEnvironment({}, folder)).toThrow(expect.objectContaining({ exitCode: ExitCode.usage }));
});
