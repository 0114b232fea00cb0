import type { IncomingMessage } from 'node:http';
import { WebSocket, type RawData } from 'ws';
import { CONNECT_PATH, MAX_FRAME_BYTES, SUBPROTOCOL, type FromAgent } from '../../contract/index.ts';
import {
  BROKEN,
  codeOfStatus,
  ENDED,
  openError,
  OpenError,
  type Closed,
  type Link,
  type LinkTiming,
} from './link.ts';
import type { ServiceClient } from './service-client.ts';

/** Something in between does not know upgrades: waiting would not help, the long poll will. */
const NO_UPGRADE_MS = 200;

/** A link over a WebSocket: one message per frame. */
export async function openSocket(
  client: ServiceClient,
  timing: LinkTiming,
  hello: FromAgent,
  receive: (raw: unknown) => void,
  signal: AbortSignal,
): Promise<Link> {
  const socket = new WebSocket(client.url(CONNECT_PATH).replace(/^http/, 'ws'), SUBPROTOCOL, {
    headers: client.headers,
    agent: client.fresh,
    maxPayload: MAX_FRAME_BYTES,
    // Deflate contexts fragment the memory of long-running processes and save little on small frames.
    perMessageDeflate: false,
    handshakeTimeout: timing.openTimeoutMs,
  });
  const { promise: closed, resolve: setClosed } = Promise.withResolvers<Closed>();
  const watch = watchSilence(socket, timing);
  let fault = '';
  socket.on('error', (error) => (fault = error.message));
  socket.on('close', (code, reason) => {
    watch.stop();
    setClosed(closedOf(code, reason.toString() || watch.verdict() || fault));
  });
  socket.on('message', (data) => {
    watch.heard();
    const raw = parse(textOf(data));
    if (raw !== undefined) receive(raw);
  });
  await opened(socket, signal);
  const link: Link = {
    kind: 'socket',
    closed,
    send: (message) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
    },
    close: () => socket.close(ENDED),
  };
  link.send(hello);
  return link;
}

/**
 * Opens a socket to the service and closes it at once.
 * @returns why none opens; null when one does
 */
export async function trySocket(
  client: ServiceClient,
  timing: LinkTiming,
  signal: AbortSignal,
): Promise<Closed | null> {
  const socket = new WebSocket(client.url(CONNECT_PATH).replace(/^http/, 'ws'), SUBPROTOCOL, {
    headers: client.headers,
    agent: client.fresh,
    perMessageDeflate: false,
    handshakeTimeout: timing.openTimeoutMs,
  });
  socket.on('error', () => {});
  try {
    await opened(socket, signal);
    return null;
  } catch (error) {
    return openError(error).closed;
  } finally {
    socket.close(ENDED);
  }
}

function opened(socket: WebSocket, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const abort = (): void => {
    socket.terminate();
    reject(signal.reason as Error);
  };
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  socket.once('open', resolve);
  socket.once('unexpected-response', (_request, response) => {
    socket.terminate();
    reject(refusal(response));
  });
  socket.once('error', (error) => reject(openError(error)));
  return promise.finally(() => signal.removeEventListener('abort', abort));
}

function refusal(response: IncomingMessage): OpenError {
  const status = response.statusCode ?? 0;
  const seconds = Number(response.headers['retry-after'] ?? NaN);
  response.resume();
  const code = codeOfStatus(status);
  const closed = { code, reason: `the service answered ${status} to the upgrade` };
  if (Number.isFinite(seconds)) return new OpenError({ ...closed, retryAfterMs: seconds * 1000 }, false);
  const noUpgrade = code === BROKEN && status < 500;
  return new OpenError(
    noUpgrade ? { ...closed, retryAfterMs: Math.random() * NO_UPGRADE_MS } : closed,
    false,
  );
}

/** With 4503 the reason carries the wait: `{"retryAfterMs":…}`, or the number alone. */
function closedOf(code: number, reason: string): Closed {
  const found = /(?:^|retryAfterMs"?\s*[:=]\s*)(\d+)/.exec(reason)?.[1];
  const text = reason === '' ? `closed with ${code}` : reason;
  return found === undefined ? { code, reason: text } : { code, reason: text, retryAfterMs: Number(found) };
}

function watchSilence(
  socket: WebSocket,
  { pingEveryMs, silentMs }: LinkTiming,
): { heard: () => void; stop: () => void; verdict: () => string } {
  let quietPings = 0;
  let dead = false;
  const heard = (): void => {
    quietPings = 0;
  };
  // Pings without an answer are counted, not time: a process that was frozen does not blame the link.
  const timer = setInterval(() => {
    if (socket.readyState === WebSocket.CONNECTING) return;
    if (++quietPings * pingEveryMs > silentMs) {
      dead = true;
      socket.terminate();
    } else if (socket.readyState === WebSocket.OPEN) {
      socket.ping();
    }
  }, pingEveryMs);
  socket.on('pong', heard);
  socket.on('ping', heard);
  return {
    heard,
    stop: () => clearInterval(timer),
    verdict: () => (dead ? `nothing heard for ${silentMs} ms` : ''),
  };
}

/** `ws` hands frames over in one buffer unless told otherwise. */
const textOf = (data: RawData): string => (Buffer.isBuffer(data) ? data.toString() : '');

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
