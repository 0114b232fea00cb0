import { connect, type Socket } from 'node:net';
import { monoMs } from '../../kit/clock.ts';
import { codeOf, messageOf } from '../../kit/errors.ts';

export interface Target {
  address: string;
  port: number;
}

/** How a connection attempt ended badly, in the words of the interface's results. */
export interface ConnectionError {
  /** `ECONNREFUSED`, …; `SOCKET_TIMEOUT` when nothing came back. */
  code: string;
  address: string;
  port: number;
  errno?: number;
  syscall?: string;
  message: string;
}

export interface Attempt {
  target: Target;
  error: ConnectionError;
  cause: unknown;
}

/** Long enough for a SYN and its repetitions after 1 and 3 s, twice over. */
const CONNECT_LIMIT_MS = 10_000;
/** With many addresses each still gets the time for a SYN and one repetition. */
const LEAST_SHARE_MS = 2000;

/**
 * Connects to the first address that lets us. All together have 10 s; each gets an equal share of what
 * is left, so that a black hole first does not take the time of the others.
 *
 * @throws the signal's reason
 */
export async function connectInTurn(
  targets: readonly Target[],
  signal: AbortSignal,
  limitMs = CONNECT_LIMIT_MS,
): Promise<{ socket: Socket; target: Target } | { attempts: Attempt[] }> {
  const deadlineMs = monoMs() + limitMs;
  const attempts: Attempt[] = [];
  for (const [index, target] of targets.entries()) {
    const leftMs = deadlineMs - monoMs();
    if (leftMs <= 0) break;
    const shareMs = Math.min(leftMs, Math.max(LEAST_SHARE_MS, leftMs / (targets.length - index)));
    const result = await connectTo(target, shareMs, signal);
    if ('socket' in result) return { socket: result.socket, target };
    attempts.push(result);
  }
  return { attempts };
}

function connectTo(
  target: Target,
  limitMs: number,
  signal: AbortSignal,
): Promise<{ socket: Socket } | Attempt> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const socket = connect({ host: target.address, port: target.port, noDelay: true });
    let settled = false;
    const settle = (): void => {
      settled = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    };
    // A process that stood still finds its timers before the news from the socket: these have one turn more.
    const fail = (error: ConnectionError, cause?: unknown): void => {
      if (settled) return;
      settle();
      socket.destroy();
      resolve({ target, error, cause });
    };
    const onAbort = (): void => {
      settle();
      socket.destroy();
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => setImmediate(fail, timedOut(target, limitMs)), limitMs);
    signal.addEventListener('abort', onAbort, { once: true });
    socket.once('error', (error) => fail(asConnectionError(error, target), error));
    socket.once('connect', () => {
      settle();
      socket.removeAllListeners('error');
      // From here on a reader decides what an error means; until it listens none may crash the process.
      socket.on('error', () => socket.destroy());
      resolve({ socket });
    });
  });
}

const timedOut = ({ address, port }: Target, limitMs: number): ConnectionError => ({
  code: 'SOCKET_TIMEOUT',
  address,
  port,
  message: `no answer to the connection attempt within ${Math.round(limitMs)} ms`,
});

function asConnectionError(error: NodeJS.ErrnoException, { address, port }: Target): ConnectionError {
  const { errno, syscall } = error;
  return {
    code: codeOf(error) ?? 'EUNKNOWN',
    address,
    port,
    ...(errno === undefined ? {} : { errno }),
    ...(syscall === undefined ? {} : { syscall }),
    message: messageOf(error),
  };
}

export interface Received {
  bytes: Buffer;
  /** More came than is kept. */
  truncated: boolean;
  /** The peer broke the connection before it had sent anything. */
  error: NodeJS.ErrnoException | null;
}

export const READ_LIMITS = { silenceMs: 500, wholeMs: 5000, bytes: 1024 * 1024 } as const;

/**
 * Reads what the peer sends: until it closes, has sent 1 MB, or 5 s have passed, whichever is first; or
 * sooner, when it has been silent for 500 ms after its last byte and what came `isEnough`. A greeting may
 * be long before the answer. A reset after some data counts as a close.
 *
 * @throws the signal's reason
 */
export function readAnswer(
  socket: Socket,
  signal: AbortSignal,
  isEnough: (received: Buffer) => boolean,
  limits: { silenceMs: number; wholeMs: number; bytes: number } = READ_LIMITS,
): Promise<Received> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const chunks: Buffer[] = [];
    let size = 0;
    let silence: NodeJS.Timeout | undefined;
    const settle = (): void => {
      clearTimeout(silence);
      clearTimeout(whole);
      signal.removeEventListener('abort', onAbort);
    };
    const finish = (error: NodeJS.ErrnoException | null = null): void => {
      settle();
      const bytes = Buffer.concat(chunks);
      const truncated = bytes.length > limits.bytes;
      resolve({ bytes: bytes.subarray(0, limits.bytes), truncated, error: size === 0 ? error : null });
    };
    const finishIfStill = (before: number): void =>
      void setImmediate(() => {
        if (size === before && isEnough(Buffer.concat(chunks))) finish();
      });
    const onAbort = (): void => {
      settle();
      reject(signal.reason as Error);
    };
    const whole = setTimeout(() => setImmediate(finish), limits.wholeMs);
    signal.addEventListener('abort', onAbort, { once: true });
    socket.on('error', finish);
    socket.on('end', () => finish());
    socket.on('close', () => finish());
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      clearTimeout(silence);
      if (size > limits.bytes) finish();
      else silence = setTimeout(finishIfStill, limits.silenceMs, size);
    });
  });
}
