import { afterAll, expect, test } from 'vitest';
import { ComparisonTable } from './comparison.ts';
import type { Probe } from './probe.ts';
import { curl } from './references/curl.ts';
import {
  curlSummary,
  disagreements,
  endingOf,
  summaryOf,
  verdictOf,
  type Expectation,
} from './references/http-agreement.ts';
import { lacksIpv6 } from './targets/ports.ts';

/** One target asked by a check and by curl. */
export interface HttpRow extends Expectation {
  url: string;
  /** API where the row needs more than a URL check can say. */
  type?: 'URL' | 'API';
  /** Members of the check's `request` besides the address. */
  request?: object;
  /** What makes curl do the same. */
  curl?: readonly string[];
  /** Skipped on a machine without IPv6. */
  overIpv6?: boolean;
  /** We answer otherwise than curl for a reason: what we must answer, and why. */
  deliberate?: { why: string; ending: string; verdict: 'passed' | 'failed' };
}

export interface HttpSetting {
  probe: Probe;
  /** PEM file that curl trusts, as the probe does. */
  trusted?: string;
}

/** Addresses of the zone's names, for curl, which cannot ask a name server of our choice. */
const NAMES: Readonly<Record<string, string>> = {
  'good.vedette.test': '127.0.0.1',
  'sni.vedette.test': '127.0.0.1',
  'any.wild.vedette.test': '127.0.0.1',
  'alias.vedette.test': '127.0.0.1',
  'dual.vedette.test': '127.0.0.1,[::1]',
  'v4.vedette.test': '127.0.0.1',
  'v6.vedette.test': '[::1]',
};

/** Clients follow redirects, take compressed answers and prefer IPv4, unless a row says otherwise. */
const LIKE_OUR_DEFAULTS = ['--location', '--max-redirs', '20', '--compressed'];

/** Declares one test per row, and prints the table when all have run. */
export function compareHttp<S extends HttpSetting>(
  title: string,
  setting: () => S,
  rows: Readonly<Record<string, (setting: S) => HttpRow>>,
): void {
  const table = new ComparisonTable(title);
  afterAll(() => table.print());
  test.for(Object.entries(rows))('%s', async ([target, rowOf], { skip }) => {
    const at = setting();
    const row = rowOf(at);
    if (row.overIpv6 && lacksIpv6 !== undefined) skip(lacksIpv6);
    const ours = await runOurs(at.probe, row);
    const theirs = await curl(row.url, curlArguments(row, at), {
      maxSeconds: limitMs(row) / 1000,
    });
    const found = row.deliberate
      ? deliberateDisagreements(row.deliberate, endingOf(ours), verdictOf(ours))
      : disagreements(ours, theirs, row);
    table.add({
      target,
      ours: summaryOf(ours),
      reference: curlSummary(theirs),
      disagreements: found,
      deliberate: row.deliberate?.why,
    });
    expect(found, `${JSON.stringify(ours.errors)} / curl: ${theirs.message}`).toEqual([]);
  });
}

/** Of both sides. */
const limitMs = ({ timesOut }: HttpRow): number => timesOut?.ms ?? 10_000;

function runOurs(probe: Probe, row: HttpRow): ReturnType<Probe['run']> {
  const spec = {
    request: { url: row.url, assertions: [], ...row.request },
    shouldFail: row.shouldFail === true,
    // Slowness is compared by phase; the thresholds have tests of their own.
    degradedResponseTime: null,
    maxResponseTime: null,
  };
  return probe.run(row.type ?? 'URL', spec, {
    timeoutMs: limitMs(row),
    proxyUrl: row.proxyUrl ?? null,
  });
}

function curlArguments(row: HttpRow, { trusted }: HttpSetting): string[] {
  const { hostname, port, protocol } = new URL(row.url);
  const address = NAMES[hostname];
  const resolve = address && `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}:${address}`;
  return [
    ...LIKE_OUR_DEFAULTS,
    ...(trusted === undefined ? [] : ['--cacert', trusted]),
    ...(resolve ? ['--resolve', resolve] : []),
    ...(row.proxyUrl === undefined ? ['--noproxy', '*'] : ['--proxy', row.proxyUrl]),
    ...(row.curl ?? ['-4']),
  ];
}

function deliberateDisagreements(
  expected: NonNullable<HttpRow['deliberate']>,
  ending: string,
  verdict: string,
): string[] {
  const said = `${verdict} ${ending}`;
  const wanted = `${expected.verdict} ${expected.ending}`;
  return said === wanted ? [] : [`${said} instead of ${wanted}`];
}
