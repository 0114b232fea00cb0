import { installNetwork } from '../network.ts';
import { UserCode } from '../user-code/index.ts';
import { FORK_EVENT, ORDERS, type ForkOrders, type FromFork } from './fork-orders.ts';
import { PlaywrightHooks } from './hooks.ts';
import { Library, WITHOUT_MODULES } from './library.ts';
import { Observer } from './observer.ts';

/** In a worker, before Playwright and any file of the user are loaded. */
function obeyForkOrders(): void {
  const text = process.env[ORDERS];
  if (text === undefined) return;
  const { warmUp, policy, env, hasModules } = JSON.parse(text) as ForkOrders;
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
  observer.install(new PlaywrightHooks(library), () => policy);
  library.onSoftError((message) => say({ t: 'soft', message }));
  code.variables.install();
  code.variables.replaceAll(env);
  if (!hasModules) code.variables.hide(...WITHOUT_MODULES);
  code.printer.install();
}

obeyForkOrders();
