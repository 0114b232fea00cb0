import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ComparisonTable } from '../support/comparison.ts';
import { compareHttp, type HttpSetting } from '../support/http-comparison.ts';
import { startProbe } from '../support/probe.ts';
import { describeUnless, lacks } from '../support/programs.ts';
import { verifyCode } from '../support/references/openssl.ts';
import { GOOD_NAME, makeCertificates, WILDCARD_NAME } from '../support/targets/certificates.ts';
import { startHttp2Only, type Http2Only } from '../support/targets/http2-only.ts';
import { startNamed, type Named } from '../support/targets/named.ts';
import { BASIC_AUTH, BIG_BODY_BYTES, startNginx, type Nginx } from '../support/targets/nginx.ts';
import { closing, silent, startTcp, type TcpTarget } from '../support/targets/odd-tcp.ts';
import { startProxy, type Proxy } from '../support/targets/proxy.ts';

interface Setting extends HttpSetting {
  folder: string;
  trusted: string;
  nginx: Nginx;
  named: Named;
  proxy: Proxy;
  guardedProxy: Proxy;
  http2Only: Http2Only;
  mute: TcpTarget;
  curt: TcpTarget;
}

const PROXY_USER = { username: 'through', password: 'letmein' };
const lacking = lacks('curl', 'openssl', 'nginx', 'named', 'dig', 'tinyproxy');

