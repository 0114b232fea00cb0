import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import type { Answer } from 'dns-packet';
import { afterEach, describe, expect, test } from 'vitest';
import {
  a,
  cname,
  packet,
  RA,
  startDnsServer,
  TC,
  type Answering,
} from '../../../test/support/dns-server.ts';
import type { RunContext } from '../check-type.ts';
import { Limiter } from '../limiter.ts';
import { OPEN_POLICY } from '../target-policy/index.ts';
import { createResolver } from '../resolver/index.ts';
import { dns } from './index.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function server(answering: Answering, address?: string) {
  const started = await startDnsServer(answering, address);
  closers.push(() => started.close());
  return started;
}

const context = (servers: string[] = ['127.0.0.1:1'], more: Partial<RunContext> = {}): RunContext => ({
  signal: new AbortController().signal,
  proxyUrl: null,
  resolver: createResolver({
    servers,
    useOsResolver: false,
    hostsFile: '/dev/null',
    resolvConf: '/dev/null',
  }),
  handshakes: new Limiter(1),
  targets: OPEN_POLICY,
  scripts: null,
  ...more,
});

interface Detail {
  requestError: string | null;
  nameServerInfo: { name: string; host: string; port: number } | null;
  response: { returnCode: string; answer: string; jsonAnswer: { Answer: { data: string }[] } } | null;
  assertions: { passed: boolean; actual: unknown }[];
}

async function run(
  at: { address: string; port: number },
  request: object = {},
  more: object = {},
  within: RunContext = context(),
) {
  const own = { query: 'a.example', recordType: 'A', nameServer: at.address, port: at.port };
  const spec = {
    request: { ...own, ...request },
    maxResponseTime: 5000,
    degradedResponseTime: 5000,
    ...more,
  };
  const outcome = await dns.run(spec, within);
  return { ...outcome, detail: outcome.detail as unknown as Detail };
}

const always =
  (...answers: Answer[]): Answering =>
  () => ({ answers });
const assertion = (source: string, comparison: string, target: unknown, property = '') => ({
  source,
  comparison,
  target,
  property,
});
const raw = (name: string, type: number, data: Buffer): Answer =>
  ({ name, type: `UNKNOWN_${type}`, ttl: 60, data }) as unknown as Answer;

describe('verdict', () => {
  test('NOERROR passes, with the server and the time', async () => {
    const at = await server(always(a('a.example', '192.0.2.1')));
    const outcome = await run(at);
    expect(outcome).toMatchObject({ verdict: 'passed', failures: [], resolvedAddress: '127.0.0.1' });
    expect(outcome.phases['total']).toBe(outcome.responseTimeMs);
    expect(outcome.detail.nameServerInfo).toEqual({ name: '127.0.0.1', host: '127.0.0.1', port: at.port });
  });

  test.each([
    [1, 'FORMERR'],
    [2, 'SERVFAIL'],
    [3, 'NXDOMAIN'],
    [5, 'REFUSED'],
    [12, 'RESERVED12'],
  ])('rcode %i fails as %s, unless an assertion on the code holds', async (rcode, code) => {
    const at = await server(() => ({ rcode }));
    expect(await run(at)).toMatchObject({ verdict: 'failed', failures: [{ code, network: false }] });
    const asserted = { assertions: [assertion('RESPONSE_CODE', 'EQUALS', code)] };
    expect(await run(at, asserted)).toMatchObject({ verdict: 'passed', failures: [] });
    expect(await run(at, {}, { shouldFail: true })).toMatchObject({ verdict: 'passed' });
  });

  test('an assertion on the code can fail a NOERROR', async () => {
    const at = await server(always());
    const asserted = { assertions: [assertion('RESPONSE_CODE', 'EQUALS', 'NXDOMAIN')] };
    expect(await run(at, asserted)).toMatchObject({ verdict: 'failed', failures: [{ code: 'ASSERTION' }] });
  });

  test('shouldFail fails on NOERROR', async () => {
    const at = await server(always(a('a.example', '192.0.2.1')));
    const outcome = await run(at, {}, { shouldFail: true });
    expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code: 'SHOULD_FAIL' }] });
  });

  test('a closed port of an own name server is its failure, and a pass with shouldFail', async () => {
    const at = await startDnsServer(() => null);
    await at.close();
    for (const protocol of ['UDP', 'TCP']) {
      const outcome = await run(at, { protocol });
      expect(outcome).toMatchObject({
        verdict: 'failed',
        failures: [{ code: 'ECONNREFUSED', network: true }],
      });
      expect(outcome.detail.requestError).toContain(`${at.text} refused`);
      expect(await run(at, { protocol }, { shouldFail: true })).toMatchObject({ verdict: 'passed' });
    }
  });

  test('the thresholds and the response time assertion apply', async () => {
    const at = await server(always(a('a.example', '192.0.2.1')));
    expect(await run(at, {}, { maxResponseTime: 0 })).toMatchObject({
      verdict: 'failed',
      overMaxResponseTime: true,
    });
    expect(await run(at, {}, { degradedResponseTime: 0 })).toMatchObject({ verdict: 'degraded' });
    const asserted = { assertions: [assertion('RESPONSE_TIME', 'LESS_THAN', 5000)] };
    expect(await run(at, asserted)).toMatchObject({ verdict: 'passed' });
  });

  test('a name that cannot be asked for is a failure that says why', async () => {
    const at = await server(always());
    const outcome = await run(at, { query: `${'x'.repeat(64)}.example` });
    expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code: 'BAD_NAME', network: false }] });
    expect(at.asked).toHaveLength(0);
  });
});

