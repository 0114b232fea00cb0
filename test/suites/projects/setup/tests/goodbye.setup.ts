import { rmSync } from 'node:fs';
import { expect, test as teardown } from '@playwright/test';
import { state } from './shop.ts';

teardown('logs out', () => {
  rmSync(state);
  expect.soft(1 + 1).toBe(2);
});
