import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { ServiceClient } from './index.ts';

const open: Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

async function listen(server: Server): Promise<string> {
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const echo = (): Server =>
  createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      response.setHeader('retry-after', '3');
      response.end(JSON.stringify({ url: request.url, headers: request.headers, body }));
    });
  });

/** A forward proxy that knows CONNECT only. */
function proxy(asked: string[], status = 200): Server {
  const server = createServer((_request, response) => response.writeHead(501).end());
  server.on('connect', (request, client: Socket) => {
    asked.push(`${request.url} ${request.headers['proxy-authorization'] ?? ''}`.trim());
    client.on('error', () => {});
    if (status !== 200) {
      client.end(`HTTP/1.1 ${status} No\r\n\r\n`);
      return;
    }
    const [host = '', port] = (request.url ?? '').split(':');
    const upstream = connect(Number(port), host, () => client.write('HTTP/1.1 200 OK\r\n\r\n'));
    upstream.on('error', () => client.destroy());
    upstream.pipe(client).pipe(upstream);
  });
  return server;
}

function clientOf(serviceUrl: string, httpProxy?: string): ServiceClient {
  const proxies = { httpsProxy: undefined, httpProxy, noProxy: '' };
  return new ServiceClient({ serviceUrl, apiKey: 'pl_secret', version: '1.2.3', proxies });
}
const post = (client: ServiceClient) =>
  client.post('/x', Buffer.from('hi'), { a: 'b' }, AbortSignal.timeout(5000));

test('a request carries the key, the version and its body, and the answer its status and wait', async () => {
  const client = clientOf(`http://${await listen(echo())}`);
  const reply = await post(client);
  expect(reply).toMatchObject({ status: 200, retryAfterMs: 3000 });
  expect(JSON.parse(reply.body.toString())).toMatchObject({
    url: '/x',
    body: 'hi',
    headers: { authorization: 'Bearer pl_secret', 'user-agent': 'vedette-agent/1.2.3', a: 'b' },
  });
  client.close();
});

test('a base address with a path keeps it', async () => {
  const client = clientOf(`http://${await listen(echo())}/base`);
  expect(JSON.parse((await post(client)).body.toString())).toMatchObject({ url: '/base/x' });
  client.close();
});

test('through a proxy every request goes by CONNECT, with the credentials of its address', async () => {
  const asked: string[] = [];
  const service = await listen(echo());
  const client = clientOf(`http://${service}`, `http://me:p%40ss@${await listen(proxy(asked))}`);
  expect((await post(client)).status).toBe(200);
  expect((await post(client)).status).toBe(200);
  expect(asked).toEqual([`${service} Basic ${Buffer.from('me:p@ss').toString('base64')}`]);
  client.close();
});

test('a proxy that refuses is named with its answer', async () => {
  const where = await listen(proxy([], 407));
  const client = clientOf('http://service.example', `http://${where}`);
  await expect(post(client)).rejects.toThrow(`the proxy ${where} answered 407 to CONNECT service.example:80`);
  client.close();
});

test('a proxy that is not there is named', async () => {
  const client = clientOf('http://service.example', 'http://127.0.0.1:1');
  await expect(post(client)).rejects.toThrow('the proxy 127.0.0.1:1 cannot be used');
  client.close();
});