describe('which server', () => {
  test('a name server by name is resolved first; its number need not be IPv4', async () => {
    const at = await server(always(a('a.example', '192.0.2.1')), '::1');
    const resolving = await server(({ name, type }) => ({
      answers: type === 'AAAA' ? [{ type: 'AAAA', name, data: '::1', ttl: 60 }] : [],
    }));
    const outcome = await run({ address: 'ns.example', port: at.port }, {}, {}, context([resolving.text]));
    expect(outcome).toMatchObject({ verdict: 'passed', resolvedAddress: '::1' });
    expect(outcome.detail.nameServerInfo).toEqual({ name: 'ns.example', host: '::1', port: at.port });
    expect(outcome.detail.response?.answer).toContain(`SERVER: ::1#${at.port}(ns.example) (UDP)`);
    expect(await run({ address: '[::1]', port: at.port })).toMatchObject({ verdict: 'passed' });
  });

  test('a name server that does not exist fails', async () => {
    const resolving = await server(() => ({ rcode: 3 }));
    const outcome = await run({ address: 'ns.example', port: 53 }, {}, {}, context([resolving.text]));
    expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code: 'ENOTFOUND' }] });
  });

  const withoutServer = { request: { query: 'a.example', recordType: 'A' } };

  test("without one, the agent's own are asked, the next when one is silent", async () => {
    const at = await server(always(a('a.example', '192.0.2.1')));
    const outcome = await dns.run(withoutServer, context(['127.0.0.1:1', at.text]));
    expect(outcome).toMatchObject({ verdict: 'passed', resolvedAddress: '127.0.0.1' });
  });

  test("when none of the agent's own answers, that is the agent's fault", async () => {
    await expect(dns.run(withoutServer, context(['127.0.0.1:1']))).rejects.toMatchObject({
      code: 'RESOLVER_UNREACHABLE',
      message: expect.stringContaining('127.0.0.1:1 refused the query'),
      detail: { request: { query: 'a.example' }, response: null },
    });
  });

  test('a port without a name server is refused by the schema', () => {
    const parsed = dns.fields.safeParse({ request: { query: 'a', recordType: 'A', port: 53 } });
    expect(parsed.error?.issues).toMatchObject([
      { path: ['request', 'port'], message: 'is allowed only together with nameServer' },
    ]);
  });
});

