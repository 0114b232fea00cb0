import { runProgram } from '../programs.ts';

/** What curl says of one transfer. Durations in ms; a phase that did not happen is 0. */
export interface CurlReport {
  exitCode: number;
  message: string;
  status: number;
  redirects: number;
  address: string;
  effectiveUrl: string;
  /** Decoded body, one character per byte. */
  body: string;
  /** A connection stood at some time. */
  connected: boolean;
  phases: { dns: number; tcp: number; tls: number; firstByte: number; download: number; total: number };
}

/** Members of `--write-out '%{json}'` that we read; times in seconds. */
interface WriteOut {
  exitcode: number;
  errormsg: string | null;
  http_code: number;
  num_redirects: number;
  remote_ip: string;
  url_effective: string;
  time_namelookup: number;
  time_connect: number;
  time_appconnect: number;
  time_pretransfer: number;
  time_starttransfer: number;
  time_total: number;
}

/** No configuration file, no progress; the report goes to standard error, the body to standard output. */
const QUIET = ['-q', '-s', '--globoff', '--write-out', '%{stderr}%{json}'];

/** Runs curl without any configuration file, never longer than `maxSeconds`. */
export async function curl(
  url: string,
  args: readonly string[] = [],
  { maxSeconds = 10, input = '' }: { maxSeconds?: number; input?: string } = {},
): Promise<CurlReport> {
  const limit = ['--max-time', String(maxSeconds)];
  const { stdout, stderr } = await runProgram('curl', [...QUIET, ...limit, ...args, url], { input });
  const out = JSON.parse(stderr) as WriteOut;
  return {
    exitCode: out.exitcode,
    message: out.errormsg ?? '',
    status: out.http_code,
    redirects: out.num_redirects,
    address: out.remote_ip,
    effectiveUrl: out.url_effective,
    body: stdout,
    connected: out.time_connect > 0,
    phases: phasesOf(out),
  };
}

/** Moments of the transfer, in order; one that was not reached is the end. */
function phasesOf(out: WriteOut): CurlReport['phases'] {
  const isSecure = out.url_effective.startsWith('https:');
  const moment = (seconds: number): number => (seconds === 0 ? out.time_total : seconds);
  const resolved = moment(out.time_namelookup);
  const connected = moment(out.time_connect);
  const secured = isSecure ? moment(out.time_appconnect) : connected;
  const sent = Math.max(out.time_pretransfer, secured);
  const answered = moment(out.time_starttransfer);
  const ms = (from: number, to: number): number => Math.max(0, (to - from) * 1000);
  return {
    dns: ms(0, resolved),
    tcp: ms(resolved, connected),
    tls: ms(connected, secured),
    firstByte: ms(sent, answered),
    download: ms(answered, out.time_total),
    total: ms(0, out.time_total),
  };
}
