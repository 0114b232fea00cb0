import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { a, cname, packet, startDnsServer, TC, type Answering } from '../../../test/support/dns-server.ts';
import { createResolver, type ResolverOptions } from './index.ts';

const closers: (() => Promise<unknown>)[] = [];
let folder = '';
const never = new AbortController().signal;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'resolver-'));
  closers.push(() => rm(folder, { recursive: true }));
});
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function dnsServer(answering: Answering, address?: string) {
  const server = await startDnsServer(answering, address);
  closers.push(() => server.close());
  return server;
}

async function files(conf: string, hosts = ''): Promise<Pick<ResolverOptions, 'hostsFile' | 'resolvConf'>> {
  const paths = { hostsFile: join(folder, 'hosts'), resolvConf: join(folder, 'resolv.conf') };
  await writeFile(paths.hostsFile, hosts);
  await writeFile(paths.resolvConf, conf);
  return paths;
}

async function resolverFor(servers: { text: string }[], conf = 'options timeout:1', hosts = '') {
  const paths = await files(conf, hosts);
  return createResolver({ servers: servers.map(({ text }) => text), useOsResolver: false, ...paths });
}

async function addressesOf(
  resolver: ReturnType<typeof createResolver>,
  name: string,
  family: 4 | 6 = 4,
): Promise<string[]> {
  const { addresses } = await resolver.resolve(name, family, never);
  return addresses.map(({ address }) => address);
}

/** Every name has this one record. */
const always =
  (address: string): Answering =>
  ({ name }) => ({ answers: [a(name, address)] });

describe('without a question', () => {
  test.each([
    ['192.0.2.7', 4, '192.0.2.7', 'literal'],
    ['192.0.2.7', 6, '192.0.2.7', 'literal'],
    ['[2001:db8::1]', 4, '2001:db8::1', 'literal'],
    ['fe80::1%lo', 6, 'fe80::1%lo', 'literal'],
    ['localhost', 4, '127.0.0.1', 'loopback'],
    ['LOCALHOST.', 6, '::1', 'loopback'],
    ['db.app.localhost', 4, '127.0.0.1', 'loopback'],
  ] as const)('%s for IPv%i is %s', async (name, family, address, source) => {
    const resolver = await resolverFor([{ text: '127.0.0.1:1' }]);
    const found = await resolver.resolve(name, family, never);
    expect(found.addresses[0]?.address).toBe(address);
    expect(found.source).toBe(source);
  });

  test.each([
    ['256.1.1.1', 'ERR_INVALID_IP_ADDRESS'],
    ['1.2.3', 'ERR_INVALID_IP_ADDRESS'],
    ['2001:db8::zz', 'ERR_INVALID_IP_ADDRESS'],
    [`${'x'.repeat(64)}.example`, 'ENOTFOUND'],
    [`${'a.'.repeat(127)}toolong`, 'ENOTFOUND'],
    ['a..example', 'ENOTFOUND'],
    ['', 'ENOTFOUND'],
    ['xn--\u{1F}é', 'ENOTFOUND'],
  ])('%j cannot be a host: %s', async (name, code) => {
    const resolver = await resolverFor([{ text: '127.0.0.1:1' }]);
    await expect(resolver.resolve(name, 4, never)).rejects.toMatchObject({ name: 'NameError', code });
  });

  test('the hosts file is read, in any case, and only for the family it has', async () => {
    const server = await dnsServer(always('192.0.2.99'));
    const hosts = '# c\n192.0.2.5  Alpha alpha.example # note\n2001:db8::5 alpha\nnonsense beta\n';
    const resolver = await resolverFor([server], '', hosts);
    expect(await addressesOf(resolver, 'ALPHA')).toEqual(['192.0.2.5']);
    expect(await addressesOf(resolver, 'alpha', 6)).toEqual(['2001:db8::5']);
    expect(await addressesOf(resolver, 'alpha.example.')).toEqual(['192.0.2.5']);
    expect(await addressesOf(resolver, 'beta')).toEqual(['192.0.2.99']);
  });
});

