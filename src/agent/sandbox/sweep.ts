import { endMarked } from './ending.ts';
import { ownerLives } from './marker.ts';
import { allPids, markerOfProcess } from './processes.ts';

/**
 * Ends what the jobs of an agent left behind that is gone: killed, or of a machine that lost its power
 * supply in the middle. Jobs of agents that live are left alone.
 *
 * @returns how many jobs had something left
 */
export async function sweepMarkers(): Promise<number> {
  const markers = new Set(allPids().map((pid) => markerOfProcess(pid)));
  const orphaned = [...markers].filter((marker) => marker !== undefined && !ownerLives(marker));
  await Promise.all(orphaned.map((marker) => endMarked(marker!)));
  return orphaned.length;
}
