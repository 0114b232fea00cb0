import { createServer } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';

/**
 * A proxy that knows CONNECT only, and remembers what it was asked for.
 *
 * @param lead where a way to `host:port` leads; a number is its refusal
 */
export async function connectProxy(
  lead: (asked: string) => string | number = (each) => each,
): Promise<{ url: string; asked: string[] } & AsyncDisposable> {
  const asked: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((_request, response) => response.writeHead(501).end());
  server.on('connection', (socket) => sockets.add(socket));
  server.on('connect', (request, client: Socket) => {
    asked.push(request.url ?? '');
    const place = lead(request.url ?? '');
    if (typeof place === 'number') return void client.end(`HTTP/1.1 ${place} No\r\n\r\n`);
    const [host = '', port] = place.split(':');
    const upstream = connect(Number(port), host, () => client.write('HTTP/1.1 200 OK\r\n\r\n'));
    upstream.on('error', () => client.destroy());
    client.on('error', () => upstream.destroy());
    upstream.pipe(client).pipe(upstream);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
