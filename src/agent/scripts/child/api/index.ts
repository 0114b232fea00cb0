/**
 * The scripts around the request of an API check, in a process of a runtime: setup, then teardown, with
 * `request`, `response` and process.env as their globals. Hides how files of any syntax become modules and
 * find their packages, the console, the end of what nobody awaits, the words for what went wrong and where,
 * and what may be left in `request`. The request itself is made elsewhere.
 */
import type { FromScript, RunPhase, WarmUp } from '../../protocol.ts';
import { ApiSession } from './session.ts';

/** Gets everything ready that a job needs. The returned function runs its phases, one after the other. */
export function serveApi(
  warmUp: WarmUp,
  send: (message: FromScript) => void,
): (phase: RunPhase) => Promise<void> {
  const session = new ApiSession(warmUp, send);
  session.install();
  return (phase) => session.run(phase);
}