describe('odd answers', () => {
  test('a truncated datagram is asked for again over TCP, even one cut inside a record', async () => {
    const long = Array.from({ length: 60 }, (_, i) => a('a.example', `192.0.2.${i}`));
    const at = await server(({ protocol, query }) => {
      if (protocol === 'TCP') return { answers: long };
      return packet({ answers: long, flags: RA | TC }, query).subarray(0, 500);
    });
    const outcome = await run(at);
    expect(outcome.detail.response?.jsonAnswer.Answer).toHaveLength(60);
    expect(outcome.detail.response?.answer).toContain('(TCP)');
  });

  test('an answer that stays truncated over TCP is taken as it is', async () => {
    const at = await server(() => ({ flags: RA | TC, answers: [a('a.example', '192.0.2.1')] }));
    const outcome = await run(at);
    expect(outcome).toMatchObject({ verdict: 'passed' });
    expect(outcome.detail.response?.answer).toContain('flags: qr tc rd ra;');
  });

  test('TCP is used from the start when the check says so', async () => {
    const at = await server(always(a('a.example', '192.0.2.1')));
    expect(await run(at, { protocol: 'TCP' })).toMatchObject({ verdict: 'passed' });
    expect(at.asked.map(({ protocol }) => protocol)).toEqual(['TCP']);
  });

  test('a TCP server that closes without an answer fails', async () => {
    const at = await server(() => null);
    const outcome = await run(at, { protocol: 'TCP' });
    expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code: 'BAD_ANSWER', network: true }] });
  });

  test('answers with a wrong id or question are passed over', async () => {
    const at = await server(({ query }) => [
      packet({ id: ((query.id ?? 0) + 1) & 0xffff, answers: [a('a.example', '192.0.2.66')] }, query),
      packet(
        { questions: [{ name: 'b.example', type: 'A' }], answers: [a('a.example', '192.0.2.66')] },
        query,
      ),
      packet({ answers: [a('a.example', '192.0.2.1')] }, query),
    ]);
    const outcome = await run(at);
    expect(outcome.detail.response?.jsonAnswer.Answer).toMatchObject([{ data: '192.0.2.1' }]);
  });

  test('the case of the question does not matter', async () => {
    const at = await server(({ query }) => packet({ questions: [{ name: 'A.EXAMPLE', type: 'A' }] }, query));
    expect(await run(at)).toMatchObject({ verdict: 'passed' });
  });

  test.each([
    [
      'a name that points to itself',
      (bytes: Buffer) => Buffer.concat([bytes.subarray(0, 12), Buffer.from('c00c00010001', 'hex')]),
    ],
    ['a record that ends too early', (bytes: Buffer) => bytes.subarray(0, -2)],
    ['nothing after the header', (bytes: Buffer) => bytes.subarray(0, 12)],
    ['half a header', (bytes: Buffer) => bytes.subarray(0, 7)],
  ])('a malformed answer with %s fails and harms nobody', async (_what, spoil) => {
    const at = await server(({ query }) => spoil(packet({ answers: [a('a.example', '192.0.2.1')] }, query)));
    const outcome = await run(at);
    expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code: 'BAD_ANSWER' }] });
  });

  test('aliases in a circle are shown as they are', async () => {
    const at = await server(always(cname('a.example', 'b.example'), cname('b.example', 'a.example')));
    const outcome = await run(at);
    expect(outcome.detail.response?.jsonAnswer.Answer.map(({ data }) => data)).toEqual([
      'b.example.',
      'a.example.',
    ]);
  });

  test('a server that does not know EDNS is asked without', async () => {
    const at = await server(({ query }) =>
      (query.additionals?.length ?? 0) > 0 ? { rcode: 4 } : { answers: [a('a.example', '192.0.2.1')] },
    );
    expect(await run(at)).toMatchObject({ verdict: 'passed' });
  });

  test('data that do not fit their type are shown in the generic form', async () => {
    const at = await server(always(raw('a.example', 1, Buffer.from('c00002', 'hex'))));
    const outcome = await run(at);
    expect(outcome.detail.response?.jsonAnswer.Answer).toMatchObject([{ data: '\\# 3 C00002' }]);
  });

  test('names in other scripts, the root and variables are asked for', async () => {
    const at = await server(always());
    for (const query of ['bücher.example', '.', '{{HOST}}.example']) {
      await run(at, { query }, { environmentVariables: [{ key: 'HOST', value: '_sip' }] });
    }
    expect(at.asked.map(({ name }) => name)).toEqual(['xn--bcher-kva.example', '.', '_sip.example']);
  });

  test('a lost datagram is sent again after a second', async () => {
    let lost = true;
    const at = await server(() => {
      if (!lost) return { answers: [a('a.example', '192.0.2.1')] };
      lost = false;
      return null;
    });
    const outcome = await run(at);
    expect(outcome).toMatchObject({ verdict: 'passed' });
    expect(outcome.responseTimeMs).toBeGreaterThanOrEqual(999);
    expect(at.asked).toHaveLength(2);
  });

  test('a cancelled run ends at once', async () => {
    const at = await server(() => null);
    const cancel = new AbortController();
    const running = run(at, {}, {}, context([], { signal: cancel.signal }));
    setTimeout(() => cancel.abort(new Error('cancelled')), 30);
    await expect(running).rejects.toThrow('cancelled');
  });
});

