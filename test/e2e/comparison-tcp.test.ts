import { afterAll, beforeAll, expect, test } from 'vitest';
import { ComparisonTable } from '../support/comparison.ts';
import { startProbe, type Probe } from '../support/probe.ts';
import { describeUnless, lacks } from '../support/programs.ts';
import { curl, type CurlReport } from '../support/references/curl.ts';
import { verdictOf } from '../support/references/http-agreement.ts';
import {
  answering,
  banner,
  closing,
  echo,
  resetting,
  silent,
  startBlackHole,
  startTcp,
  type TcpTarget,
} from '../support/targets/odd-tcp.ts';
import { freePort, lacksIpv6, LOOPBACK_6 } from '../support/targets/ports.ts';
import type { TryReport } from '../../src/checks/execute.ts';

interface Row {
  host: string;
  port: number;
  ipFamily?: 'IPv4' | 'IPv6';
  data?: string;
  /** The answer is wanted, and curl's must be the same. */
  reads?: boolean;
  timeoutMs?: number;
}

const PAUSE_MS = 300;
const behaviours = {
  echo: () => startTcp(echo),
  banner: () => startTcp(banner),
  silent: () => startTcp(silent),
  closing: () => startTcp(closing),
  resetting: () => startTcp(resetting),
  slow: () => startTcp(answering(PAUSE_MS, 'at last')),
  ipv6: () => startTcp(echo, LOOPBACK_6),
  hole: () => startBlackHole(),
};
type Targets = Record<keyof typeof behaviours, TcpTarget>;

/** curl's telnet reads until its time is up, so a time-out after a connection is no failure. */
function curlEnding({ exitCode, connected }: CurlReport): string {
  if (connected) return exitCode === 56 ? 'reset' : 'connected';
  return { 6: 'name', 7: 'refused', 28: 'timeout' }[exitCode] ?? `exit ${exitCode}`;
}

function ourEnding({ errors }: TryReport): string {
  const code = errors[0]?.code;
  if (code === undefined) return 'connected';
  const words: Readonly<Record<string, string>> = {
    ENOTFOUND: 'name',
    ECONNREFUSED: 'refused',
    SOCKET_TIMEOUT: 'timeout',
    TIMEOUT: 'timeout',
    ECONNRESET: 'reset',
  };
  return words[code] ?? code;
}

const dataOf = (ours: TryReport): string =>
  (ours.detail['tcpCheckResult'] as { response?: { data?: string } } | undefined)?.response?.data ?? '';

describeUnless(lacks('curl'), 'TCP checks agree with curl telnet://', () => {
  const table = new ComparisonTable('TCP checks against curl telnet://');
  let targets: Targets;
  let closedPort: number;
  let probe: Probe;

  beforeAll(async () => {
    const started = await Promise.all(
      Object.entries(behaviours).map(async ([name, start]) => [name, await start()] as const),
    );
    targets = Object.fromEntries(started) as Targets;
    closedPort = await freePort();
    probe = await startProbe({});
  });
  afterAll(async () => {
    await Promise.all([probe, ...Object.values(targets)].map((each) => each.stop()));
    table.print();
  });

  const at =
    (name: keyof typeof behaviours, more: Partial<Row> = {}) =>
    (): Row => ({ host: targets[name].host, port: targets[name].port, ...more });
  const rows: Readonly<Record<string, () => Row>> = {
    'connects, nothing to say': at('echo'),
    'echo of a line': at('echo', { data: 'ping\n', reads: true }),
    'echo of 60 kB': at('echo', { data: 'x'.repeat(60_000), reads: true }),
    'banner without asking': at('banner', { reads: true }),
    'accepts, stays silent': at('silent'),
    'accepts, closes': at('closing', { reads: true }),
    'accepts, resets': at('resetting', { data: 'ping\n', reads: true }),
    'answers late': at('slow', { data: 'ping\n', reads: true }),
    'closed port': () => ({ host: '127.0.0.1', port: closedPort }),
    'black hole': at('hole', { timeoutMs: 1500 }),
    'IPv6 only': at('ipv6', { ipFamily: 'IPv6', data: 'six\n', reads: true }),
    'IPv6 only by name': () => ({ host: 'localhost', port: targets.ipv6.port, ipFamily: 'IPv6' }),
    'IPv4 only, IPv6 wanted': () => ({ host: 'localhost', port: targets.echo.port, ipFamily: 'IPv6' }),
    'name that does not exist': () => ({ host: 'nowhere.invalid', port: 80 }),
  };

  test.for(Object.entries(rows))('%s', async ([target, rowOf], { skip }) => {
    const row = rowOf();
    if (row.ipFamily === 'IPv6' && lacksIpv6 !== undefined) skip(lacksIpv6);
    const host = row.host.includes(':') ? `[${row.host}]` : row.host;
    const family = row.ipFamily === 'IPv6' ? '-6' : '-4';
    const [ours, theirs] = await Promise.all([
      probe.run('TCP', specOf(row), { timeoutMs: row.timeoutMs ?? 8000 }),
      curl(`telnet://${host}:${row.port}`, [family, '--noproxy', '*'], {
        maxSeconds: (row.timeoutMs ?? 800) / 1000,
        input: row.data ?? '',
      }),
    ]);
    const found = tcpDisagreements(ours, theirs, row);
    const reference = `${curlEnding(theirs)} ${Math.round(theirs.phases.tcp)} ms`;
    table.add({ target, ours: shown(ours), reference, disagreements: found, deliberate: undefined });
    expect(found, JSON.stringify(ours.errors)).toEqual([]);
  });

  test('a late answer is waited for in the data phase, not in the connection', async () => {
    const ours = await probe.run('TCP', specOf(at('slow', { data: 'ping\n', reads: true })()));
    expect(ours.phases['data']).toBeGreaterThanOrEqual(PAUSE_MS - 5);
    expect(ours.phases['connection']).toBeLessThan(PAUSE_MS / 2);
    expect(ours.responseTimeMs).toBe(ours.phases['connection']);
  });
});

function specOf(row: Row): object {
  const wanted = [{ source: 'RESPONSE_DATA', comparison: 'NOT_EQUALS', target: 'never this' }];
  return {
    request: {
      hostname: row.host,
      port: row.port,
      data: row.data ?? null,
      ipFamily: row.ipFamily ?? 'IPv4',
      assertions: row.reads ? wanted : [],
    },
  };
}

function shown(ours: TryReport): string {
  const phases = Object.entries(ours.phases).map(([name, ms]) => `${name} ${Math.round(ms)}`);
  return `${verdictOf(ours)} ${ourEnding(ours)} ${phases.join(', ')}`;
}

function tcpDisagreements(ours: TryReport, theirs: CurlReport, row: Row): string[] {
  const found: string[] = [];
  const same = (what: string, mine: unknown, other: unknown): void => {
    if (mine !== other) found.push(`${what}: ${String(mine)} against ${String(other)}`);
  };
  same('ending', ourEnding(ours), curlEnding(theirs));
  same('verdict', verdictOf(ours), curlEnding(theirs) === 'connected' ? 'passed' : 'failed');
  if (theirs.address !== '') same('address', ours.measured.resolvedAddress, theirs.address);
  if (row.reads) same('data', dataOf(ours), theirs.body);
  return found;
}
