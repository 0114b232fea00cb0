import { describe, expect, test } from 'vitest';
import { parsePolicy } from './index.ts';

const at = (host: string, port: number | null = 443, address: string | null = null) => ({
  host,
  address,
  port,
});
/** By name, as a resolver found it. */
const found = (host: string, address: string, port = 443) => ({ host, address, port });

describe('without settings', () => {
  const policy = parsePolicy('', '');

  test.each([
    'shop.example',
    '10.0.0.1',
    '127.0.0.1',
    '::1',
    'fe80::1%eth0',
    '2001:db8::1',
    '100.100.100.201',
  ])('%s may be reached', (host) => expect(policy.check(at(host))).toBeNull());

  test.each([
    '169.254.169.254',
    '169.254.170.2',
    '[::ffff:169.254.169.254]',
    '::ffff:a9fe:a9fe',
    '::169.254.169.254',
    '::ffff:0:169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b:1::a9fe:a9fe',
    '64:ff9b:1:a9fe:a9:fe00::',
    '64:ff9b:1:a9:fe:a9fe::',
    '64:ff9b:1::a9:fea9:fe00:0',
    '2002:a9fe:a9fe::1',
    'fd00:ec2::254',
    'fd00:ec2:0:0:0:0:0:23',
    'fe80::a9fe:a9fe%eth0',
    '100.100.100.200',
    '192.0.0.192',
    '168.63.129.16',
    'METADATA.google.internal.',
    'metadata',
  ])('%s is where a cloud answers its machines', (host) => {
    expect(policy.check(at(host, 80))).toBe(
      `${host} port 80 is where a cloud keeps the keys of its machines (${cloudOf(host)}): it stays blocked until ALLOWED_TARGETS of this agent names it`,
    );
  });

  test('a name is judged by the address that is connected to', () => {
    expect(policy.check(found('evil.example', '169.254.169.254', 80))).toMatch(
      /^evil\.example \(169\.254\.169\.254\) port 80 is where a cloud/,
    );
  });

  test('without a port too', () => {
    expect(policy.check(at('169.254.1.1', null))).toMatch(/^169\.254\.1\.1 is where/);
  });
});

function cloudOf(host: string): string {
  const exact = ['100.100.100.200', '192.0.0.192', '168.63.129.16', 'metadata'];
  if (exact.includes(host)) return host;
  if (host.startsWith('fd00')) return 'fd00:ec2::/32';
  if (host.startsWith('fe80')) return 'fe80::a9fe:a9fe';
  return host.startsWith('META') ? 'metadata.google.internal' : '169.254.0.0/16';
}

describe('BLOCKED_TARGETS', () => {
  const policy = parsePolicy(
    '10.0.0.0/8, 192.168.1.7:5432\n[fd12::/16]:80 *.Internal.example. db-* *:25 bücher.example',
    '',
  );

  test.each([
    at('10.255.0.1'),
    found('shop.example', '10.1.2.3'),
    found('shop.example', '::ffff:10.1.2.3'),
    at('192.168.1.7', 5432),
    at('[fd12::9]', 80),
    at('a.b.internal.EXAMPLE'),
    at('db-7'),
    at('203.0.113.9', 25),
    at('xn--bcher-kva.example'),
    at('Bücher.example'),
  ])('has $host $address $port', (target) => {
    expect(policy.check(target)).toMatch(/ is blocked by \S+ in BLOCKED_TARGETS of this agent$/);
  });

  test.each([
    at('11.0.0.1'),
    at('192.168.1.7', 80),
    at('fd12::9', 81),
    at('internal.example'),
    at('mydb-7'),
    at('203.0.113.9', null),
  ])('does not have $host $port', (target) => expect(policy.check(target)).toBeNull());

  test('says which entry', () => {
    expect(policy.check(found('shop.example', '10.1.2.3', 80))).toBe(
      'shop.example (10.1.2.3) port 80 is blocked by 10.0.0.0/8 in BLOCKED_TARGETS of this agent',
    );
  });

  test('127.0.0.0/8 covers the unspecified address, which leads to the same place', () => {
    const local = parsePolicy('127.0.0.0/8', '');
    for (const host of ['0.0.0.0', '::', '::ffff:0.0.0.0'])
      expect(local.check(at(host))).toMatch(/BLOCKED_TARGETS/);
  });

  test('0.0.0.0/0 leaves IPv6 alone, ::/0 has everything', () => {
    expect(parsePolicy('0.0.0.0/0', '').check(at('2001:db8::1'))).toBeNull();
    expect(parsePolicy('0.0.0.0/0', '').check(at('1.2.3.4'))).toMatch(/BLOCKED/);
    expect(parsePolicy('::/0', '').check(at('1.2.3.4'))).toMatch(/BLOCKED/);
  });
});

describe('ALLOWED_TARGETS', () => {
  test('nothing else may be reached', () => {
    const policy = parsePolicy('', '*.shop.example 10.0.0.0/8:443');
    expect(policy.check(found('www.shop.example', '203.0.113.9'))).toBeNull();
    expect(policy.check(found('intra.example', '10.0.0.9'))).toBeNull();
    expect(policy.check(found('intra.example', '10.0.0.9', 80))).toBe(
      'intra.example (10.0.0.9) port 80 is not in ALLOWED_TARGETS of this agent',
    );
    // Of a name that a proxy resolves no address is known.
    expect(policy.check(at('intra.example'))).toMatch(/not in ALLOWED_TARGETS/);
  });

  test('what is blocked stays blocked', () => {
    expect(parsePolicy('10.0.0.0/8', '10.0.0.1').check(at('10.0.0.1'))).toMatch(/BLOCKED_TARGETS/);
  });

  test.each(['*', '0.0.0.0/0 ::/0', '*.example', 'evil.example', '168.0.0.0/4'])(
    '%s opens no metadata',
    (allowed) => {
      expect(parsePolicy('', allowed).check(found('evil.example', '169.254.169.254'))).not.toBeNull();
    },
  );

  test('an entry for it and nothing else opens metadata, for its spelling and port', () => {
    const policy = parsePolicy('', '* 169.254.169.254:80 metadata.google.internal');
    expect(policy.check(at('169.254.169.254', 80))).toBeNull();
    expect(policy.check(at('[::ffff:169.254.169.254]', 80))).toBeNull();
    expect(policy.check(found('metadata.google.internal', '169.254.169.254', 8080))).toBeNull();
    expect(policy.check(at('169.254.169.254', 8080))).not.toBeNull();
    expect(policy.check(at('169.254.170.2', 80))).not.toBeNull();
    expect(policy.check(at('64:ff9b::a9fe:a9fe', 80))).not.toBeNull();
    expect(policy.check(at('shop.example'))).toBeNull();
  });
});

describe('entries that mean nothing', () => {
  test.each([
    '10.0.0/8',
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0.256',
    '10.*',
    '300',
    'http://a.example',
    'a..b',
    'fd00::1:80:x',
    '10.0.0.0/8/8',
    '[fd00::1',
    'a_b/24',
    '0x7f.1',
  ])('%s', (entry) => {
    const parse = (): unknown => parsePolicy(`192.0.2.1,${entry}`, '');
    expect(parse).toThrow(`BLOCKED_TARGETS: ${entry} is no target: a CIDR (10.0.0.0/8), an address`);
  });

  test('a port out of range', () => {
    expect(() => parsePolicy('', 'a.example:0')).toThrow(
      'ALLOWED_TARGETS: a.example:0 has a port that is not between',
    );
    expect(() => parsePolicy('', '10.0.0.1:70000')).toThrow(/70000 has a port/);
  });
});
