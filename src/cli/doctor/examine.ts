import { monoMs, sleep, untilAborted } from '../../kit/clock.ts';
import { ExitCode, messageOf } from '../../kit/errors.ts';
import { failed, stopped, untried, type Finding, type Hop } from './hop.ts';
import type { Site } from './site.ts';

export interface Examined {
  readonly name: string;
  readonly finding: Finding;
  readonly ms: number;
}

/** Goes through the hops in their order, each within its time, until `stop` aborts. */
export async function* examine(
  hops: readonly Hop[],
  site: Site,
  stop: AbortSignal,
): AsyncGenerator<Examined, void> {
  /** Which hops cannot be relied on, and for which one that failed. */
  const blocked = new Map<string, string>();
  for (const hop of hops) {
    const startedMs = monoMs();
    const cause = hop.after?.find((name) => blocked.has(name));
    const since = cause === undefined ? undefined : blocked.get(cause);
    const finding = since === undefined ? await lookAt(hop, site, stop) : untried(since);
    if (finding.state === 'failed') blocked.set(hop.name, hop.name);
    else if (finding.since !== undefined) blocked.set(hop.name, finding.since);
    yield { name: hop.name, finding, ms: Math.round(monoMs() - startedMs) };
  }
}

async function lookAt(hop: Hop, site: Site, stop: AbortSignal): Promise<Finding> {
  if (stop.aborted) return stopped;
  const over = new AbortController();
  const signal = AbortSignal.any([stop, over.signal]);
  const late = sleep(hop.limitMs, signal).then(
    () => hop.late(site),
    () => untilAborted(signal).then(() => stopped),
  );
  try {
    return await Promise.race([look(hop, site, signal), late]);
  } finally {
    over.abort(new Error('the time of this hop is over'));
  }
}

/** What no hop expects is a fault of ours, and no reason to end the examination. */
async function look(hop: Hop, site: Site, signal: AbortSignal): Promise<Finding> {
  try {
    return await hop.look(site, signal);
  } catch (error) {
    return failed(
      ExitCode.internal,
      `it could not be examined: ${messageOf(error)}`,
      'Report this with the output of vedette doctor --json',
    );
  }
}
