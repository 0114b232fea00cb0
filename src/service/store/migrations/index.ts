import type { Migration } from 'kysely';
import * as start from './0001-start.ts';
import * as userCode from './0002-user-code.ts';
import * as groups from './0003-groups.ts';
import * as locationLoad from './0004-location-load.ts';
import * as suites from './0010-suites.ts';
import * as triggers from './0011-triggers.ts';

/**
 * In the order in which they run. Forward only: a released one is never edited.
 *
 * Replicas are replaced one by one, so the release before goes on running on the tables of this one, is
 * started on them again when it crashes meanwhile, and comes back when an upgrade is taken back.
 * Therefore a step adds only: tables, indexes, and columns that may be null or have a default; and it
 * holds no lock for long (a large table gets its index in a step of its own). What takes something
 * away (drop, rename, another type, not null) waits for the release after the one that stopped using
 * it, and its name ends in `-contract`: a build that does not know such a step refuses to start.
 */
export const migrations: Record<string, Migration> = {
  '0001-start': start,
  '0002-user-code': userCode,
  '0003-groups': groups,
  '0004-location-load': locationLoad,
  '0010-suites': suites,
  '0011-triggers': triggers,
};
