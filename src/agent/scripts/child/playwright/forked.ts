import { join } from 'node:path';
import type { FromScript, WarmUp } from '../../protocol.ts';
import { installNetwork } from '../network.ts';
import { UserCode } from '../user-code/index.ts';
import type { BrowserPolicy } from './browsers.ts';
import { CACHE } from './configuration.ts';
import { Library } from './library.ts';
import { Observer, type Observed } from './observer.ts';

/** What a worker that Playwright forks is given. */
export interface ForkOrders {
  warmUp: WarmUp;
  policy: BrowserPolicy;
  env: Record<string, string>;
}

/** What it says besides what Playwright's workers say. */
export type FromFork = FromScript | { t: 'soft'; message: string } | { t: 'observed'; observed: Observed };

/** Name of the event that carries it. */
export const FORK_EVENT = 'vedette';
const ORDERS = 'VEDETTE_FORK_ORDERS';

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

/** To be called by the configuration, which a worker loads before any file of the user. */
export function obeyForkOrders(): void {
  const text = process.env[ORDERS];
  if (text === undefined) return;
  const { warmUp, policy, env } = JSON.parse(text) as ForkOrders;
  const say = (params: FromFork): void => {
    process.send?.({ method: '__dispatch__', params: { method: FORK_EVENT, params } });
  };
  installNetwork(warmUp.proxy);
  const library = new Library(warmUp.runtime.modules);
  const code = new UserCode(warmUp, say);
  let isTold = true;
  const observer = new Observer(() => {
    if (isTold) setImmediate(tell);
    isTold = false;
  });
  const tell = (): void => {
    isTold = true;
    say({ t: 'observed', observed: observer.observed });
  };
  observer.install(library, () => policy);
  library.onSoftError((message) => say({ t: 'soft', message }));
  code.variables.install();
  code.variables.replaceAll(env);
  code.printer.install();
}
