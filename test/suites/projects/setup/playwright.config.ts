import { defineConfig } from '@playwright/test';
import { state } from './tests/shop.ts';

export default defineConfig({
  testDir: './tests',
  fullyParallel: true,
  retries: 1,
  workers: 2,
  projects: [
    { name: 'login', testMatch: 'login.setup.ts', teardown: 'goodbye' },
    { name: 'goodbye', testMatch: 'goodbye.setup.ts' },
    { name: 'signed in', dependencies: ['login'], use: { storageState: state } },
  ],
});
