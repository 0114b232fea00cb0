import type { Route } from '../route.ts';
import { accountRoutes } from './accounts.ts';
import { assetRoutes } from './assets.ts';
import { checkResultRoutes } from './check-results.ts';
import { checkSessionRoutes } from './check-sessions.ts';
import { checkStatusRoutes } from './check-statuses.ts';
import { checkRoutes } from './checks.ts';
import { privateLocationRoutes } from './private-locations.ts';
import { referenceRoutes } from './reference.ts';

/** Every route of the interface, one module per resource. */
export const routes: readonly Route[] = [
  ...checkRoutes,
  ...checkStatusRoutes,
  ...checkSessionRoutes,
  ...checkResultRoutes,
  ...assetRoutes,
  ...privateLocationRoutes,
  ...accountRoutes,
  ...referenceRoutes,
];
