import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createSecureServer, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import type { Certificate } from './certificates.ts';
import { listenOn } from './ports.ts';

export interface Http2Only extends AsyncDisposable {
  port: number;
  stop(): Promise<void>;
}

/** A TLS server that speaks nothing but HTTP/2: clients that do not offer `h2` are cut off. */
export async function startHttp2Only({ chain, key }: Certificate): Promise<Http2Only> {
  const server = createSecureServer({ cert: readFileSync(chain), key: readFileSync(key), allowHTTP1: false });
  const sessions = new Set<Http2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session)).on('error', () => undefined);
  });
  server.on('stream', (stream: ServerHttp2Stream) => {
    stream.on('error', () => undefined);
    stream.respond({ ':status': 200, 'content-type': 'text/plain' });
    stream.end('hello over HTTP/2\n');
  });
  const port = await listenOn(server);
  const stop = async (): Promise<void> => {
    for (const session of sessions) session.destroy();
    const closed = once(server, 'close');
    server.close();
    await closed;
  };
  return { port, stop, [Symbol.asyncDispose]: stop };
}
