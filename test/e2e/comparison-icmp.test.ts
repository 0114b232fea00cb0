import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TryReport } from '../../src/checks/execute.ts';
import { ComparisonTable } from '../support/comparison.ts';
import { startProbe, type Probe } from '../support/probe.ts';
import { describeUnless, lacks } from '../support/programs.ts';
import { verdictOf } from '../support/references/http-agreement.ts';
import { ping, type PingReport } from '../support/references/ping.ts';
import {
  lacksNamespaces,
  startCutOff,
  startVoid,
  VOID_ADDRESS,
  VOID_ADDRESS_6,
  type NetworkNamespace,
} from '../support/targets/namespace.ts';
import { lacksIpv6 } from '../support/targets/ports.ts';

interface Row {
  host: string;
  ipFamily?: 'IPv4' | 'IPv6';
  count?: number;
}

interface IcmpDetail {
  packetsSent: number;
  packetsReceived: number;
  packetLoss: number;
  packetSize: number;
  resolvedIp: string | null;
}

const detailOf = (ours: TryReport): IcmpDetail => ours.detail['icmpCheckResult'] as IcmpDetail;

const noNamespaces = await lacksNamespaces();

describeUnless(lacks('ping'), 'ICMP checks agree with ping', () => {
  const table = new ComparisonTable('ICMP checks against ping');
  const begun: { stop(): Promise<void> }[] = [];
  let here: Probe;
  let inVoid: { probe: Probe; within: readonly string[] };
  let cutOff: { probe: Probe; within: readonly string[] };

  async function probeIn(namespace: NetworkNamespace): Promise<{ probe: Probe; within: readonly string[] }> {
    const probe = await startProbe({ within: namespace.within });
    begun.push(probe, namespace);
    return { probe, within: namespace.within };
  }

  beforeAll(async () => {
    here = await startProbe({});
    begun.push(here);
    if (noNamespaces !== undefined) return;
    inVoid = await probeIn(await startVoid());
    cutOff = await probeIn(await startCutOff());
  });
  afterAll(async () => {
    for (const each of begun) await each.stop();
    table.print();
  });

  async function compare(target: string, row: Row, probe: Probe, within?: readonly string[]): Promise<void> {
    const { host, ipFamily = 'IPv4', count = 2 } = row;
    const [ours, theirs] = await Promise.all([
      probe.run('ICMP', { request: { hostname: host, ipFamily, pingCount: count } }),
      ping(host, count, ipFamily === 'IPv6' ? 6 : 4, within),
    ]);
    const found = icmpDisagreements(ours, theirs);
    table.add({
      target,
      ours: ours.errors[0]?.code ? `${verdictOf(ours)} ${ours.errors[0].code}` : shown(ours),
      reference: theirs.error || `${theirs.received} of ${theirs.sent}, ${theirs.averageMs ?? '–'} ms`,
      disagreements: found,
      deliberate: undefined,
    });
    expect(found, JSON.stringify(ours.errors)).toEqual([]);
  }

  const rows: Readonly<Record<string, Row>> = {
    'IPv4 loopback': { host: '127.0.0.1', count: 3 },
    'IPv6 loopback': { host: '::1', ipFamily: 'IPv6' },
    'one packet': { host: '127.0.0.1', count: 1 },
    'a name, IPv4': { host: 'localhost' },
    'another loopback address': { host: '127.1.2.3' },
    'a name that does not exist': { host: 'nowhere.invalid' },
  };
  test.for(Object.entries(rows))('%s', async ([target, row], { skip }) => {
    if (row.ipFamily === 'IPv6' && lacksIpv6 !== undefined) skip(lacksIpv6);
    await compare(target, row, here);
  });

  describeUnless(noNamespaces, 'elsewhere', () => {
    test('no echo over IPv4', () =>
      compare('no echo, IPv4', { host: VOID_ADDRESS }, inVoid.probe, inVoid.within));
    test('no echo over IPv6', async ({ skip }) => {
      if (lacksIpv6 !== undefined) skip(lacksIpv6);
      await compare('no echo, IPv6', { host: VOID_ADDRESS_6, ipFamily: 'IPv6' }, inVoid.probe, inVoid.within);
    });
    test('no route from here', () =>
      compare('no route from here', { host: '192.0.2.1' }, cutOff.probe, cutOff.within));
  });
});

function shown(ours: TryReport): string {
  const { packetsSent, packetsReceived } = detailOf(ours);
  return `${verdictOf(ours)} ${packetsReceived} of ${packetsSent}, ${ours.responseTimeMs ?? '–'} ms`;
}

/** A machine without a route is at fault itself; everything else that ping reports is the target's. */
function icmpDisagreements(ours: TryReport, theirs: PingReport): string[] {
  const found: string[] = [];
  const same = (what: string, mine: unknown, other: unknown): void => {
    if (mine !== other) found.push(`${what}: ${String(mine)} against ${String(other)}`);
  };
  const isCutOff = /unreachable/i.test(theirs.error);
  const allAnswered = theirs.sent > 0 && theirs.received === theirs.sent;
  same('verdict', verdictOf(ours), isCutOff ? 'error' : allAnswered ? 'passed' : 'failed');
  if (theirs.sent === 0) return found;
  const detail = detailOf(ours);
  same('sent', detail.packetsSent, theirs.sent);
  same('received', detail.packetsReceived, theirs.received);
  same('loss', detail.packetLoss, theirs.lossPercent);
  same('address', ours.measured.resolvedAddress, theirs.address);
  if (theirs.averageMs === null) return found;
  const apart = Math.abs((ours.responseTimeMs ?? Infinity) - theirs.averageMs);
  if (apart > 15) found.push(`latency: ${ours.responseTimeMs} against ${theirs.averageMs}`);
  return found;
}
