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
    phases: phasesOf(out),
  };
}

function phasesOf(out: WriteOut): CurlReport['phases'] {
  const secured = Math.max(out.time_appconnect, out.time_connect);
  const sent = Math.max(out.time_pretransfer, secured);
  const ms = (seconds: number): number => Math.max(0, seconds * 1000);
  return {
    dns: ms(out.time_namelookup),
    tcp: ms(out.time_connect - out.time_namelookup),
    tls: out.time_appconnect === 0 ? 0 : ms(out.time_appconnect - out.time_connect),
    firstByte: out.time_starttransfer === 0 ? ms(out.time_total - sent) : ms(out.time_starttransfer - sent),
    download: out.time_starttransfer === 0 ? 0 : ms(out.time_total - out.time_starttransfer),
    total: ms(out.time_total),
  };
}
