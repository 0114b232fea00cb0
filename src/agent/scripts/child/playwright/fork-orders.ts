import { join } from 'node:path';
import type { FromScript, WarmUp } from '../../protocol.ts';
import type { BrowserPolicy } from './browsers.ts';
import { CACHE } from './configuration.ts';
import type { Observed } from './observer.ts';

/** What a worker that Playwright forks is given. */
export interface ForkOrders {
  warmUp: WarmUp;
  policy: BrowserPolicy;
  env: Record<string, string>;
  /** Some file of the user is an ES module. */
  hasModules: boolean;
}

/** What it says besides what Playwright's workers say. */
export type FromFork = FromScript | { t: 'soft'; message: string } | { t: 'observed'; observed: Observed };

/** Name of the event that carries it. */
export const FORK_EVENT = 'vedette';
/** Name of the variable that carries the orders. */
export const ORDERS = 'VEDETTE_FORK_ORDERS';

/** The environment that Node and Playwright themselves read in a worker, and its orders. */
export function forkEnvironment(orders: ForkOrders): Record<string, string> {
  const { folder, runtime } = orders.warmUp;
  return {
    HOME: folder,
    TMPDIR: folder,
    PATH: '/usr/bin:/bin',
    LANG: 'C.UTF-8',
    TZ: 'UTC',
    NODE_USE_SYSTEM_CA: '1',
    PLAYWRIGHT_BROWSERS_PATH: runtime.browsers,
    PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS: '1',
    PWTEST_CACHE_DIR: join(folder, CACHE),
    [ORDERS]: JSON.stringify(orders),
  };
}

const HERE = import.meta.url;
/** Flags of Node that load our part before everything else. */
export const FORK_FLAGS = [
  '--import',
  new URL(HERE.endsWith('.ts') ? './forked.ts' : './forked.js', HERE).href,
];
