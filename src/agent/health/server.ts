import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from '../../kit/node-http.ts';
import { ExitCode, FatalError, messageOf } from '../../kit/errors.ts';

export interface AgentStatus {
  ready: boolean;
  /** Why not; null when ready. */
  reason: string | null;
  [more: string]: unknown;
}

export interface HealthServer {
  port: number;
  close(): Promise<void>;
}

interface Answer {
  status: number;
  type: string;
  body: string;
}

/**
 * Serves the four paths on `host:port`; port 0 lets the system choose.
 *
 * @throws FatalError exit 2 when the port cannot be listened on
 */
export async function startHealthServer(options: {
  host: string;
  port: number;
  status: () => AgentStatus;
  metrics: () => Promise<string>;
}): Promise<HealthServer> {
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000, keepAliveTimeout: 5_000 });
  server.maxConnections = 256;
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    void answer(request, options).then(
      (found) => send(request, response, found),
      (error: unknown) => send(request, response, json(500, { error: messageOf(error) })),
    );
  });
  server.on('clientError', (_error, socket) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n');
    else socket.destroy();
  });
  await listen(server, options.host, options.port);
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : options.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: ReturnType<typeof createServer>, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const what = `AGENT_HEALTH_PORT=${port}: cannot listen on ${host}:${port} (${error.message}). Choose a free port`;
      reject(new FatalError(ExitCode.usage, what, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
}

async function answer(
  request: IncomingMessage,
  { status, metrics }: { status: () => AgentStatus; metrics: () => Promise<string> },
): Promise<Answer> {
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return json(405, { error: 'GET and HEAD are allowed' });
  switch (request.url?.split('?', 1)[0]) {
    case '/-/readiness': {
      const { ready, reason } = status();
      return json(ready ? 200 : 503, { ready, reason });
    }
    case '/-/liveness':
      return json(200, { live: true });
    case '/health':
      return json(200, status());
    case '/metrics':
      return { status: 200, type: 'text/plain; version=0.0.4; charset=utf-8', body: await metrics() };
    default:
      return json(404, { error: 'paths: /-/readiness, /-/liveness, /health, /metrics' });
  }
}

const json = (status: number, body: object): Answer => ({
  status,
  type: 'application/json',
  body: `${JSON.stringify(body)}\n`,
});

function send(request: IncomingMessage, response: ServerResponse, { status, type, body }: Answer): void {
  // A body that somebody sends is not read, so the connection cannot be used again.
  request.resume();
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
  response.end(request.method === 'HEAD' ? undefined : body);
}
