import { expect, test } from 'vitest';
import { proxyFor } from './proxies.ts';

const PROXIES = { httpsProxy: 'http://s.proxy:3128', httpProxy: 'http://h.proxy:3128' };
const proxy = (target: string, noProxy = ''): string | undefined =>
  proxyFor(new URL(target), { ...PROXIES, noProxy })?.host;

test('the scheme of the target chooses the proxy', () => {
  expect(proxy('https://service.example')).toBe('s.proxy:3128');
  expect(proxy('http://service.example')).toBe('h.proxy:3128');
  expect(
    proxyFor(new URL('https://x.example'), { ...PROXIES, httpsProxy: undefined, noProxy: '' }),
  ).toBeUndefined();
});

test.each([
  ['https://service.example', '*'],
  ['https://service.example', 'service.example'],
  ['https://SERVICE.example', 'other.example, Service.Example'],
  ['https://a.service.example', '.service.example'],
  ['https://a.service.example', 'service.example'],
  ['https://a.service.example', '*.service.example'],
  ['https://service.example', 'service.example:443'],
  ['http://service.example:8080', 'service.example:8080'],
  ['http://10.1.2.3', '10.1.2.3'],
  ['http://10.1.2.3', '10.0.0.0/8'],
  ['http://[fd00::1]', 'fd00::/8'],
  ['http://[fd00::1]', 'fd00::1'],
  ['http://localhost:3000', 'x localhost y'],
])('%s is reached directly with NO_PROXY=%s', (target, noProxy) => {
  expect(proxy(target, noProxy)).toBeUndefined();
});

test.each([
  ['https://service.example', 'ervice.example'],
  ['https://service.example', 'service.example.org'],
  ['https://service.example', 'service.example:8443'],
  ['http://10.1.2.3', '0.0.0.0/99'],
  ['http://10.1.2.3', '11.0.0.0/8'],
  ['http://10.1.2.3', '2.3'],
  ['http://10.1.2.3', 'fd00::/8'],
])('%s goes through the proxy with NO_PROXY=%s', (target, noProxy) => {
  expect(proxy(target, noProxy)).toBeDefined();
});
