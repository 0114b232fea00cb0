import { execFile } from 'node:child_process';
import { codeOf, messageOf } from '../../kit/errors.ts';
import {
  INTERVAL_MS,
  LAST_WAIT_MS,
  NotPermitted,
  PACKET_BYTES,
  type PingOrder,
  type PingResult,
} from './ping.ts';

const HEADER_BYTES = 8;
/** No settings of ours reach the program; its messages are to be in English. */
const ENVIRONMENT = { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C' };

interface Run {
  stdout: string;
  stderr: string;
}

/**
 * Pings with the `ping` program of this machine, which brings its own privilege. Its times are its own,
 * so a busy process here does not distort them.
 */
export async function pingByProgram(order: PingOrder): Promise<PingResult[]> {
  let ran = await runPing(iputilsArguments(order), order);
  if (/unrecognized option|invalid option|BusyBox/i.test(ran.stderr))
    ran = await runPing(busyboxArguments(order), order);
  const complaint = ran.stderr.trim().split('\n').at(-1) ?? '';
  if (/not permitted|permission denied/i.test(complaint) && !/broadcast/i.test(complaint)) {
    throw new NotPermitted(`ping program: ${complaint}`);
  }
  const results = parsePing(ran.stdout, order);
  const code = SEND_ERRORS.find(([pattern]) => pattern.test(complaint))?.[1];
  if (code !== undefined && results.every(({ type }) => type === null)) {
    throw Object.assign(new Error(complaint), { code });
  }
  return results;
}

/** What the program says when the kernel refuses to send, by system error code. */
const SEND_ERRORS: readonly [RegExp, string][] = [
  [/network is unreachable/i, 'ENETUNREACH'],
  [/no route to host/i, 'EHOSTUNREACH'],
  [/invalid argument/i, 'EINVAL'],
  [/broadcast|permission denied/i, 'EACCES'],
  [/address family|not supported/i, 'EAFNOSUPPORT'],
];

const familyOption = (family: 4 | 6): string => (family === 4 ? '-4' : '-6');
const size = String(PACKET_BYTES - HEADER_BYTES);
const seconds = (ms: number): string => String(ms / 1000);

const iputilsArguments = ({ address, family, count }: PingOrder): string[] => {
  const pace = ['-c', String(count), '-i', seconds(INTERVAL_MS), '-W', seconds(LAST_WAIT_MS)];
  return [familyOption(family), '-n', '-O', ...pace, '-s', size, '--', address];
};

/** Busybox knows fewer options, and older ones no fractions: its packets are a second apart. */
const busyboxArguments = ({ address, family, count }: PingOrder): string[] => {
  const pace = ['-c', String(count), '-W', seconds(LAST_WAIT_MS)];
  return [familyOption(family), ...pace, '-s', size, address];
};

async function runPing(args: string[], { signal }: PingOrder): Promise<Run> {
  const { promise, resolve, reject } = Promise.withResolvers<Run>();
  signal.throwIfAborted();
  const options = { env: ENVIRONMENT, signal, maxBuffer: 1024 * 1024, killSignal: 'SIGKILL' } as const;
  try {
    execFile('ping', args, options, (error, stdout, stderr) => {
      if (signal.aborted) reject(signal.reason as Error);
      else if (error && typeof error.code !== 'number') reject(noProgram(error));
      else resolve({ stdout, stderr });
    });
  } catch (error) {
    // A process that may not start others is told so at once.
    throw noProgram(error);
  }
  return await promise;
}

function noProgram(error: unknown): NotPermitted {
  const reason = codeOf(error) === 'ENOENT' ? 'not installed' : messageOf(error);
  return new NotPermitted(`ping program: ${reason}`, { cause: error });
}

const REPLY = /^\d+ bytes from .*?seq=(?<sequence>\d+)(?: ttl=(?<ttl>\d+))?.*? time[=<](?<rtt>[\d.]+) ms/;
const ERROR = /^From .*?icmp_seq=(?<sequence>\d+) (?<what>.+)$/;

/** ICMP type and code of what the program spells out: IPv4, then IPv6. */
const ERRORS: readonly [RegExp, [type: number, code: number], [type: number, code: number]][] = [
  [/net(work)? unreachable|no route/i, [3, 0], [1, 0]],
  [/host unreachable|address unreachable/i, [3, 1], [1, 3]],
  [/protocol unreachable/i, [3, 2], [1, 4]],
  [/port unreachable/i, [3, 3], [1, 4]],
  [/frag needed|packet too big/i, [3, 4], [2, 0]],
  [/host prohibited/i, [3, 10], [1, 1]],
  [/net prohibited/i, [3, 9], [1, 1]],
  [/filtered|administratively prohibited/i, [3, 13], [1, 1]],
  [/time to live exceeded|hop limit|time exceeded/i, [11, 0], [3, 0]],
];

/** Reads the lines of the iputils and busybox programs; a packet without a line got no answer. */
export function parsePing(
  output: string,
  { family, count }: Pick<PingOrder, 'family' | 'count'>,
): PingResult[] {
  const lines = output.split('\n');
  // Busybox counts from 0.
  const first = lines.some((line) => /^\d+ bytes from .*[ :]seq=/.test(line)) ? 0 : 1;
  const results = Array.from({ length: count }, (_, index): PingResult => ({
    sequence: index + 1,
    success: false,
    type: null,
    code: null,
    rtt: null,
    ttl: null,
  }));
  for (const line of lines) {
    const reply = REPLY.exec(line)?.groups;
    const error = reply ? undefined : ERROR.exec(line)?.groups;
    const result = results[Number((reply ?? error)?.['sequence']) - first];
    if (!result || result.type !== null) continue;
    if (reply) {
      const ttl = reply['ttl'] === undefined ? null : Number(reply['ttl']);
      Object.assign(result, {
        success: true,
        type: family === 4 ? 0 : 129,
        code: 0,
        rtt: Number(reply['rtt']),
        ttl,
      });
    } else {
      const known = ERRORS.find(([pattern]) => pattern.test(error?.['what'] ?? ''));
      const [type, code] = known?.[family === 4 ? 1 : 2] ?? [null, null];
      Object.assign(result, { type, code });
    }
  }
  return results;
}
