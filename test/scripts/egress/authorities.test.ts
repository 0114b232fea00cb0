import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { EgressProxy } from '../../../src/agent/egress/index.ts';
import { createLog } from '../../../src/kit/log.ts';
import { connectProxy } from '../../support/connect-proxy.ts';
import { lacks } from '../../support/programs.ts';
import { makeCertificates } from '../../support/targets/certificates.ts';
import { listenOn } from '../../support/targets/ports.ts';

test('a proxy whose authority came later is trusted without a restart', async ({ skip }) => {
  const missing = lacks('openssl');
  if (missing !== undefined) skip(missing);
  const folder = mkdtempSync(join(tmpdir(), 'vedette-test-'));
  const site = createServer((_request, response) => response.end('here'));
  const sitePort = await listenOn(site);
  await using plain = await connectProxy(() => `127.0.0.1:${sitePort}`);
  const { good, trusted } = await makeCertificates(folder);
  const front = createTlsServer({ cert: readFileSync(good.chain), key: readFileSync(good.key) }, (socket) => {
    const upstream = connect(Number(new URL(plain.url).port), '127.0.0.1');
    for (const each of [socket, upstream]) each.on('error', () => socket.destroy());
    socket.pipe(upstream).pipe(socket);
  });
  const proxyUrl = `https://localhost:${await listenOn(front)}`;
  const egress = new EgressProxy({
    setup: { useOsResolver: false, policy: { blocked: '', allowed: '' } },
    log: createLog({ level: 'silent', format: 'json', name: 'egress' }),
    onLost: () => {},
  });
  onTestFinished(async () => {
    await egress.stop();
    for (const server of [site, front]) server.close();
    rmSync(folder, { recursive: true });
  });
  const gate = await egress.open();
  await gate.lead(proxyUrl);
  expect(await tunnelBy(gate.port)).toBe('HTTP/1.1 502 Bad Gateway');
  expect(gate.refusals[0]?.code).toBe('PROXY_UNREACHABLE');
  egress.trust([readFileSync(trusted, 'utf8')]);
  expect(await tunnelBy(gate.port)).toBe('HTTP/1.1 200 Connection established');
});

/** @returns the first line of what the gate answers */
async function tunnelBy(port: number): Promise<string> {
  const socket: Socket = connect(port, '127.0.0.1');
  socket.write('CONNECT shop.inside.test:80 HTTP/1.1\r\n\r\n');
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return bytes.toString().split('\r\n')[0]!;
}
