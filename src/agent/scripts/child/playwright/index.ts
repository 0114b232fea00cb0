/**
 * A browser or multistep check in a process of a runtime: Playwright Test specs and plain Playwright
 * scripts. Hides how Playwright is loaded and kept warm, its runner in one process, what its browsers are
 * started with, what pages and requests are watched for, and how all of that becomes findings, files and a
 * verdict. Knows Playwright's inner workings in `library.ts` alone.
 */
import type { FromScript, RunScript, WarmUp } from '../../protocol.ts';
import { PlaywrightSession } from './session.ts';

/** Gets everything ready that a job needs. The returned function runs it. */
export async function servePlaywright(
  warmUp: WarmUp,
  send: (message: FromScript) => void,
): Promise<(run: RunScript) => Promise<void>> {
  const session = new PlaywrightSession(warmUp, send);
  await session.prepare();
  return (run) => session.run(run);
}
