import type { TryReport } from '../../../src/checks/execute.ts';
import { PAUSE_MS } from '../targets/odd-http.ts';
import type { CurlReport } from './curl.ts';

/** How an HTTP exchange ended, in words that both sides can be translated to. */
export type Ending =
  | 'answer'
  | 'name'
  | 'refused'
  | 'timeout'
  | 'handshake'
  | 'certificate'
  | 'redirects'
  /** The connection ended before the answer did: closed or reset, anywhere. */
  | 'broken'
  | 'encoding'
  | 'malformed'
  | 'proxy';

/** curl's exit codes; one code may stand for several endings. */
const CURL_ENDINGS: Readonly<Record<number, readonly Ending[]>> = {
  0: ['answer'],
  1: ['malformed', 'redirects'],
  3: ['redirects'],
  6: ['name'],
  7: ['refused'],
  8: ['malformed'],
  18: ['broken'],
  27: ['malformed'],
  28: ['timeout'],
  35: ['handshake', 'broken'],
  43: ['malformed'],
  47: ['redirects'],
  52: ['broken'],
  // "Failure when receiving": a reset, a broken chunk, or a proxy that refuses to connect.
  56: ['broken', 'malformed', 'proxy', 'handshake'],
  60: ['certificate'],
  61: ['encoding'],
};

export interface Expectation {
  /** The check says that an answer of 400 and above is what it wants. */
  shouldFail?: boolean;
  /** What of the bodies must be the same: everything unless said otherwise. */
  body?: 'first line' | 'nothing';
  /** Asked through a proxy: curl names the proxy's address, we say that the target's is not known. */
  proxyUrl?: string;
  /** The phase that must hold the target's deliberate pause, in both reports. */
  slowPhase?: 'firstByte' | 'download';
  /** The phase in which the time of both is up, after `ms`. */
  timesOut?: { phase: 'tcp' | 'tls' | 'firstByte' | 'download'; ms: number };
}

/** Where our report and curl's differ; empty when they agree. */
export function disagreements(ours: TryReport, curl: CurlReport, expectation: Expectation): string[] {
  const endings: readonly string[] = CURL_ENDINGS[curl.exitCode] ?? [];
  const answered = curl.exitCode === 0;
  const passes = answered && (curl.status < 400 || expectation.shouldFail === true);
  return [
    ...differs(
      'ending',
      endings.includes(endingOf(ours)),
      endingOf(ours),
      endings.join(' or ') || curl.exitCode,
    ),
    ...differs('verdict', verdictOf(ours) === (passes ? 'passed' : 'failed'), verdictOf(ours), passes),
    ...differs('status', !answered || ours.statusCode === curl.status, ours.statusCode, curl.status),
    ...(answered ? addressDisagreements(ours, curl, expectation.proxyUrl !== undefined) : []),
    ...(answered && expectation.body !== 'nothing' ? bodyDisagreements(ours, curl, expectation.body) : []),
    ...(answered ? phaseDisagreements(ours, curl, expectation.slowPhase) : []),
    ...(expectation.timesOut ? timeOutDisagreements(ours, curl, expectation.timesOut) : []),
  ];
}

function differs(what: string, same: boolean, ours: unknown, theirs: unknown): string[] {
  return same ? [] : [`${what}: ${String(ours)} against ${String(theirs)}`];
}

function addressDisagreements(ours: TryReport, curl: CurlReport, viaProxy: boolean): string[] {
  const address = ours.measured.resolvedAddress;
  return differs('address', address === (viaProxy ? null : curl.address), address, curl.address);
}

export function verdictOf({ flags }: TryReport): 'passed' | 'degraded' | 'failed' | 'error' {
  if (flags.hasErrors) return 'error';
  if (flags.hasFailures) return 'failed';
  return flags.isDegraded ? 'degraded' : 'passed';
}

function bodyDisagreements(ours: TryReport, curl: CurlReport, part?: 'first line'): string[] {
  const wanted = (text: string): string => (part === 'first line' ? text.split('\r\n')[0]! : text);
  const theirs = wanted(Buffer.from(curl.body, 'latin1').toString('utf8'));
  const body = wanted(bodyOf(ours));
  return differs(
    'body',
    body === theirs,
    JSON.stringify(body.slice(0, 80)),
    JSON.stringify(theirs.slice(0, 80)),
  );
}

