import { describe, expect, test } from 'vitest';
import { inNamespace, noNamespaces } from '../../../test/support/network-namespace.ts';
import type { RunContext } from '../check-type.ts';
import { Limiter } from '../limiter.ts';
import { OPEN_POLICY } from '../target-policy/index.ts';
import { createResolver } from '../resolver/index.ts';
import { ping } from './backend.ts';
import { icmp } from './index.ts';
import { parsePing } from './ping-program.ts';

const never = new AbortController().signal;
const context = (signal = never): RunContext => ({
  signal,
  proxyUrl: null,
  resolver: createResolver({ servers: ['127.0.0.1:1'], useOsResolver: false, hostsFile: '/dev/null' }),
  handshakes: new Limiter(1),
  targets: OPEN_POLICY,
  scripts: null,
});
const check = (request: object = {}, more: object = {}) => ({
  request: { hostname: '127.0.0.1', pingCount: 1, ...request },
  ...more,
});
const one = (address: string) =>
  ({ address, family: address.includes(':') ? 6 : 4, count: 1, signal: never }) as const;

async function isOpen(way: 'datagram' | 'raw' | 'program'): Promise<boolean> {
  return ping(one('127.0.0.1'), [way]).then(
    ([result]) => result?.success === true,
    () => false,
  );
}
const mayUseRaw = await isOpen('raw');
const hasProgram = await isOpen('program');
const mayPing = mayUseRaw || hasProgram || (await isOpen('datagram'));
const skipped = (is: boolean, need: string): string => (is ? '' : ` (skipped: needs ${need})`);
const replied = { sequence: 1, success: true, code: 0, rtt: expect.any(Number), ttl: 64 };

describe('ways to ping', () => {
  test.skipIf(!mayUseRaw)(`a raw socket, both families${skipped(mayUseRaw, 'NET_RAW')}`, async () => {
    expect(await ping(one('127.0.0.1'), ['raw'])).toEqual([{ ...replied, type: 0 }]);
    expect(await ping(one('::1'), ['raw'])).toEqual([{ ...replied, type: 129 }]);
  });

  test.skipIf(!hasProgram)(
    `the ping program, both families${skipped(hasProgram, 'iputils-ping')}`,
    async () => {
      expect(await ping(one('127.0.0.1'), ['program'])).toEqual([{ ...replied, type: 0 }]);
      expect(await ping(one('::1'), ['program'])).toEqual([{ ...replied, type: 129 }]);
    },
  );

  test.skipIf(noNamespaces !== '')(
    `a datagram socket where the group is in range, and the process ends after it${skipped(noNamespaces === '', noNamespaces)}`,
    async () => {
      const backend = JSON.stringify(new URL('./backend.ts', import.meta.url).href);
      const order = "{ family: 4, count: 1, signal: new AbortController().signal, address: '127.0.0.1' }";
      const program = `const { ping } = await import(${backend});
        const results = await Promise.all([1, 2, 3].map(() => ping(${order}, ['datagram'])));
        console.log(JSON.stringify(results));`;
      const allow = 'echo 0 2147483647 > /proc/sys/net/ipv4/ping_group_range';
      const results = await inNamespace(allow, program);
      expect(results).toEqual(Array.from({ length: 3 }, () => [{ ...replied, type: 0 }]));
    },
  );

  test('when all ways are closed, the fault says what to change', async () => {
    await expect(ping(one('127.0.0.1'), [])).rejects.toMatchObject({
      name: 'AgentFault',
      code: 'ICMP_NOT_PERMITTED',
      message: expect.stringMatching(/ping_group_range.*NET_RAW.*iputils-ping/),
    });
  });
});

