import { setTimeout as sleep } from 'node:timers/promises';

/** Work that nobody awaits gets this long. A connection that a script leaves open costs it on every run. */
const PATIENCE_MS = 3_000;
const LOOK_MS = 5;

// Node opens them when somebody first writes to them, and they would count as begun by the script.
void [process.stdout, process.stderr];

/**
 * Notes what keeps this process alive now. The returned function waits until nothing else does: timers,
 * requests, connections that were begun meanwhile. False when that takes too long.
 */
export function untilIdle(): () => Promise<boolean> {
  const before = resources();
  return async () => {
    // What was begun a moment ago shows when the loop has turned.
    await new Promise((resolve) => setImmediate(resolve));
    for (let waited = 0; isBusy(before); waited += LOOK_MS) {
      if (waited >= PATIENCE_MS) return false;
      await sleep(LOOK_MS, undefined, { ref: false });
    }
    return true;
  };
}

/** Ours is the line to the agent, which is there all the time. */
function isBusy(before: ReadonlyMap<string, number>): boolean {
  return Array.from(resources()).some(([kind, count]) => count > (before.get(kind) ?? 0));
}

/** What keeps this process alive, counted by kind. */
export function resources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}
