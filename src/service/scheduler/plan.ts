import { createHash } from 'node:crypto';

/**
 * When a check runs and where: pure functions of the check and of now. Each check has a fixed phase
 * within its interval, taken from its id, so that the starts of many checks are spread evenly, stay
 * where they are over restarts, and are the same for every scheduler.
 *
 * grid      |    t0        t1        t2        t3            (t ≡ phase mod interval)
 * punctual       ●         ●         ●
 * stopped        ●  ~~~~~~~~~~~~~~~~~~~~~~  c    t3          one catch-up c, missed ticks are gone
 */
export interface Planned {
  id: string;
  intervalMs: number;
  /** The due tick. */
  nextAt: Date;
  /** Ticks that started something so far. */
  ticks: number;
  locations: readonly string[];
  runParallel: boolean;
  /** A run of the last tick is not finished. */
  busy: boolean;
}

export interface Tick {
  /** Undefined: nothing starts at this tick. */
  start?: { locations: string[]; lane: 1 | 2; scheduledAt: Date };
  nextAt: Date;
}

/** A tick that is later than this was missed, not delayed, ms. */
const PUNCTUAL_MS = 10_000;
/** Catch-up runs are spread over this long after a stop, ms. */
const CATCH_UP_WINDOW_MS = 60_000;
/** A new check runs within this long, so that its author sees a result at once, ms. */
const FIRST_RUN_WITHIN_MS = 5_000;

/** The first tick of a check that was made or switched on at `now`. */
export function firstTick(checkId: string, intervalMs: number, now: Date): Date {
  return spread(checkId, now, Math.min(intervalMs, FIRST_RUN_WITHIN_MS));
}

/** What happens at a tick that is due at `now`. */
export function planTick(check: Planned, now: Date): Tick {
  const { nextAt, intervalMs } = check;
  if (now.getTime() - nextAt.getTime() > Math.min(PUNCTUAL_MS, intervalMs)) return afterStop(check, now);
  const then = gridAfter(check, now);
  if (check.busy || check.locations.length === 0) return { nextAt: then };
  const lane = onGrid(check) || check.ticks === 0 ? 1 : 2;
  return { start: { locations: placesOf(check), lane, scheduledAt: nextAt }, nextAt: then };
}

/**
 * Missed ticks are not replayed. A check whose next tick is far off gets one catch-up, off the grid, at
 * an instant of its own, so that a start after a stop does not start everything at once.
 */
function afterStop(check: Planned, now: Date): Tick {
  const next = gridFrom(check, now.getTime());
  if (next - now.getTime() <= CATCH_UP_WINDOW_MS) return { nextAt: new Date(next) };
  return { nextAt: spread(check.id, now, CATCH_UP_WINDOW_MS) };
}

function placesOf({ locations, runParallel, ticks }: Planned): string[] {
  return runParallel ? [...locations] : [locations[ticks % locations.length]!];
}

/** The next tick of the grid, not before now, and half an interval away from a run off the grid. */
function gridAfter(check: Planned, now: Date): Date {
  const { nextAt, intervalMs } = check;
  return new Date(gridFrom(check, Math.max(nextAt.getTime() + intervalMs / 2, now.getTime())));
}

/** The first instant of the grid at or after `from`, ms. */
function gridFrom({ id, intervalMs }: Planned, from: number): number {
  const phase = hashOf(id) % intervalMs;
  return Math.ceil((from - phase) / intervalMs) * intervalMs + phase;
}

function onGrid(check: Planned): boolean {
  return gridFrom(check, check.nextAt.getTime()) === check.nextAt.getTime();
}

function spread(checkId: string, from: Date, windowMs: number): Date {
  return new Date(from.getTime() + (hashOf(checkId) % Math.max(1, windowMs)));
}

/** 48 bits: enough to spread over a day in ms, and exact in a number. */
function hashOf(checkId: string): number {
  return createHash('sha256').update(checkId).digest().readUIntBE(0, 6);
}
