import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import * as tls from 'node:tls';
import type { Certificate } from './targets/certificates.ts';
import { listenOn } from './targets/ports.ts';

export interface InterceptingProxy extends AsyncDisposable {
  readonly port: number;
  /** Places that it was asked for, host:port. */
  readonly asked: string[];
  /** Requests that it could read, by their first lines. */
  readonly read: string[];
}

/**
 * A proxy as companies have them: it opens what is encrypted, reads it, and encrypts it anew with a
 * certificate of its own authority.
 *
 * @param own what it shows to clients
 * @param trusted file with the authority of the real servers
 */
export async function startInterceptingProxy(own: Certificate, trusted: string): Promise<InterceptingProxy> {
  const shown = { cert: readFileSync(own.chain), key: readFileSync(own.key) };
  const ca = readFileSync(trusted);
  const asked: string[] = [];
  const read: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((_request, response) => response.writeHead(501).end());
  server.on('connection', (socket) => sockets.add(socket.on('error', () => {})));
  server.on('connect', (request, client: Socket) => {
    asked.push(request.url ?? '');
    const [host = '', port] = (request.url ?? '').split(':');
    client.write('HTTP/1.1 200 Connection established\r\n\r\n');
    const inner = new tls.TLSSocket(client, { isServer: true, ...shown });
    const outer = tls.connect({ host, port: Number(port), ca, servername: host });
    for (const [one, other] of [[inner, outer] as const, [outer, inner] as const]) {
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
      one.pipe(other);
    }
    inner.once('data', (bytes: Buffer) => read.push(bytes.toString('latin1').split('\r\n', 1)[0]!));
  });
  const port = await listenOn(server);
  return {
    port,
    asked,
    read,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