describe('answers', () => {
  test('all addresses are returned in the order of the answer, with the server named', async () => {
    const server = await dnsServer(({ name }) => ({ answers: [a(name, '192.0.2.2'), a(name, '192.0.2.1')] }));
    const resolver = await resolverFor([server]);
    const found = await resolver.resolve('www.example', 4, never);
    expect(found.addresses.map(({ address }) => address)).toEqual(['192.0.2.2', '192.0.2.1']);
    expect(found.source).toBe(server.text);
  });

  test('AAAA records are asked for IPv6', async () => {
    const server = await dnsServer(({ name, type }) => ({
      answers: type === 'AAAA' ? [{ type: 'AAAA', name, data: '2001:db8::7', ttl: 1 }] : [],
    }));
    expect(await addressesOf(await resolverFor([server]), 'six.example', 6)).toEqual(['2001:db8::7']);
  });

  test('names with underscores, capitals and other scripts are asked for', async () => {
    const server = await dnsServer(always('192.0.2.1'));
    const resolver = await resolverFor([server]);
    await addressesOf(resolver, '_dmarc.Example.com');
    await addressesOf(resolver, 'bücher.example');
    expect(server.asked.map(({ name }) => name)).toEqual(['_dmarc.Example.com', 'xn--bcher-kva.example']);
  });

  test('a chain of aliases within the answer is followed, whatever its order', async () => {
    const server = await dnsServer(() => ({
      answers: [
        a('end.example', '192.0.2.9'),
        cname('mid.example', 'END.example'),
        cname('start.example', 'mid.example'),
      ],
    }));
    expect(await addressesOf(await resolverFor([server]), 'start.example')).toEqual(['192.0.2.9']);
  });

  test('an alias without its addresses is asked for in turn', async () => {
    const server = await dnsServer(({ name }) =>
      name === 'start.example'
        ? { answers: [cname(name, 'end.example')] }
        : { answers: [a(name, '192.0.2.3')] },
    );
    expect(await addressesOf(await resolverFor([server]), 'start.example')).toEqual(['192.0.2.3']);
  });

  test('aliases that go round in a circle end as a failure of the name', async () => {
    const server = await dnsServer(() => ({
      answers: [cname('a.example', 'b.example'), cname('b.example', 'a.example')],
    }));
    const resolver = await resolverFor([server]);
    await expect(resolver.resolve('a.example', 4, never)).rejects.toMatchObject({ code: 'ESERVFAIL' });
  });

  test('records of other names are not believed', async () => {
    const server = await dnsServer(() => ({ answers: [a('other.example', '192.0.2.66')] }));
    const resolver = await resolverFor([server]);
    await expect(resolver.resolve('a.example', 4, never)).rejects.toMatchObject({ code: 'ENODATA' });
  });

  test('a truncated answer is asked again over TCP', async () => {
    const server = await dnsServer(({ name, protocol }) =>
      protocol === 'UDP' ? { flags: TC } : { answers: [a(name, '192.0.2.4')] },
    );
    expect(await addressesOf(await resolverFor([server]), 'big.example')).toEqual(['192.0.2.4']);
  });

  test('where no TCP gets through, the addresses of the truncated answer are used', async () => {
    const server = await dnsServer(({ name, protocol }) =>
      protocol === 'UDP' ? { flags: TC, answers: [a(name, '192.0.2.4')] } : null,
    );
    expect(await addressesOf(await resolverFor([server]), 'big.example')).toEqual(['192.0.2.4']);
  });

  test('an answer with a wrong id or a wrong question is passed over', async () => {
    const server = await dnsServer(({ name, query }) => [
      packet({ id: ((query.id ?? 0) + 1) & 0xffff, answers: [a(name, '192.0.2.66')] }, query),
      packet({ questions: [{ name: 'x.example', type: 'A' }], answers: [a(name, '192.0.2.66')] }, query),
      Buffer.from('noise'),
      packet({ answers: [a(name, '192.0.2.1')] }, query),
    ]);
    expect(await addressesOf(await resolverFor([server]), 'spoofed.example')).toEqual(['192.0.2.1']);
  });

  test('a server that does not know EDNS is asked without it', async () => {
    const server = await dnsServer(({ name, query }) =>
      (query.additionals?.length ?? 0) > 0
        ? { rcode: 1, questions: [] }
        : { answers: [a(name, '192.0.2.1')] },
    );
    const resolver = await resolverFor([server], 'options edns0 timeout:1');
    expect(await addressesOf(resolver, 'old.example')).toEqual(['192.0.2.1']);
  });
});

describe('whose fault it is', () => {
  test.each([
    [3, 'ENOTFOUND'],
    [0, 'ENODATA'],
    [2, 'ESERVFAIL'],
  ])('rcode %i without records is %s, a failure of the name', async (rcode, code) => {
    const server = await dnsServer(() => ({ rcode }));
    const resolver = await resolverFor([server]);
    await expect(resolver.resolve('gone.example', 4, never)).rejects.toMatchObject({
      name: 'NameError',
      code,
      hostname: 'gone.example',
      source: server.text,
    });
  });

  test('a refusing resolver is the fault of the agent', async () => {
    const server = await dnsServer(() => ({ rcode: 5 }));
    const resolver = await resolverFor([server]);
    const failure = { name: 'AgentFault', code: 'RESOLVER_UNREACHABLE' };
    await expect(resolver.resolve('a.example', 4, never)).rejects.toMatchObject(failure);
    await expect(resolver.resolve('a.example', 4, never)).rejects.toThrow(`${server.text}: REFUSED`);
  });

  test('silent resolvers are named with the time they were given', async () => {
    const [one, two] = [await dnsServer(() => null), await dnsServer(() => null)];
    const resolver = await resolverFor([one, two], 'options timeout:1 attempts:1');
    await expect(resolver.resolve('a.example', 4, never)).rejects.toThrow(
      `no answer from ${one.text} and ${two.text} within 1000 ms`,
    );
  });

  test('a closed port is told at once', async () => {
    const server = await startDnsServer(() => null);
    await server.close();
    const resolver = await resolverFor([server], 'options timeout:30');
    await expect(resolver.resolve('a.example', 4, never)).rejects.toThrow('refused the query');
  });

  test('the next server is asked when one is silent, refuses or fails', async () => {
    const good = await dnsServer(always('192.0.2.1'));
    for (const bad of [() => null, () => ({ rcode: 5 }), () => ({ rcode: 2 })] satisfies Answering[]) {
      const resolver = await resolverFor([await dnsServer(bad), good]);
      expect(await addressesOf(resolver, 'a.example')).toEqual(['192.0.2.1']);
    }
  });

  test('a cancelled caller leaves at once', async () => {
    const server = await dnsServer(() => null);
    const resolver = await resolverFor([server]);
    const cancel = new AbortController();
    const waiting = resolver.resolve('a.example', 4, cancel.signal);
    cancel.abort(new Error('cancelled'));
    await expect(waiting).rejects.toThrow('cancelled');
  });
});

