import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { waitUntil } from '../programs.ts';
import { listenOn } from './ports.ts';

/** An HTTP server that holds every request until it is told to answer. */
export interface Gate extends AsyncDisposable {
  readonly url: string;
  /** Requests that have arrived so far, by path. */
  arrived(path?: string): number;
  /** Requests that wait for their answer; a client that gave up does not count. */
  waiting(): number;
  /** Resolves when `count` requests have arrived. */
  until(count: number, withinMs?: number): Promise<void>;
  /** Answers those that wait, and from now on every other at once. */
  open(): void;
  stop(): Promise<void>;
}

export async function startGate(host = '127.0.0.1'): Promise<Gate> {
  const paths: string[] = [];
  const held = new Set<ServerResponse>();
  let isOpen = false;
  const server = createServer((request, response) => {
    paths.push(request.url ?? '');
    if (isOpen) return void response.end('open');
    held.add(response);
    response.on('close', () => held.delete(response));
  });
  const port = await listenOn(server, host);
  const stop = async (): Promise<void> => {
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  return {
    url: `http://${host}:${port}`,
    arrived: (path) => paths.filter((each) => path === undefined || each === path).length,
    waiting: () => held.size,
    until: (count, withinMs = 20_000) =>
      waitUntil(() => paths.length >= count, withinMs, `${count} requests at the gate`),
    open: () => {
      isOpen = true;
      for (const response of held) response.end('open');
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
