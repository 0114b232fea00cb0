import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TryReport } from '../../src/checks/execute.ts';
import { ComparisonTable } from '../support/comparison.ts';
import { a, packet, startDnsServer, TC, type Answering, type TestDnsServer } from '../support/dns-server.ts';
import { startProbe, type Probe } from '../support/probe.ts';
import { describeUnless, lacks } from '../support/programs.ts';
import { dig, readDig, type DigReport } from '../support/references/dig.ts';
import { verdictOf } from '../support/references/http-agreement.ts';
import { startNamed, type Named } from '../support/targets/named.ts';
import { freePort, lacksIpv6 } from '../support/targets/ports.ts';

interface Row {
  name: string;
  type?: 'A' | 'AAAA' | 'CNAME' | 'MX' | 'TXT' | 'SOA' | 'NS' | 'HTTPS';
  protocol?: 'UDP' | 'TCP';
  /** 127.0.0.1 without. */
  host?: string;
  /** That of BIND without. */
  port?: number;
  dig?: readonly string[];
}

const PAUSE_MS = 400;
const address = a('odd.vedette.test', '127.0.0.5');
const oddities = {
  silent: () => null,
  garbage: () => Buffer.from('this is not a DNS message'),
  otherId: ({ query }) => packet({ answers: [address] }, { ...query, id: ((query.id ?? 0) + 1) % 65_536 }),
  truncating: ({ protocol }) => (protocol === 'UDP' ? { flags: TC } : { answers: [address] }),
  late: () => ({ answers: [address] }),
  notImplemented: () => ({ rcode: 4 }),
} satisfies Record<string, Answering>;

