import { monoMs, sleep } from '../../kit/clock.ts';
import { ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import type { Shutdown } from '../signals.ts';
import { printer } from './printer.ts';
import type { LogPage, SessionClient, SessionStatus, StartedSession } from './session-client.ts';

/** A run that nobody has begun by then is worth a word. */
const HINT_MS = 20_000;
/** A service that is being restarted is back within this. */
const PATIENCE_MS = 120_000;
const RETRY_MS = 1000;

/**
 * Prints what the suite prints until it is over. The first Ctrl-C cancels it and waits for what it has found
 * until then.
 *
 * @returns null when a second Ctrl-C did not want to wait
 */
export async function follow(
  client: SessionClient,
  session: StartedSession,
  { drain, kill }: Shutdown,
  location: string,
): Promise<SessionStatus | null> {
  const print = printer((text) => process.stdout.write(text));
  const cancel = (): void => {
    console.log('\ncancelling; a second Ctrl-C does not wait');
    client.cancel(session).catch((error: unknown) => console.error(messageOf(error)));
  };
  drain.addEventListener('abort', cancel, { once: true });
  if (drain.aborted) cancel();
  const hint = setTimeout(() => console.log(`nothing from ${location} yet; waiting …`), HINT_MS);
  try {
    for (let after = 0; ;) {
      const page = await patiently(async () => client.log(session, after, kill), kill);
      if (page.entries.length > 0) clearTimeout(hint);
      for (const { shard, text } of page.entries) print(shard, text);
      after = page.next;
      if (page.isOver) break;
    }
    return await patiently(async () => client.status(session), kill);
  } catch (error) {
    if (kill.aborted) return null;
    throw error;
  } finally {
    clearTimeout(hint);
    drain.removeEventListener('abort', cancel);
  }
}

/** A service that does not answer for a moment, or fails once, is asked again. */
async function patiently<T extends LogPage | SessionStatus>(
  ask: () => Promise<T>,
  kill: AbortSignal,
): Promise<T> {
  const since = monoMs();
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const code = error instanceof FatalError ? error.exitCode : undefined;
      const mayPass = code === ExitCode.serviceUnreachable || code === ExitCode.internal;
      if (!mayPass || monoMs() - since > PATIENCE_MS) throw error;
      await sleep(RETRY_MS, kill);
    }
  }
}