describe('answers as text and JSON', () => {
  test('TXT: quoted with escapes as text, as published in JSON', async () => {
    const strings = ['v=spf1 -all', 'say "hi" \\', Buffer.from([0, 255, 59])];
    const at = await server(always({ type: 'TXT', name: 'a.example', ttl: 60, data: strings }));
    const outcome = await run(at, {
      recordType: 'TXT',
      assertions: [
        assertion('JSON_ANSWER', 'CONTAINS', 'v=spf1 -allsay "hi"', '$.Answer[0].data'),
        assertion('TEXT_ANSWER', 'EQUALS', '"v=spf1 -all" "say \\"hi\\" \\\\" "\\000\\255;"', 'TXT\\t(.*)'),
      ],
    });
    expect(outcome).toMatchObject({ verdict: 'passed', failures: [] });
  });

  test('HTTPS: all parameters by name', async () => {
    const data = Buffer.from(
      '0001' +
        '00' +
        '00000004' +
        '00010003' +
        '0001000c' +
        '02683205682c5c7878026833' +
        '000300021fb3' +
        '0004' +
        '0004' +
        'c0000201' +
        '0005' +
        '0002' +
        'abcd' +
        '0006' +
        '0010' +
        '20010db8000000000000000000000001' +
        '029b' +
        '0003' +
        '6869ff',
      'hex',
    );
    const at = await server(always(raw('a.example', 65, data)));
    const outcome = await run(at, { recordType: 'HTTPS' });
    expect(outcome.detail.response?.jsonAnswer.Answer[0]?.data).toBe(
      '1 . mandatory=alpn,port alpn="h2,h\\\\,\\\\\\\\xx,h3" port=8115 ipv4hint=192.0.2.1 ech=q80= ipv6hint=2001:db8::1 key667="hi\\255"',
    );
  });

  const dig = spawnSync('dig', ['-v']).status === 0;
  test.skipIf(!dig)(
    `the text is what dig prints${dig ? '' : ' (skipped: no dig here, install bind9-dnsutils)'}`,
    async () => {
      const name = 'a-rather-long-name-to-move.columns.example';
      const answers: Answer[] = [
        a('a.example', '192.0.2.1', 5),
        { type: 'AAAA', name: 'a.example', ttl: 86_400_000, data: '2001:db8::1:0:0:1' },
        { type: 'AAAA', name: 'a.example', ttl: 0, data: '::ffff:192.0.2.1' },
        { type: 'MX', name, ttl: 300, data: { preference: 10, exchange: 'mx.example' } },
        { type: 'NS', name: 'exactly16chars.x', ttl: 300, data: 'NS1.Example' },
        {
          type: 'SOA',
          name: '.',
          ttl: 1,
          data: { mname: 'n.x', rname: 'first\\.last.x', serial: 4_294_967_295 },
        },
        { type: 'TXT', name: '*.example', ttl: 1, data: ['a"b', '', Buffer.from([1, 127, 200])] },
        {
          type: 'SRV',
          name: '_sip._tcp.example',
          ttl: 1,
          data: { priority: 1, weight: 2, port: 3, target: '.' },
        },
        {
          type: 'CAA',
          name: 'a.example',
          ttl: 1,
          data: { flags: 128, tag: 'issue', value: 'ca.example; x=1' },
        },
        raw('odd name$.example', 731, Buffer.alloc(40, 0xab)),
        raw('a.example', 52, Buffer.alloc(35, 1)),
        raw('a.example', 65, Buffer.from('00010000010003026832', 'hex')),
      ];
      const at = await server(({ query }) =>
        packet(
          { answers, authorities: [cname('x.example', 'y.example')], additionals: query.additionals ?? [] },
          query,
        ),
      );
      const text = (await run(at)).detail.response?.answer ?? '';
      const args = ['@127.0.0.1', '-p', String(at.port), '+nocookie', '+bufsize=1232', 'a.example', 'A'];
      // The server lives in this process: dig runs beside it.
      const shown = (await promisify(execFile)('dig', args)).stdout;
      expect(comparable(text)).toEqual(comparable(shown));
    },
  );
});

/** Without dig's own banner and what differs from one question to the next. */
const comparable = (text: string): string[] =>
  text
    .replace(/^[\s\S]*?(?=;; Got answer)/, '')
    .replace(/ id: \d+|^;; (Query time|WHEN|MSG SIZE).*$/gm, '')
    .trim()
    .split('\n');