describeUnless(lacking, 'against real servers', () => {
  let setting: Setting;

  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vedette-targets-'));
    const certificates = await makeCertificates(folder);
    const [nginx, named, proxy, guardedProxy, http2Only, mute, curt] = await Promise.all([
      startNginx(folder, certificates),
      startNamed(join(folder, 'named')),
      startProxy(folder),
      startProxy(folder, PROXY_USER),
      startHttp2Only(certificates.good),
      startTcp(silent),
      startTcp(closing),
    ]);
    const { trusted } = certificates;
    const probe = await startProbe({ trusted, nameServers: [`127.0.0.1:${named.port}`] });
    setting = { folder, trusted, nginx, named, proxy, guardedProxy, http2Only, mute, curt, probe };
  });
  afterAll(async () => {
    const { folder, trusted: _, ...running } = setting;
    await Promise.all(Object.values(running).map((each) => each.stop()));
    rmSync(folder, { recursive: true });
  });

  const tls =
    (certificate: keyof Nginx['tls'], more: object = {}, name: string = GOOD_NAME) =>
    ({ nginx }: Setting) => ({ url: `https://${name}:${nginx.tls[certificate]}/`, ...more });
  const own =
    (port: 'tls12Only' | 'tls13Only' | 'tls11Only' | 'http2' | 'clientCertificate', more: object = {}) =>
    ({ nginx }: Setting) => ({ url: `https://${GOOD_NAME}:${nginx[port]}/`, ...more });
  const page =
    (path: string, more: object = {}) =>
    ({ nginx }: Setting) => ({ url: `http://127.0.0.1:${nginx.plain}${path}`, ...more });
  const unverified = { request: { skipSSL: true }, curl: ['-4', '--insecure'] };
  const v6 = { request: { ipFamily: 'IPv6' }, curl: ['-6'], overIpv6: true };
  const withUser = ({ username, password }: typeof PROXY_USER): string =>
    `${encodeURIComponent(username)}:${encodeURIComponent(password)}@`;

  describe('URL and API checks agree with curl', () => {
    compareHttp('URL and API checks against curl: nginx, TLS, names, proxies', () => setting, {
      'certificate good': tls('good'),
      'certificate good, by address': tls('good', {}, '127.0.0.1'),
      'certificate with wildcard': tls('wildcard', {}, WILDCARD_NAME),
      'wildcard, two labels': tls('wildcard', {}, GOOD_NAME),
      'intermediate sent': tls('viaIntermediate'),
      'intermediate missing': tls('intermediateMissing'),
      'certificate expired': tls('expired'),
      'certificate expired, skipSSL': tls('expired', unverified),
      'certificate not yet valid': tls('notYetValid'),
      'certificate of another host': tls('wrongHost'),
      'other host, skipSSL': tls('wrongHost', unverified),
      'name in the subject only': tls('subjectOnly'),
      'certificate self-signed': tls('selfSigned'),
      'self-signed, skipSSL': tls('selfSigned', unverified),
      'unknown root': tls('unknownRoot'),
      'SNI, first name': ({ nginx }) => ({ url: `https://${GOOD_NAME}:${nginx.sni}/` }),
      'SNI, second name': ({ nginx }) => ({ url: `https://${WILDCARD_NAME}:${nginx.sni}/` }),
      'SNI, unknown name': ({ nginx }) => ({ url: `https://sni.vedette.test:${nginx.sni}/` }),
      'TLS 1.2 only': own('tls12Only'),
      'TLS 1.3 only': own('tls13Only'),
      'TLS 1.1 only': own('tls11Only'),
      'TLS 1.1 only, skipSSL': own('tls11Only', unverified),
      'HTTP/2 and 1.1 offered': own('http2'),
      'HTTP/2 only': ({ http2Only }) => ({ url: `https://${GOOD_NAME}:${http2Only.port}/` }),
      'handshake never answered': ({ mute }) => ({
        url: `https://127.0.0.1:${mute.port}/`,
        timesOut: { phase: 'tls', ms: 1000 },
      }),
      'closes in the handshake': ({ curt }) => ({ url: `https://127.0.0.1:${curt.port}/` }),
      'client certificate wanted': own('clientCertificate'),
      'http:// to a TLS port': ({ nginx }) => ({ url: `http://127.0.0.1:${nginx.tls.good}/` }),
      'https:// to a plain port': ({ nginx }) => ({ url: `https://127.0.0.1:${nginx.plain}/` }),
      'nginx, plain': page('/'),
      'nginx, gzip': page('/gzip/long.txt', { body: 'nothing' }),
      'nginx, 30 MB': page('/big.bin', { body: 'nothing' }),
      'nginx, throttled': page('/limited', { body: 'nothing' }),
      'nginx, two redirects': page('/moved/twice'),
      'nginx, redirect loop': page('/moved/loop'),
      'nginx, status 503': page('/status/503', { body: 'nothing' }),
      'basic auth': page('/private', {
        type: 'API',
        request: { basicAuth: BASIC_AUTH },
        curl: ['--user', `${BASIC_AUTH.username}:${BASIC_AUTH.password}`],
      }),
      'basic auth missing': page('/private'),
      'basic auth in the address': ({ nginx }) => ({
        url: `http://${withUser(BASIC_AUTH)}127.0.0.1:${nginx.plain}/private`,
      }),
      'name with CNAME': ({ nginx }) => ({ url: `http://alias.vedette.test:${nginx.plain}/` }),
      'IPv6 only, IPv6 wanted': ({ nginx }) => ({
        url: `http://v6.vedette.test:${nginx.ipv6Only}/`,
        ...v6,
      }),
      'IPv6 literal': ({ nginx }) => ({ url: `http://[::1]:${nginx.ipv6Only}/`, ...v6 }),
      'two families, IPv4 wanted': ({ nginx }) => ({ url: `http://dual.vedette.test:${nginx.plain}/` }),
      'two families, IPv6 wanted': ({ nginx }) => ({
        url: `http://dual.vedette.test:${nginx.ipv6Only}/`,
        ...v6,
      }),
      'two families, none on IPv4': ({ nginx }) => ({
        url: `http://dual.vedette.test:${nginx.ipv6Only}/`,
        overIpv6: true,
      }),
      'two families, none on IPv6': ({ nginx }) => ({
        url: `http://dual.vedette.test:${nginx.plain}/`,
        ...v6,
      }),
      'IPv6 name, IPv4 wanted': ({ nginx }) => ({ url: `http://v6.vedette.test:${nginx.plain}/` }),
      'IPv4 name, IPv6 wanted': ({ nginx }) => ({ url: `http://v4.vedette.test:${nginx.plain}/`, ...v6 }),
      NXDOMAIN: ({ nginx }) => ({ url: `http://nowhere.vedette.test:${nginx.plain}/` }),
      'proxy, http': ({ nginx, proxy }) => ({
        url: `http://127.0.0.1:${nginx.plain}/`,
        proxyUrl: `http://127.0.0.1:${proxy.port}`,
      }),
      'proxy, https': ({ nginx, proxy }) => ({
        url: `https://localhost:${nginx.tls.good}/`,
        proxyUrl: `http://127.0.0.1:${proxy.port}`,
      }),
      'proxy, https, expired': ({ nginx, proxy }) => ({
        url: `https://localhost:${nginx.tls.expired}/`,
        proxyUrl: `http://127.0.0.1:${proxy.port}`,
      }),
      'proxy with user': ({ nginx, guardedProxy }) => ({
        url: `https://localhost:${nginx.tls.good}/`,
        proxyUrl: `http://${withUser(PROXY_USER)}127.0.0.1:${guardedProxy.port}`,
      }),
    });
  });

  describe('certificate verdicts agree with openssl s_client', () => {
    const table = new ComparisonTable('Certificates against openssl s_client');
    afterAll(() => table.print());
    const kinds = [
      'good',
      'wildcard',
      'viaIntermediate',
      'intermediateMissing',
      'expired',
      'notYetValid',
      'wrongHost',
      'subjectOnly',
      'selfSigned',
      'unknownRoot',
    ] as const;

    test.each(kinds)('%s', async (kind) => {
      const { probe, nginx, trusted } = setting;
      const name = kind === 'wildcard' ? WILDCARD_NAME : GOOD_NAME;
      const spec = { request: { url: `https://${name}:${nginx.tls[kind]}/` } };
      const report = await probe.run('URL', spec);
      const ours = report.errors[0]?.code ?? 'OK';
      const reference = await verifyCode('127.0.0.1', nginx.tls[kind], name, trusted);
      const found = ours === reference ? [] : [`${ours} against ${reference}`];
      table.add({ target: kind, ours, reference, disagreements: found, deliberate: undefined });
      expect(found).toEqual([]);
    });
  });

  test('a body of 30 MB is read up to the limit and reported as truncated', async () => {
    const url = `http://127.0.0.1:${setting.nginx.plain}/big.bin`;
    const report = await setting.probe.run('API', { request: { url } });
    expect(report.flags).toMatchObject({ hasFailures: false, hasErrors: false });
    expect(report.statusCode).toBe(200);
    const { response } = report.detail['apiCheckResult'] as {
      response: { truncated: boolean; body: string };
    };
    expect(response.truncated).toBe(true);
    expect(response.body.length).toBeLessThan(BIG_BODY_BYTES);
  });

  test('what a proxy refuses is reported as the proxy’s refusal', async () => {
    const { nginx, guardedProxy, probe } = setting;
    const spec = { request: { url: `https://localhost:${nginx.tls.good}/` } };
    const report = await probe.run('URL', spec, { proxyUrl: `http://127.0.0.1:${guardedProxy.port}` });
    expect(report.flags.hasFailures && report.flags.hasErrors).toBe(false);
    expect(report.errors[0]?.message).toMatch(/407/);
  });
});
