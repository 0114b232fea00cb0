import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import * as tls from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../support/agent.ts';
import { connectProxy } from '../support/connect-proxy.ts';
import { startInterceptingProxy } from '../support/intercepting-proxy.ts';
import { describeUnless, lacks } from '../support/programs.ts';
import { makeCertificates, type Certificates } from '../support/targets/certificates.ts';
import { lacksNamespaces, startCutOff, startVoid, VOID_ADDRESS } from '../support/targets/namespace.ts';
import { freePort, listenOn } from '../support/targets/ports.ts';
import { startProxy } from '../support/targets/proxy.ts';
import { examine, startRealService, type RealService } from './doctor.ts';
import { runVedette } from './program.ts';

/** The way to the service, broken in every place. */

const folder = temporaryFolder();
let service: RealService;
/** The service behind TLS, by a good certificate for localhost. */
let front: tls.Server;
let frontPort: number;
let certificates: Certificates;
const noNamespaces = await lacksNamespaces();

beforeAll(async () => {
  service = await startRealService();
  certificates = await makeCertificates(folder.path);
  front = behindTls(certificates.good);
  frontPort = await listenOn(front);
});
afterAll(async () => {
  front.close();
  await service[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

function behindTls({ chain, key }: Certificates['good']): tls.Server {
  return tls.createServer({ cert: readFileSync(chain), key: readFileSync(key) }, (socket) => {
    const upstream = connect(service.port, '127.0.0.1');
    socket.on('error', () => upstream.destroy()).on('close', () => upstream.destroy());
    upstream.on('error', () => socket.destroy()).on('close', () => socket.destroy());
    socket.pipe(upstream).pipe(socket);
  });
}

const to = (url: string, more: Record<string, string> = {}): Record<string, string> => ({
  API_KEY: service.key,
  AGENT_SERVICE_URL: url,
  ...more,
});
const secured = (more: Record<string, string> = {}): Record<string, string> =>
  to(`https://localhost:${frontPort}`, { NODE_EXTRA_CA_CERTS: certificates.trusted, ...more });

describe('vedette doctor', () => {
  test('a set-up that works: no failure, no key in what it says', async () => {
    const { code, ok, trouble, untried, text } = await examine(to(service.url));
    expect({ code, ok, trouble, untried }).toEqual({ code: 0, ok: true, trouble: {}, untried: [] });
    expect(text).not.toContain(service.key);
  });

  test('for people: a line for each step, and what it comes to', async () => {
    const steps = ['--skip', 'probes,icmp,runtimes,scripts,browser,npm-registry'];
    const { stdout } = await runVedette(['doctor', ...steps], {
      env: to(service.url, { AGENT_HEALTH_PORT: '0' }),
      cwd: folder.path,
    });
    expect(stdout).toMatch(/^vedette doctor \d+\.\d+\.\d+\n\nok {7}settings/);
    expect(stdout).toMatch(/\nok {7}key {10}API_KEY \.\.\.\w{4} is accepted\n/);
    expect(stdout).toMatch(/\n\nAn agent can work here: 0 failures, \d warnings?\.\n$/);
  });

  test('settings: all that is wrong at once, and the rest is tried', async () => {
    const { code, trouble, untried } = await examine({ API_KEY: 'pl_x', SANDBOX: 'maybe' });
    expect(code).toBe(2);
    expect(trouble['settings']).toMatch(/^failed: API_KEY: .*AGENT_SERVICE_URL: .*SANDBOX="maybe": /);
    expect(untried).toContain('connection');
    expect(untried).not.toContain('data-folder');
  });

  test('a key that the service does not know: 4, and which key', async () => {
    const { code, trouble } = await examine(to(service.url, { API_KEY: 'pl_0123456789abcdef' }));
    expect(code).toBe(4);
    expect(trouble).toEqual({
      key: expect.stringMatching(/^failed: the service does not know API_KEY \.\.\.cdef → Use a live key/),
    });
  });

  test('a port where nothing listens', async () => {
    const port = await freePort();
    const { code, trouble, untried } = await examine(to(`http://127.0.0.1:${port}`));
    expect(code).toBe(5);
    expect(trouble['connection']).toMatch(
      new RegExp(
        `^failed: 127\\.0\\.0\\.1:${port} refuses connections .* → Correct host and port in AGENT_S`,
      ),
    );
    expect(untried).toEqual(['proxy', 'tls', 'service', 'key', 'websocket', 'clock']);
  });

  test('something else than the service, and a service whose sockets are cut', async () => {
    const site = createServer((_request, response) => response.writeHead(404).end('<h1>not found</h1>'));
    const other = await examine(to(`http://127.0.0.1:${await listenOn(site)}`));
    site.close();
    expect(other).toMatchObject({ code: 5, trouble: { service: expect.stringContaining('answers 404') } });

    const balancer = createServer((request, response) => {
      const headers = {
        authorization: request.headers.authorization ?? '',
        'content-type': 'application/json',
      };
      void fetch(service.url + request.url, { method: 'POST', headers, body: '{"messages":[]}' }).then(
        async (found) => response.writeHead(found.status).end(await found.text()),
      );
    });
    balancer.on('upgrade', (_request, socket) => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'));
    const { code, trouble } = await examine(to(`http://127.0.0.1:${await listenOn(balancer)}`));
    balancer.close();
    expect(code).toBe(0);
    expect(trouble).toEqual({ websocket: expect.stringContaining('so the agent uses the long poll') });
  });

  test('TLS with the authority in the file, without it, and with a broken file', async () => {
    expect(await examine(secured())).toMatchObject({ code: 0, trouble: {} });
    const { NODE_EXTRA_CA_CERTS: _, ...without } = secured();
    const unknown = await examine(without);
    expect(unknown.code).toBe(5);
    expect(unknown.trouble['tls']).toMatch(/issued by trusted root of the tests.* → Set NODE_EXTRA_CA_CERTS/);
    const broken = await examine(secured({ NODE_EXTRA_CA_CERTS: join(folder.path, 'nowhere.pem') }));
    expect(broken.code).toBe(2);
    expect(broken.trouble['authorities']).toMatch(/nowhere\.pem: ENOENT.* → Let NODE_EXTRA_CA_CERTS name/);
  });

  test('certificates for other names, and what is no TLS', async () => {
    const other = behindTls(certificates.wrongHost);
    const wrong = await examine(secured({ AGENT_SERVICE_URL: `https://localhost:${await listenOn(other)}` }));
    other.close();
    expect(wrong.trouble['tls']).toMatch(/is for other names: elsewhere\.vedette\.test → Use a name of the/);
    const plain = await examine(secured({ AGENT_SERVICE_URL: `https://localhost:${service.port}` }));
    expect(plain.trouble['tls']).toMatch(/does not speak TLS/);
  });
});

describe('vedette doctor behind a proxy that opens TLS', () => {
  test('without its authority: who issued the certificate; with it: no failure', async () => {
    await using proxy = await startInterceptingProxy(certificates.unknownRoot, certificates.trusted);
    const HTTPS_PROXY = `http://127.0.0.1:${proxy.port}`;
    const before = await examine(secured({ HTTPS_PROXY }));
    expect(before.code).toBe(5);
    expect(before.trouble['tls']).toMatch(
      /issued by unknown root of the tests, which is not trusted here.* → .*a proxy or firewall on the way replaces/,
    );
    const both = join(folder.path, 'both.pem');
    const unknown = readFileSync(join(folder.path, 'unknown.pem'), 'utf8');
    writeFileSync(both, readFileSync(certificates.trusted, 'utf8') + unknown);
    const after = await examine(secured({ HTTPS_PROXY, NODE_EXTRA_CA_CERTS: both }));
    expect(after).toMatchObject({ code: 0, trouble: {} });
    expect(proxy.read).toContain('POST /agent/v1/sessions HTTP/1.1');
  });
});

describe('vedette doctor and proxies', () => {
  test('one that forwards, in either case; NO_PROXY goes around it', async () => {
    await using proxy = await connectProxy();
    expect((await examine(to(service.url, { http_proxy: proxy.url }))).code).toBe(0);
    expect(new Set(proxy.asked)).toEqual(new Set([`127.0.0.1:${service.port}`]));
    proxy.asked.length = 0;
    const NO_PROXY = '127.0.0.0/8';
    expect((await examine(to(service.url, { HTTP_PROXY: proxy.url, NO_PROXY }))).code).toBe(0);
    expect(proxy.asked).toEqual([]);
  });

  test('one that is not there is named without its password', async () => {
    const HTTP_PROXY = `http://me:s3cr3t-word@127.0.0.1:${await freePort()}`;
    const { code, trouble, text } = await examine(to(service.url, { HTTP_PROXY }));
    expect(code).toBe(5);
    expect(trouble['connection']).toMatch(/refuses connections.* in HTTP_PROXY/);
    expect(text).not.toContain('s3cr3t-word');
  });
});

describeUnless(lacks('tinyproxy'), 'vedette doctor and a proxy that wants a password', () => {
  test('says so, and takes it', async () => {
    await using proxy = await startProxy(folder.path, { username: 'me', password: 's3cr3t-word' });
    const without = await examine(to(service.url, { HTTP_PROXY: `http://127.0.0.1:${proxy.port}` }));
    expect(without.code).toBe(5);
    expect(without.trouble['proxy']).toMatch(/answered 407 .* → Put user and password into HTTP_PROXY/);
    const HTTP_PROXY = `http://me:s3cr3t-word@127.0.0.1:${proxy.port}`;
    const withIt = await examine(to(service.url, { HTTP_PROXY }));
    expect(withIt).toMatchObject({ code: 0, trouble: {} });
    expect(withIt.text).not.toContain('s3cr3t-word');
  });
});

describeUnless(noNamespaces, 'vedette doctor in a network that leads nowhere', () => {
  test('a port that a firewall drops', { timeout: 90_000 }, async () => {
    await using cable = await startVoid();
    const { code, trouble } = await examine(to(`http://${VOID_ADDRESS}:8443`), { within: cable.within });
    expect(code).toBe(5);
    expect(trouble['connection']).toMatch(
      /^failed: no connection to 10\.99\.0\.2:8443 comes about: it does not answer → Open outgoing TCP to 10/,
    );
  });

  test('no route', async () => {
    await using cable = await startCutOff();
    const { trouble } = await examine(to('http://192.0.2.1'), { within: cable.within });
    expect(trouble['connection']).toMatch(
      /^failed: this machine has no route to 192\.0\.2\.1:80 \(ENETUNREACH\)/,
    );
  });
});

/** A machine with other name servers: none that answers, or one that knows nothing. */
function withNameServer(command: string): string[] {
  const file = join(folder.path, 'resolv.conf');
  writeFileSync(file, 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n');
  const shell = `ip link set lo up && mount --bind ${file} /etc/resolv.conf && ${command} exec "$0" "$@"`;
  return ['unshare', '-mnpf', '--kill-child', 'sh', '-c', shell];
}

describeUnless(noNamespaces ?? lacks('dnsmasq', 'unshare'), 'vedette doctor and name servers', () => {
  test('none that answers', async () => {
    const { code, trouble } = await examine(to('http://vedette.test'), { within: withNameServer('') });
    expect(code).toBe(5);
    expect(trouble['name']).toMatch(
      /^failed: no name server .* asked: 127\.0\.0\.1 → Open UDP and TCP port 53/,
    );
    expect(trouble['target-names']).toMatch(
      /^failed: names of targets cannot be looked up: .* → Make the name/,
    );
  });

  test('one that does not know the service', async () => {
    const server =
      'dnsmasq --keep-in-foreground --no-resolv --no-hosts --local=/test/ --pid-file= --user=root &';
    const wait = 'sleep 0.5;';
    const within = withNameServer(`{ ${server} } && ${wait}`);
    const { code, trouble } = await examine(to('http://vedette.test'), { within });
    expect(code).toBe(5);
    expect(trouble['name']).toMatch(/do not know vedette\.test \(ENOTFOUND\) → Correct AGENT_SERVICE_URL/);
    expect(trouble['target-names']).toMatch(/^warning: .*vedette\.test/);
  });
});

describeUnless(lacks('faketime'), 'vedette doctor and a clock that is wrong', () => {
  const at = (when: string): string[] => ['env', 'DONT_FAKE_MONOTONIC=1', 'faketime', '-f', when];

  test('a service without TLS tells by how much', async () => {
    const ahead = await examine(to(service.url), { within: at('+400d') });
    expect(ahead.code).toBe(3);
    expect(ahead.trouble['clock']).toMatch(
      /^failed: the clock of this machine is 400 days ahead of that of the service → Synchronise/,
    );
    const slightly = await examine(to(service.url), { within: at('-20s') });
    expect(slightly.code).toBe(0);
    expect(slightly.trouble['clock']).toMatch(/^warning: .* is (19|20|21) s behind/);
  });

  test('a certificate that is not of this time: the clock is named beside it', async () => {
    const { code, trouble } = await examine(secured(), { within: at('+50y') });
    expect(code).toBe(5);
    expect(trouble['tls']).toMatch(/has expired on .* → Set the clock of this machine, which says 207\d-/);
    expect(trouble['clock']).toMatch(/^failed: the clock of this machine is 18\d{3} days ahead/);
  });
});