describe('search list', () => {
  const only =
    (existing: string): Answering =>
    ({ name }) =>
      name === existing ? { answers: [a(name, '192.0.2.8')] } : { rcode: 3 };
  const conf = 'search ns.svc.cluster.local svc.cluster.local\noptions ndots:2 timeout:1';

  test.each([
    ['db', 'db.ns.svc.cluster.local', ['db.ns.svc.cluster.local']],
    [
      'db.other',
      'db.other.svc.cluster.local',
      ['db.other.ns.svc.cluster.local', 'db.other.svc.cluster.local'],
    ],
    ['www.example.com', 'www.example.com', ['www.example.com']],
    ['example.com.', 'example.com', ['example.com']],
  ])('%s is found as %s', async (name, existing, asked) => {
    const server = await dnsServer(only(existing));
    const resolver = await resolverFor([server], conf);
    expect(await addressesOf(resolver, name)).toEqual(['192.0.2.8']);
    expect(server.asked.map((each) => each.name)).toEqual(asked);
  });

  test('a server failure ends the search', async () => {
    const server = await dnsServer(({ name }) =>
      name === 'a.b.c' ? { rcode: 2 } : { answers: [a(name, '192.0.2.8')] },
    );
    const resolver = await resolverFor([server], conf);
    await expect(resolver.resolve('a.b.c', 4, never)).rejects.toMatchObject({ code: 'ESERVFAIL' });
  });
});

describe('remembering', () => {
  test('an answer is asked once within its TTL, and not remembered when that is 0', async () => {
    const server = await dnsServer(({ name }) => ({
      answers: [a(name, '192.0.2.1', name.startsWith('zero') ? 0 : 60)],
    }));
    const resolver = await resolverFor([server]);
    for (const name of ['a.example', 'A.example', 'zero.example', 'zero.example'])
      await addressesOf(resolver, name);
    expect(server.asked.map(({ name }) => name)).toEqual(['a.example', 'zero.example', 'zero.example']);
  });

  test('callers at the same time share one question', async () => {
    const server = await dnsServer(always('192.0.2.1'));
    const resolver = await resolverFor([server]);
    await Promise.all(Array.from({ length: 20 }, () => addressesOf(resolver, 'a.example')));
    expect(server.asked).toHaveLength(1);
  });

  test('what does not exist is asked again', async () => {
    let exists = false;
    const server = await dnsServer(({ name }) =>
      exists ? { answers: [a(name, '192.0.2.1')] } : { rcode: 3 },
    );
    const resolver = await resolverFor([server]);
    await expect(addressesOf(resolver, 'new.example')).rejects.toMatchObject({ code: 'ENOTFOUND' });
    exists = true;
    expect(await addressesOf(resolver, 'new.example')).toEqual(['192.0.2.1']);
  });
});

describe('resolv.conf', () => {
  test('its name servers are used, at most three; without any, the one on this machine', async () => {
    const conf =
      '; old\nnameserver 192.0.2.1\nnameserver ::1\nnameserver junk\nnameserver 192.0.2.3\nnameserver 192.0.2.4';
    const resolver = createResolver({ useOsResolver: false, ...(await files(conf)) });
    expect(resolver.servers().map(({ address }) => address)).toEqual(['192.0.2.1', '::1', '192.0.2.3']);
    const bare = createResolver({ useOsResolver: false, resolvConf: join(folder, 'missing') });
    expect(bare.servers()).toEqual([{ address: '127.0.0.1', port: 53 }]);
  });

  test('a server that is no address is refused', () => {
    expect(() => createResolver({ servers: ['dns.example'], useOsResolver: false })).toThrow('dns.example');
  });
});

test('the operating system is asked when told to', async () => {
  const resolver = createResolver({ useOsResolver: true });
  const told = await resolver.resolve(hostname(), 4, never).catch((error: unknown) => error);
  expect(JSON.stringify(told) + String(told)).toContain('OS resolver');
});
