import type { Route } from '../route.ts';
import { accountRoutes } from './accounts.ts';
import { assetRoutes } from './assets.ts';
import { checkGroupRoutes } from './check-groups.ts';
import { checkResultRoutes } from './check-results.ts';
import { checkSessionRoutes } from './check-sessions.ts';
import { checkStatusRoutes } from './check-statuses.ts';
import { checkRoutes } from './checks.ts';
import { errorGroupRoutes } from './error-groups.ts';
import { privateLocationRoutes } from './private-locations.ts';
import { referenceRoutes } from './reference.ts';
import { runtimeRoutes } from './runtimes.ts';
import { snippetRoutes } from './snippets.ts';
import { storageRoutes } from './storage.ts';
import { testSessionRoutes } from './test-sessions.ts';
import { triggerRoutes } from './triggers.ts';
import { variableRoutes } from './variables.ts';

/** Every route of the interface, one module per resource. */
export const routes: readonly Route[] = [
  ...checkRoutes,
  ...checkGroupRoutes,
  ...checkStatusRoutes,
  ...checkSessionRoutes,
  ...checkResultRoutes,
  ...assetRoutes,
  ...testSessionRoutes,
  ...triggerRoutes,
  ...errorGroupRoutes,
  ...privateLocationRoutes,
  ...accountRoutes,
  ...variableRoutes,
  ...snippetRoutes,
  ...runtimeRoutes,
  ...referenceRoutes,
  ...storageRoutes,
];
