import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { Limiter } from '../limiter.ts';
import { OPEN_POLICY } from '../target-policy/index.ts';
import { NameError, type Resolver } from '../resolve.ts';
import type { RunContext } from '../check-type.ts';

/** For tests only: servers on ports of the system's choice, and what a runner needs besides. */
export interface TestServer extends AsyncDisposable {
  port: number;
  /** `http://127.0.0.1:PORT/…` */
  url(path?: string): string;
}

/** A server that does as told with each connection; `wire` answers after the first bytes arrived. */
export async function rawServer(
  onConnection: (socket: Socket) => void,
  host = '127.0.0.1',
): Promise<TestServer> {
  return await listening(createTcpServer(onConnection), host);
}

/** Answers every connection with these bytes, then closes unless `open`. */
export async function wireServer(bytes: string | Buffer, open = false): Promise<TestServer> {
  return await rawServer((socket) => {
    socket.once('data', () => (open ? socket.write(bytes) : socket.end(bytes)));
  });
}

export async function httpServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  host = '127.0.0.1',
): Promise<TestServer> {
  return await listening(createServer(answer), host);
}

async function listening(server: Server, host: string): Promise<TestServer> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  });
  const ready = Promise.withResolvers<void>();
  server.listen(0, host, ready.resolve);
  await ready.promise;
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: (path = '/') => `http://${host.includes(':') ? `[${host}]` : host}:${port}${path}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      await closed.promise;
    },
  };
}

/** A port that nobody listens on. */
export async function closedPort(): Promise<number> {
  await using server = await rawServer(() => undefined);
  return server.port;
}

/** Knows these names; addresses with a colon are IPv6. */
export function namesResolver(names: Readonly<Record<string, readonly string[]>>): Resolver {
  return {
    servers: () => [],
    resolve: async (name, family) => {
      const known = names[name];
      if (known === undefined) throw new NameError('ENOTFOUND', name, 'the test', `${name} does not exist`);
      const addresses = known
        .map((address) => ({ address, family: address.includes(':') ? (6 as const) : (4 as const) }))
        .filter((each) => each.family === family);
      if (addresses.length === 0)
        throw new NameError('ENODATA', name, 'the test', `${name} has no such address`);
      return { addresses, source: 'the test', durationMs: 0 };
    },
  };
}

export function testContext(more: Partial<RunContext> = {}): RunContext {
  return {
    signal: new AbortController().signal,
    proxyUrl: null,
    resolver: namesResolver({}),
    handshakes: new Limiter(8),
    targets: OPEN_POLICY,
    scripts: null,
    ...more,
  };
}
