import type { Migration } from 'kysely';
import * as start from './0001-start.ts';
import * as userCode from './0002-user-code.ts';
import * as groups from './0003-groups.ts';
import * as locationLoad from './0004-location-load.ts';
import * as suites from './0010-suites.ts';

/** In the order in which they run. Forward only: a released one is never edited. */
export const migrations: Record<string, Migration> = {
  '0001-start': start,
  '0002-user-code': userCode,
  '0003-groups': groups,
  '0004-location-load': locationLoad,
  '0010-suites': suites,
};
