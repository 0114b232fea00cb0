import { chromium, type FullConfig } from '@playwright/test';
import { mkdirSync } from 'node:fs';

export default async function logIn(config: FullConfig): Promise<void> {
  mkdirSync('out', { recursive: true });
  const browser = await chromium.launch();
  const page = await browser.newPage({ baseURL: config.projects[0]!.use.baseURL });
  await page.goto('/login');
  await page.context().storageState({ path: 'out/login.json' });
  await browser.close();
}
