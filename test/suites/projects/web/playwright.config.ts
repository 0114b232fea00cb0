import { defineConfig } from '@playwright/test';

const port = Number(process.env.PORT ?? 4311);

export default defineConfig({
  testDir: './tests',
  outputDir: './out/results',
  snapshotPathTemplate: '{testDir}/pictures/{arg}{ext}',
  globalSetup: './global-setup.ts',
  webServer: { command: 'npm start', url: `http://127.0.0.1:${port}/`, timeout: 60_000 },
  use: { baseURL: `http://127.0.0.1:${port}`, storageState: 'out/login.json' },
  expect: { toHaveScreenshot: { maxDiffPixelRatio: 0.05 } },
});
