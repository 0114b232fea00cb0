import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import * as tls from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ExitCode } from '../../src/kit/errors.ts';
import { connectProxy } from '../support/connect-proxy.ts';
import { standInJob, startTestAgent, temporaryFolder } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';

const folder = temporaryFolder();
const file = (name: string): string => join(folder.path, name);
const before = tls.getCACertificates('default');

/** An authority of our own and a certificate of it for localhost. */
beforeAll(() => {
  const openssl = (...args: string[]): void =>
    void execFileSync('openssl', args, { cwd: folder.path, stdio: 'ignore' });
  const make = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const ofUs = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-addext', 'subjectAltName=DNS:localhost'];
  openssl('req', ...make, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Test authority');
  openssl('req', ...make, ...ofUs, '-keyout', 'key.pem', '-out', 'cert.pem', '-subj', '/CN=localhost');
});
afterAll(() => {
  tls.setDefaultCACertificates(before);
  folder[Symbol.dispose]();
});

/** The service under https://localhost, by a server that ends TLS in front of it. */
async function secured(service: FakeService): Promise<{ url: string; key: string } & AsyncDisposable> {
  const options = { key: readFileSync(file('key.pem')), cert: readFileSync(file('cert.pem')) };
  const server = tls.createServer(options, (socket) => {
    const upstream = connect(Number(new URL(service.url).port), '127.0.0.1');
    socket.on('error', () => upstream.destroy());
    upstream.on('error', () => socket.destroy());
    upstream.on('close', () => socket.destroy());
    socket.pipe(upstream).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `https://localhost:${port}`,
    key: service.key,
    [Symbol.asyncDispose]: async () => void server.close(),
  };
}

test('an authority that nobody knows: not ready, with the reason', async () => {
  await using service = await startFakeService();
  await using front = await secured(service);
  await using agent = await startTestAgent(front);
  let reason = '';
  await until('the reason', () => {
    void agent.health('/-/readiness').then(({ text }) => (reason = text));
    return reason.includes('set NODE_EXTRA_CA_CERTS');
  });
  expect(service.sessions).toEqual([]);
});

test('a file of authorities that cannot be read is a bad setting', async () => {
  await using service = await startFakeService();
  const start = startTestAgent(service, { NODE_EXTRA_CA_CERTS: file('key.pem') });
  await expect(start).rejects.toMatchObject({ exitCode: ExitCode.usage });
  await expect(startTestAgent(service, { NODE_EXTRA_CA_CERTS: file('gone.pem') })).rejects.toThrow(
    /^NODE_EXTRA_CA_CERTS=.*gone\.pem: /,
  );
});

test.each([
  ['socket', false],
  ['socket', true],
  ['poll', false],
  ['poll', true],
] as const)('with its authority, by %s, through a proxy: %s', async (kind, proxied) => {
  await using service = await startFakeService();
  if (kind === 'poll') service.refuseUpgrade = 400;
  await using front = await secured(service);
  await using proxy = await connectProxy();
  const env = { NODE_EXTRA_CA_CERTS: file('ca.pem'), ...(proxied ? { HTTPS_PROXY: proxy.url } : {}) };
  await using agent = await startTestAgent(front, env);
  await agent.ready;
  const job = standInJob();
  service.offer(job);
  await service.resultOf(job);
  expect((await service.session()).kind).toBe(kind);
  expect(new Set(proxy.asked)).toEqual(new Set(proxied ? [new URL(front.url).host] : []));
});
