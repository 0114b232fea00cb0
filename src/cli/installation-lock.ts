import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, connect, type Server } from 'node:net';
import { realpathSync } from 'node:fs';
import { codeOf } from '../kit/errors.ts';

/**
 * One installation per folder at a time. The lock is a name in the kernel's list of sockets, which the end
 * of its holder takes away, however it ends: no stale lock, and waiting needs no polling.
 *
 * @param onWait called once when another process holds it
 * @throws when `signal` aborts while waiting
 */
export async function lockFolder(
  folder: string,
  signal: AbortSignal,
  onWait: () => void,
): Promise<AsyncDisposable> {
  const name = nameOf(folder);
  for (let waited = false; ; waited = true) {
    signal.throwIfAborted();
    const server = await listen(name);
    if (server !== undefined) return { [Symbol.asyncDispose]: () => close(server) };
    if (!waited) onWait();
    await untilReleased(name, signal);
  }
}

/** Starts with a zero byte: no file. Of this user, so that another one's process is not waited for. */
function nameOf(folder: string): string {
  const hash = createHash('sha256').update(realpathSync(folder)).digest('hex').slice(0, 32);
  return `\0vedette-install-${process.getuid?.() ?? ''}-${hash}`;
}

async function listen(name: string): Promise<Server | undefined> {
  const server = createServer((waiting) => {
    waiting.on('error', () => {});
    // Read, so that the end of one that gave up is seen.
    waiting.resume();
    server.once('releasing', () => waiting.destroy());
  });
  // One line for every process that waits.
  server.setMaxListeners(0);
  try {
    server.listen({ path: name });
    await once(server, 'listening');
    return server;
  } catch (error) {
    if (codeOf(error) === 'EADDRINUSE') return undefined;
    throw error;
  }
}

async function close(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.emit('releasing');
  await closed;
}

/** The connection ends when the holder closes it or ends. */
async function untilReleased(name: string, signal: AbortSignal): Promise<void> {
  const socket = connect({ path: name });
  const stop = (): void => void socket.destroy();
  signal.addEventListener('abort', stop, { once: true });
  socket.on('error', () => {}).resume();
  try {
    await new Promise((resolve) => socket.once('close', resolve));
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