/** The body as the result shows it. */
export function bodyOf(ours: TryReport): string {
  const detail = ours.detail['apiCheckResult'] as { response?: { body?: string | null } | null } | undefined;
  return detail?.response?.body ?? '';
}

/** Phases that are durations in a row; together they are the total. */
const IN_ORDER = ['wait', 'dns', 'tcp', 'tls', 'firstByte', 'download'] as const;

function phaseDisagreements(ours: TryReport, curl: CurlReport, slow?: Expectation['slowPhase']): string[] {
  const phase = (name: string): number => ours.phases[name] ?? 0;
  const sum = IN_ORDER.reduce((total, name) => total + phase(name), 0);
  const found = differs('sum of phases', Math.abs(sum - phase('total')) <= 2, sum, phase('total'));
  const secured = curl.phases.tls > 0;
  found.push(...differs('tls phase', phase('tls') > 0 === secured, phase('tls'), curl.phases.tls));
  if (slow === undefined) return found;
  for (const [who, value] of [
    ['ours', phase(slow)],
    ['curl', curl.phases[slow]],
  ] as const) {
    // Timers may fire 1 ms early by the wall; the upper bound leaves room for a busy machine.
    found.push(...differs(`${who} ${slow}`, value >= PAUSE_MS - 5 && value < PAUSE_MS * 2, value, PAUSE_MS));
  }
  const others = IN_ORDER.filter((name) => name !== slow).filter((name) => phase(name) > PAUSE_MS / 2);
  return [...found, ...differs('other slow phases', others.length === 0, others.join(), 'none')];
}

/** Both waited in the same phase for nearly all of their time. */
function timeOutDisagreements(
  ours: TryReport,
  curl: CurlReport,
  { phase, ms }: NonNullable<Expectation['timesOut']>,
): string[] {
  const mine = ours.phases[phase] ?? 0;
  // curl notes the connection only when the handshake has succeeded too.
  const theirs = phase === 'tls' ? curl.phases.tcp + curl.phases.tls : curl.phases[phase];
  return differs(`time-out in ${phase}`, Math.min(mine, theirs) >= ms * 0.8, mine, theirs);
}

/** Our words for what went wrong, translated. A code that is not listed is shown as it is. */
const OUR_ENDINGS: readonly (readonly [RegExp, Ending])[] = [
  [/^(ENOTFOUND|ENODATA|ESERVFAIL|ERR_INVALID_IP_ADDRESS)$/, 'name'],
  [/^ECONNREFUSED$/, 'refused'],
  [/TIMEOUT|ETIMEDOUT/, 'timeout'],
  [/PROXY/, 'proxy'],
  [/REDIRECT/, 'redirects'],
  [/CERT|SELF_SIGNED|ALTNAME|UNABLE_TO_(VERIFY|GET)/, 'certificate'],
  [/^(EPROTO|ERR_SSL|ERR_TLS)/, 'handshake'],
  [/^(ECONNRESET|EPIPE)$/, 'broken'],
  [/^(Z_|ERR__|ERR_BROTLI|.*(DECOD|ENCODING|DECOMPRESS))/, 'encoding'],
  [/^(HPE_|.*(MALFORMED|PARSE|HEADER))/, 'malformed'],
];

/** An `Ending`, or our own code where none is known for it. */
export function endingOf(ours: TryReport): string {
  const [first] = ours.errors.filter(({ code }) => code !== 'ASSERTION' && code !== 'HTTP_STATUS');
  if (first === undefined) return 'answer';
  return OUR_ENDINGS.find(([pattern]) => pattern.test(first.code))?.[1] ?? `${first.code}`;
}

/** One cell of the table. */
export function summaryOf(ours: TryReport): string {
  const code = ours.errors[0]?.code;
  const status = ours.statusCode === null ? '' : ` ${ours.statusCode}`;
  return `${verdictOf(ours)}${status}${code === undefined ? '' : ` ${code}`} ${phasesText(ours.phases)}`;
}

export function curlSummary(curl: CurlReport): string {
  const outcome = curl.exitCode === 0 ? `${curl.status}` : `exit ${curl.exitCode}`;
  return `${outcome} ${phasesText(curl.phases)}`;
}

const phasesText = (phases: Readonly<Record<string, number>>): string =>
  ['dns', 'tcp', 'tls', 'firstByte', 'download'].map((name) => Math.round(phases[name] ?? 0)).join('/');
