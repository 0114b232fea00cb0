import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: 'specs',
  fullyParallel: true,
  workers: 2,
  retries: 0,
  reporter: [['line']],
  projects: [
    { name: 'fast', grep: /@fast/ },
    { name: 'rest', grepInvert: /@fast/ },
  ],
});
