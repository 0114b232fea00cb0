import { AgentFault } from './check-type.ts';
import type { TargetPolicy } from './target-policy/index.ts';

/** Code of a fault: the owner of this agent does not let it go there. */
export const TARGET_BLOCKED = 'TARGET_BLOCKED';

/**
 * Those of a name's addresses that may be reached. Which they are is decided here, right before they are
 * connected to: a name that is looked up again may say something else. A null address stands for one that
 * someone else finds.
 *
 * @throws AgentFault TARGET_BLOCKED when there are some, but none that may
 */
export function permitted<T extends { address: string | null }>(
  targets: TargetPolicy,
  host: string,
  port: number | null,
  addresses: readonly T[],
): T[] {
  const open: T[] = [];
  let why: string | undefined;
  for (const each of addresses) {
    const barrier = targets.check({ host, address: each.address, port });
    if (barrier === null) open.push(each);
    else why ??= barrier;
  }
  if (open.length === 0 && why !== undefined) throw new AgentFault(TARGET_BLOCKED, why);
  return open;
}
