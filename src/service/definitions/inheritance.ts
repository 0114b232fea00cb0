import type { Check } from '../../checks/index.ts';
import type { Group } from './group-fields.ts';

type Placed = Pick<Check, 'locations' | 'privateLocations'>;

/** Private locations first: they have agents, while a region without one holds a round-robin check up. */
const listOf = ({ locations, privateLocations }: Placed): string[] => [
  ...new Set([...(privateLocations ?? []), ...(locations ?? [])]),
];

/** Where a check runs: at the locations of its group when that has any. */
export function placesOf(check: Placed, group: Group | undefined): string[] {
  const shared = group === undefined ? [] : listOf(group);
  return shared.length > 0 ? shared : listOf(check);
}

/** Settings of the group that take the place of its checks' own. Suites keep the retries of their projects. */
export function inherited(
  type: string,
  group: Group | undefined,
): Partial<Pick<Check, 'runParallel' | 'retryStrategy'>> {
  if (group === undefined) return {};
  const { runParallel, retryStrategy } = group;
  return {
    ...(runParallel === null ? {} : { runParallel }),
    ...(retryStrategy === 'FALLBACK' || type === 'PLAYWRIGHT' ? {} : { retryStrategy }),
  };
}

/** The check as it acts in its group, by the names of its own fields. */
export function withGroup(type: string, check: Check, group: Group | undefined): Check {
  if (group === undefined) return check;
  const { locations, privateLocations } = listOf(group).length > 0 ? group : check;
  const { useGlobalAlertSettings, alertSettings } = group;
  return {
    ...check,
    ...inherited(type, group),
    ...(useGlobalAlertSettings === null ? {} : { useGlobalAlertSettings, alertSettings }),
    locations,
    privateLocations,
    activated: check.activated && group.activated,
    muted: check.muted || group.muted,
    runtimeId: check.runtimeId ?? group.runtimeId,
  };
}
