import { runProgram } from '../programs.ts';

export interface PingReport {
  address: string | null;
  sent: number;
  received: number;
  lossPercent: number;
  /** Mean round trip, ms; null without an answer. */
  averageMs: number | null;
  /** What ping wrote when it could not even send. */
  error: string;
}

/** `count` echo requests as the ICMP check sends them: 64 bytes with header, 500 ms apart. */
export async function ping(
  host: string,
  count: number,
  family: 4 | 6,
  within: readonly string[] = [],
): Promise<PingReport> {
  const [program, ...args] = [...within, 'ping', `-${family}`, '-n', '-i', '0.5', '-W', '1'];
  const { stdout, stderr } = await runProgram(program!, [...args, '-c', String(count), host]);
  const counts = /(\d+) packets transmitted, (\d+) received/.exec(stdout);
  const average = /= [\d.]+\/([\d.]+)\//.exec(stdout)?.[1];
  return {
    address: /^PING \S+ ?\(([\da-f.:]+)\)/m.exec(stdout)?.[1] ?? null,
    sent: Number(counts?.[1] ?? 0),
    received: Number(counts?.[2] ?? 0),
    lossPercent: Number(/([\d.]+)% packet loss/.exec(stdout)?.[1] ?? 100),
    averageMs: average === undefined ? null : Number(average),
    error: stderr.trim(),
  };
}
