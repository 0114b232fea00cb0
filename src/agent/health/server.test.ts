import { connect } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { startHealthServer, type HealthServer } from './index.ts';

let server: HealthServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

async function start(ready = true): Promise<string> {
  server = await startHealthServer({
    host: '127.0.0.1',
    port: 0,
    status: () => ({ ready, reason: ready ? null : 'starting', version: '1.2.3' }),
    metrics: async () => 'a_metric 1\n',
  });
  return `http://127.0.0.1:${server.port}`;
}

test('the four paths', async () => {
  const base = await start();
  const get = async (path: string): Promise<[number, string]> => {
    const response = await fetch(base + path);
    return [response.status, await response.text()];
  };
  expect(await get('/-/readiness')).toEqual([200, '{"ready":true,"reason":null}\n']);
  expect(await get('/-/liveness?x=1')).toEqual([200, '{"live":true}\n']);
  expect((await get('/health'))[1]).toContain('"version":"1.2.3"');
  expect(await get('/metrics')).toEqual([200, 'a_metric 1\n']);
  expect((await get('/etc/passwd'))[0]).toBe(404);
});

test('not ready: 503 with the reason, still alive', async () => {
  const base = await start(false);
  const response = await fetch(`${base}/-/readiness`);
  expect(response.status).toBe(503);
  expect(await response.json()).toEqual({ ready: false, reason: 'starting' });
  expect((await fetch(`${base}/-/liveness`)).status).toBe(200);
});

test('it changes nothing: other methods are refused, a body is not waited for', async () => {
  const base = await start();
  expect((await fetch(`${base}/-/readiness`, { method: 'POST', body: 'x'.repeat(100_000) })).status).toBe(
    405,
  );
  expect((await fetch(`${base}/health`, { method: 'HEAD' })).status).toBe(200);
});

test.each([
  'nonsense\r\n\r\n',
  '\0\0\0\0\r\n\r\n',
  'GET / HTTP/9.9\r\n\r\n',
  `GET /${'a'.repeat(100_000)} HTTP/1.1\r\n\r\n`,
  'GET /health HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n',
  'GET /health HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
])('garbage ends with its own connection only: %#', async (text) => {
  const base = await start();
  await new Promise<void>((resolve) => {
    const socket = connect(server!.port, '127.0.0.1', () => socket.write(text));
    socket.on('data', () => socket.end());
    socket.on('error', () => {});
    socket.on('close', () => resolve());
  });
  expect((await fetch(`${base}/-/liveness`)).status).toBe(200);
});

test('a port that is taken is a bad setting, in one line', async () => {
  await start();
  const port = server!.port;
  const second = startHealthServer({
    host: '127.0.0.1',
    port,
    status: () => ({ ready: true, reason: null }),
    metrics: async () => '',
  });
  await expect(second).rejects.toThrow(`AGENT_HEALTH_PORT=${port}: cannot listen on 127.0.0.1:${port}`);
});