describeUnless(lacks('named', 'dig'), 'DNS checks agree with dig', () => {
  const table = new ComparisonTable('DNS checks against dig');
  let folder: string;
  let named: Named;
  let odd: Record<keyof typeof oddities, TestDnsServer>;
  let closedPort: number;
  let probe: Probe;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'vedette-dns-'));
    named = await startNamed(folder);
    const started = await Promise.all(
      Object.entries(oddities).map(async ([name, answer]) => {
        const pauseMs = name === 'late' ? PAUSE_MS : 0;
        return [name, await startDnsServer(answer, '127.0.0.1', pauseMs)] as const;
      }),
    );
    odd = Object.fromEntries(started) as typeof odd;
    closedPort = await freePort();
    probe = await startProbe({});
  });
  afterAll(async () => {
    await Promise.all([probe.stop(), named.stop(), ...Object.values(odd).map((each) => each.close())]);
    rmSync(folder, { recursive: true });
    table.print();
  });

  const ask =
    (name: string, more: Partial<Row> = {}) =>
    (): Row => ({ name, ...more });
  const askOdd =
    (server: keyof typeof oddities, more: Partial<Row> = {}) =>
    (): Row => ({ name: 'odd.vedette.test', port: odd[server].port, ...more });

  const rows: Readonly<Record<string, () => Row>> = {
    A: ask('good.vedette.test'),
    'A, over TCP': ask('good.vedette.test', { protocol: 'TCP', dig: ['+tcp'] }),
    'A, over IPv6': ask('good.vedette.test', { host: '::1' }),
    'A, three addresses': ask('multi.vedette.test'),
    'A, TTL 0': ask('zero.vedette.test'),
    'A by wildcard': ask('any.star.vedette.test'),
    'A by CNAME': ask('alias.vedette.test'),
    'A by two CNAMEs': ask('chain.vedette.test'),
    'A in capitals': ask('GOOD.Vedette.TEST'),
    'A with last dot': ask('good.vedette.test.'),
    AAAA: ask('v6.vedette.test', { type: 'AAAA' }),
    CNAME: ask('alias.vedette.test', { type: 'CNAME' }),
    MX: ask('mail.vedette.test', { type: 'MX' }),
    'MX that refuses mail': ask('nullmx.vedette.test', { type: 'MX' }),
    TXT: ask('text.vedette.test', { type: 'TXT' }),
    'TXT of 455 bytes': ask('longtext.vedette.test', { type: 'TXT' }),
    'TXT with odd bytes': ask('oddtext.vedette.test', { type: 'TXT' }),
    'TXT, empty': ask('empty.vedette.test', { type: 'TXT' }),
    SOA: ask('vedette.test', { type: 'SOA' }),
    NS: ask('vedette.test', { type: 'NS' }),
    HTTPS: ask('svc.vedette.test', { type: 'HTTPS' }),
    'HTTPS alias': ask('svcalias.vedette.test', { type: 'HTTPS' }),
    NXDOMAIN: ask('nowhere.vedette.test'),
    'NXDOMAIN by CNAME': ask('dangling.vedette.test'),
    'name without such a record': ask('v4.vedette.test', { type: 'AAAA' }),
    'CNAMEs in a circle': ask('loop1.vedette.test'),
    'SERVFAIL, broken zone': ask('www.broken.test'),
    'SERVFAIL, dead forwarder': ask('www.dead.test'),
    REFUSED: ask('www.refused.test'),
    'truncated, 100 addresses': ask('large.vedette.test'),
    'truncated, raw server': askOdd('truncating'),
    'late answer': askOdd('late'),
    'no answer': askOdd('silent'),
    'no DNS message': askOdd('garbage'),
    'answer to another question': askOdd('otherId'),
    'not implemented': askOdd('notImplemented'),
    'closed port': () => ({ name: 'odd.vedette.test', port: closedPort }),
    'closed port, TCP': () => ({
      name: 'odd.vedette.test',
      port: closedPort,
      protocol: 'TCP',
      dig: ['+tcp'],
    }),
  };

  test.concurrent.for(Object.entries(rows))('%s', async ([target, rowOf], { expect, skip }) => {
    const row = rowOf();
    if (row.host?.includes(':') && lacksIpv6 !== undefined) skip(lacksIpv6);
    const { name, type = 'A', protocol = 'UDP', host = '127.0.0.1', port = named.port } = row;
    const request = { query: name, recordType: type, protocol, nameServer: host, port };
    const [ours, theirs] = await Promise.all([
      probe.run('DNS', { request, maxResponseTime: null, degradedResponseTime: null }),
      dig({ host, port }, name, type, row.dig),
    ]);
    const found = dnsDisagreements(ours, theirs);
    table.add({
      target,
      ours: `${verdictOf(ours)} ${shown(answerOf(ours))}${ours.errors[0] ? ` ${ours.errors[0].code}` : ''}`,
      reference: shown(theirs),
      disagreements: found,
      deliberate: undefined,
    });
    expect(found, JSON.stringify(ours.errors)).toEqual([]);
  });

  test('the response time holds a late server’s pause', async () => {
    const ours = await probe.run('DNS', {
      request: { query: 'x.test', recordType: 'A', nameServer: '127.0.0.1', port: odd.late.port },
    });
    expect(ours.responseTimeMs).toBeGreaterThanOrEqual(PAUSE_MS - 5);
    expect(ours.responseTimeMs).toBeLessThan(PAUSE_MS * 2);
  });
});

function answerOf(ours: TryReport): DigReport {
  const detail = ours.detail['dnsCheckResult'] as { response: { answer: string } | null } | undefined;
  return readDig(detail?.response?.answer ?? '');
}

const shown = ({ status, answers }: DigReport): string => {
  const [first = ''] = answers;
  const data = first.split(' ').slice(3).join(' ').slice(0, 40);
  return `${status}${answers.length === 0 ? '' : ` ${answers.length}× ${data}`}`;
};

function dnsDisagreements(ours: TryReport, theirs: DigReport): string[] {
  const mine = answerOf(ours);
  const found: string[] = [];
  const same = (what: string, one: string, other: string): void => {
    if (one !== other) found.push(`${what}: ${one} against ${other}`);
  };
  same('status', mine.status, theirs.status);
  same('flags', mine.flags, theirs.flags);
  same('answers', mine.answers.join('; '), theirs.answers.join('; '));
  same('verdict', verdictOf(ours), theirs.status === 'NOERROR' ? 'passed' : 'failed');
  return found;
}
