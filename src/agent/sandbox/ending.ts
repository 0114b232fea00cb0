import { setTimeout as sleep } from 'node:timers/promises';
import { reap } from './kernel.ts';
import type { Marker } from './marker.ts';
import { allPids, markerOfProcess, statusOf } from './processes.ts';

/** Rounds of stopping: each is a scan, and a round that finds nothing new is the last. */
const STOP_ROUNDS = 200;
/** A process that waits for a device or a remote disk takes its time to die. */
const KILL_WAIT_MS = 60_000;

interface Found {
  living: number[];
  /** Ended, but still in the list of processes for a moment: their parent is one of the job, or us. */
  leaving: boolean;
}

/** The processes that carry a mark. Those that ended and came to us are asked about on the way. */
function findMarked(marker: Marker, first: number | undefined): Found {
  const marked = new Map(
    allPids()
      .filter((pid) => markerOfProcess(pid) === marker)
      .map((pid) => [pid, statusOf(pid)]),
  );
  const ended = [...marked].filter(([, status]) => status?.zombie);
  const living = [...marked].filter(([, status]) => status?.zombie === false).map(([pid]) => pid);
  let leaving = false;
  for (const [pid, status] of ended) {
    // Node asks about the process that it started.
    const isOurs = status?.parent === process.pid && pid !== first;
    if (isOurs) reap(pid);
    if (isOurs || marked.has(status?.parent ?? 0)) leaving = true;
  }
  return { living, leaving };
}

/**
 * Ends everything that carries the mark. A process that is stopped cannot start another and keeps its
 * place, so a bomb stops growing; only then are they killed, until two scans in a row find none.
 *
 * @param first the process of it that Node started
 * @throws Error when something cannot be killed
 */
export async function endMarked(marker: Marker, first?: number): Promise<void> {
  stopMarked(marker, first);
  const giveUpAt = performance.now() + KILL_WAIT_MS;
  for (let empty = 0, waitMs = 1; empty < 2; waitMs = Math.min(waitMs * 2, 50)) {
    const { living, leaving } = findMarked(marker, first);
    empty = living.length === 0 && !leaving ? empty + 1 : 0;
    for (const pid of living) signal(pid, 'SIGKILL');
    if (empty < 2) await sleep(waitMs);
    if (performance.now() > giveUpAt) {
      throw new Error(`processes ${living.slice(0, 10).join(', ')} of a job cannot be killed`);
    }
  }
}

function stopMarked(marker: Marker, first: number | undefined): void {
  const stopped = new Set<number>();
  for (let round = 0; round < STOP_ROUNDS; round++) {
    const found = findMarked(marker, first).living.filter((pid) => !stopped.has(pid));
    if (found.length === 0) return;
    for (const pid of found) {
      signal(pid, 'SIGSTOP');
      stopped.add(pid);
    }
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // Gone in the meantime; the next scan says so.
  }
}
