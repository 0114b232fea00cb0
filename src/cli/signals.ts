import { monoMs } from '../kit/clock.ts';

/** How a program is asked to end. `drain`: finish what runs, take nothing new. `kill`: give back and end now. */
export interface Shutdown {
  readonly drain: AbortSignal;
  readonly kill: AbortSignal;
}

/**
 * One Ctrl-C can arrive several times: from the terminal, which signals the whole group, and again from
 * npm and the bootstrap, which both forward it. The copies come within a few ms; a person needs longer.
 */
const SAME_CTRL_C_MS = 300;

/** The first SIGINT, SIGTERM or SIGHUP drains, the next one kills. */
export function stopOnSignals(): Shutdown {
  const drain = new AbortController();
  const kill = new AbortController();
  let lastInterruptMs = -Infinity;
  const receive = (signal: NodeJS.Signals): void => {
    const sinceInterruptMs = monoMs() - lastInterruptMs;
    if (signal === 'SIGINT') lastInterruptMs = monoMs();
    if (signal === 'SIGINT' && sinceInterruptMs < SAME_CTRL_C_MS) return;
    if (drain.signal.aborted) kill.abort(signal);
    else drain.abort(signal);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, receive);
  return { drain: drain.signal, kill: kill.signal };
}
