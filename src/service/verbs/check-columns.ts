import { intervalMs, type Check } from '../../checks/index.ts';
import { placesOf, type Group } from '../definitions/index.ts';
import { firstTick } from '../scheduler/index.ts';
import type { CheckRow } from '../store/index.ts';

/** The columns that follow from a check's definition and its group. */
export function columnsOf(definition: Check, group: Group | undefined) {
  return {
    name: definition.name,
    activated: isActive(definition, group),
    tags: definition.tags,
    run_locations: placesOf(definition, group),
    group_id: definition.groupId,
    interval_ms: intervalMs(definition),
    definition: JSON.stringify(definition),
  };
}

export const isActive = (definition: Check, group: Group | undefined): boolean =>
  definition.activated && (group?.activated ?? true);

/** The running rhythm is kept unless the interval changed or the check was asleep. */
export function nextTick(
  old: Pick<CheckRow, 'id' | 'next_at' | 'interval_ms'>,
  definition: Check,
  group: Group | undefined,
): Date | null {
  if (!isActive(definition, group)) return null;
  const interval = intervalMs(definition);
  if (old.next_at !== null && old.interval_ms === interval) return old.next_at;
  return firstTick(old.id, interval, new Date());
}
