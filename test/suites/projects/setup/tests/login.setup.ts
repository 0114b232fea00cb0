import { test as setup } from '@playwright/test';
import { address, state } from './shop.ts';

setup('logs in', async ({ context }) => {
  await context.addCookies([{ name: 'session', value: 'ada', url: address }]);
  await context.storageState({ path: state });
});
