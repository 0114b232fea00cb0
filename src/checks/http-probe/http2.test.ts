import { createServer, type ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, connect } from 'node:net';
import { expect, test } from 'vitest';
import type { Exchanged } from './exchange.ts';
import { exchangeHttp2 } from './http2.ts';
import { testContext } from './servers.ts';
import { Trip } from './trip.ts';

/** What becomes of one GET to a server that treats its stream so. TLS is not needed for that. */
async function get(answer: (stream: ServerHttp2Stream) => void): Promise<Exchanged> {
  const server = createServer(({ stream }) => {
    stream.on('error', () => undefined);
    answer(stream);
  });
  const ready = Promise.withResolvers<void>();
  server.listen(0, '127.0.0.1', ready.resolve);
  await ready.promise;
  const { port } = server.address() as AddressInfo;
  const trip = new Trip({ ...testContext(), family: 4, skipSSL: false, proxy: null });
  const socket = trip.hold(connect(port, '127.0.0.1'));
  const wire = { method: 'GET', path: '/', headers: [], body: null };
  try {
    return await exchangeHttp2(socket, wire, `127.0.0.1:${port}`, trip, true, () => undefined);
  } finally {
    trip.end();
    server.close();
  }
}

test('a whole answer', async () => {
  const { head, body } = await get((stream) => {
    stream.respond({ ':status': 200 });
    stream.end('ok');
  });
  expect([head.status, body.bytes.toString()]).toEqual([200, 'ok']);
});

test.each([{}, { 'content-length': '100' }])(
  'a connection that ends in the middle of the body with %o',
  async (fields) => {
    const cut = get((stream) => {
      stream.respond({ ':status': 200, ...fields });
      stream.write('abc', () => setImmediate(() => stream.session?.destroy()));
    });
    await expect(cut).rejects.toMatchObject({ code: 'ECONNRESET', network: true });
  },
);