describe.skipIf(!mayPing)(`checks${skipped(mayPing, 'a way to ping')}`, () => {
  test('a host that answers passes, with every figure', async () => {
    const outcome = await icmp.run(check({ pingCount: 2 }), context());
    expect(outcome).toMatchObject({ verdict: 'passed', failures: [], resolvedAddress: '127.0.0.1' });
    expect(outcome.detail).toMatchObject({
      ipFamily: 'IPv4',
      packetsSent: 2,
      packetsReceived: 2,
      packetSize: 64,
      packetLoss: 0,
      latency: { avg: outcome.responseTimeMs },
      request: { hostname: '127.0.0.1', targetIp: '127.0.0.1', pingCount: 2 },
      pingResults: [{ sequence: 1 }, { sequence: 2 }],
      requestError: null,
    });
    expect(Object.keys(outcome.phases)).toEqual([
      'dns',
      'latency_avg',
      'latency_min',
      'latency_max',
      'latency_stdDev',
    ]);
  });

  test('assertions see the latency and the whole report', async () => {
    const assertions = [
      { source: 'LATENCY', comparison: 'LESS_THAN', property: 'avg', target: 1000 },
      { source: 'JSON_RESPONSE', comparison: 'EQUALS', property: '$.packetsReceived', target: 1 },
      { source: 'JSON_RESPONSE', comparison: 'EQUALS', property: '$.pingResults[0].ttl', target: 1 },
    ];
    const outcome = await icmp.run(check({ assertions }), context());
    expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code: 'ASSERTION' }] });
    expect(outcome.detail['assertions']).toMatchObject([
      { passed: true },
      { passed: true },
      { actual: 64, passed: false },
    ]);
  });

  test('the thresholds apply to the average latency', async () => {
    expect(await icmp.run(check({}, { maxResponseTime: 0 }), context())).toMatchObject({
      verdict: 'failed',
      overMaxResponseTime: true,
      lateByMs: null,
    });
    expect(await icmp.run(check({}, { degradedResponseTime: 0 }), context())).toMatchObject({
      verdict: 'degraded',
    });
  });

  test('shouldFail fails when the host answers', async () => {
    const outcome = await icmp.run(check({}, { shouldFail: true }), context());
    expect(outcome).toMatchObject({ verdict: 'failed', failures: [{ code: 'SHOULD_FAIL' }] });
  });

  test('IPv6 by literal in brackets and by variable', async () => {
    const environmentVariables = [{ key: 'HOST', value: '[::1]' }];
    const outcome = await icmp.run(check({ hostname: '{{HOST}}' }, { environmentVariables }), context());
    expect(outcome).toMatchObject({ verdict: 'passed', detail: { ipFamily: 'IPv6', resolvedIp: '::1' } });
  });

  test('many targets at once keep their replies apart', async () => {
    const hosts = Array.from({ length: 20 }, (_, i) => `127.0.0.${i + 1}`);
    const outcomes = await Promise.all(hosts.map((hostname) => icmp.run(check({ hostname }), context())));
    expect(outcomes.map(({ verdict }) => verdict)).toEqual(hosts.map(() => 'passed'));
  });

  test('a cancelled run ends at once', async () => {
    const cancel = new AbortController();
    const running = icmp.run(check({ pingCount: 50 }), context(cancel.signal));
    setTimeout(() => cancel.abort(new Error('cancelled')), 50);
    await expect(running).rejects.toThrow('cancelled');
  });
});

test('a name that cannot be resolved fails; a resolver that cannot be reached does not', async () => {
  const outcome = await icmp.run(check({ hostname: 'a..b' }), context());
  expect(outcome).toMatchObject({
    verdict: 'failed',
    failures: [{ code: 'ENOTFOUND' }],
    responseTimeMs: null,
  });
  await expect(icmp.run(check({ hostname: 'a.example' }), context())).rejects.toMatchObject({
    code: 'RESOLVER_UNREACHABLE',
    detail: { hostname: 'a.example', packetsSent: 0 },
  });
});

describe('output of the ping program', () => {
  test('replies, silence and errors of iputils', () => {
    const output = `PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.
64 bytes from 10.0.0.1: icmp_seq=1 ttl=63 time=0.425 ms
no answer yet for icmp_seq=2
From 10.0.0.254 icmp_seq=3 Destination Host Unreachable
From 10.0.0.254 icmp_seq=4 Time to live exceeded
From 10.0.0.254 icmp_seq=5 Packet filtered
64 bytes from 10.0.0.1: icmp_seq=6 ttl=63 time=1203 ms
64 bytes from 10.0.0.1: icmp_seq=6 ttl=63 time=1204 ms (DUP!)
64 bytes from 10.0.0.1: icmp_seq=99 ttl=63 time=1 ms

--- 10.0.0.1 ping statistics ---
6 packets transmitted, 2 received, +3 errors, 66.6667% packet loss, time 2500ms`;
    expect(parsePing(output, { family: 4, count: 6 })).toEqual([
      { sequence: 1, success: true, type: 0, code: 0, rtt: 0.425, ttl: 63 },
      { sequence: 2, success: false, type: null, code: null, rtt: null, ttl: null },
      { sequence: 3, success: false, type: 3, code: 1, rtt: null, ttl: null },
      { sequence: 4, success: false, type: 11, code: 0, rtt: null, ttl: null },
      { sequence: 5, success: false, type: 3, code: 13, rtt: null, ttl: null },
      { sequence: 6, success: true, type: 0, code: 0, rtt: 1203, ttl: 63 },
    ]);
  });

  test('busybox, which counts from 0, and IPv6 errors', () => {
    const busybox =
      '64 bytes from 10.0.0.1: seq=0 ttl=64 time=0.089 ms\n64 bytes from 10.0.0.1: seq=1 ttl=64 time=0.1 ms';
    expect(parsePing(busybox, { family: 4, count: 2 }).map(({ rtt }) => rtt)).toEqual([0.089, 0.1]);
    const six = 'From fd00::1 icmp_seq=1 Destination unreachable: Address unreachable';
    expect(parsePing(six, { family: 6, count: 1 })).toMatchObject([{ success: false, type: 1, code: 3 }]);
  });

  test('anything else counts as no answer', () => {
    for (const output of ['', 'PING ?', '64 bytes from x: icmp_seq=abc ttl= time= ms']) {
      expect(parsePing(output, { family: 4, count: 1 })).toMatchObject([{ success: false, type: null }]);
    }
  });
});
