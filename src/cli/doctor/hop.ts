import type { ExitCode } from '../../kit/errors.ts';
import type { Site } from './site.ts';

/**
 * `unneeded`: nothing to try in this set-up. `untried`: an earlier hop failed. A warning is something that
 * this agent does without, and never a reason for an exit code.
 */
export type State = 'ok' | 'warning' | 'failed' | 'unneeded' | 'untried';

export interface Finding {
  state: State;
  /** One sentence without a full stop. */
  found: string;
  /** One sentence: what to change. */
  remedy?: string;
  /** Of a failed hop. */
  exitCode?: ExitCode;
  /** Of one that was not tried: the hop that failed. */
  since?: string;
  /** Kinds of checks that cannot run here. */
  notServed?: readonly string[];
}

/** One thing that an agent needs. */
export interface Hop {
  readonly name: string;
  /** Hops that must not have failed for this one to make sense. */
  readonly after?: readonly string[];
  readonly limitMs: number;
  look(site: Site, signal: AbortSignal): Promise<Finding> | Finding;
  /** When the time is up. */
  late(site: Site): Finding;
}

export const ok = (found: string): Finding => ({ state: 'ok', found });
export const unneeded = (found: string): Finding => ({ state: 'unneeded', found });
export const untried = (since: string): Finding => ({
  state: 'untried',
  found: `not tried, since ${since} failed`,
  since,
});
export const stopped: Finding = { state: 'untried', found: 'not tried to its end: stopped' };
export const warning = (found: string, remedy: string, notServed: readonly string[] = []): Finding => ({
  state: 'warning',
  found,
  remedy,
  notServed,
});
export const failed = (exitCode: ExitCode, found: string, remedy: string): Finding => ({
  state: 'failed',
  found,
  remedy,
  exitCode,
});
