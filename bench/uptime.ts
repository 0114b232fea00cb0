import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Blackbox } from './blackbox.ts';
import { closedLoop, median, quantile } from './measure.ts';
import type { Figures, Order } from './probe-worker.ts';
import type { Row } from './report.ts';
import type { Targets } from './targets.ts';

const WINDOW_MS = 2000;
const WINDOWS = 3;
const MAX_CHECKS = 50_000;

interface Subject {
  name: string;
  module: string;
  target: string;
  checkType: string;
  spec: Record<string, unknown>;
  /** Goals as ratios to blackbox: at most this CPU, at least this rate. */
  cpuGoal: number;
  rateGoal?: number;
}

function subjects(targets: Targets): Subject[] {
  const url = (address: string): Record<string, unknown> => ({
    request: { url: address, assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }] },
  });
  return [
    {
      name: 'HTTP',
      module: 'http_plain',
      target: targets.plainUrl,
      checkType: 'URL',
      spec: url(targets.plainUrl),
      cpuGoal: 0.35,
      rateGoal: 3,
    },
    {
      name: 'HTTPS',
      module: 'http_tls',
      target: targets.tlsUrl,
      checkType: 'URL',
      spec: url(targets.tlsUrl),
      cpuGoal: 0.85,
    },
    {
      name: 'TCP',
      module: 'tcp_connect',
      target: `${targets.tcp.host}:${targets.tcp.port}`,
      checkType: 'TCP',
      spec: { request: { hostname: targets.tcp.host, port: targets.tcp.port } },
      cpuGoal: 0.35,
    },
    {
      name: 'DNS',
      module: 'dns_udp',
      target: `${targets.dns.host}:${targets.dns.port}`,
      checkType: 'DNS',
      spec: {
        request: {
          query: 'bench.test',
          recordType: 'A',
          nameServer: targets.dns.host,
          port: targets.dns.port,
        },
      },
      cpuGoal: 0.25,
    },
  ];
}

/** A probe process of ours that takes orders over IPC. */
export class ProbeProcess {
  readonly #child: ChildProcess;
  constructor(caFile: string) {
    this.#child = fork(new URL('probe-worker.ts', import.meta.url), {
      env: { NODE_EXTRA_CA_CERTS: caFile },
    });
  }
  async run(order: Order): Promise<Figures> {
    this.#child.send(order);
    const [figures] = (await once(this.#child, 'message')) as [Figures];
    if (figures.failed > 0)
      throw new Error(`${figures.failed} of ${figures.count} ${order.checkType} checks failed`);
    return figures;
  }
  stop(): void {
    this.#child.kill();
  }
}

/** CPU per check and checks per second at 16 at once: medians of three windows, the sides in turn. */
export async function benchUptime(targets: Targets, probe: ProbeProcess, peer: Blackbox): Promise<Row[]> {
  const rows: Row[] = [];
  for (const subject of subjects(targets)) {
    const order = {
      checkType: subject.checkType,
      spec: subject.spec,
      concurrency: 16,
      ms: WINDOW_MS,
      max: MAX_CHECKS,
    };
    await probe.run({ ...order, ms: WINDOW_MS });
    const ours: Figures[] = [];
    const theirs: { perSecond: number; cpuMsPerCheck: number }[] = [];
    for (let i = 0; i < WINDOWS; i++) {
      ours.push(await probe.run(order));
      theirs.push(await blackboxWindow(peer, subject));
    }
    const of = (side: { cpuMsPerCheck: number; perSecond: number }[]) => ({
      cpu: median(side.map((w) => w.cpuMsPerCheck)),
      rate: median(side.map((w) => w.perSecond)),
    });
    const [a, b] = [of(ours), of(theirs)];
    rows.push({
      name: `${subject.name} check, 16 at once: CPU`,
      ours: `${a.cpu.toFixed(3)} ms`,
      peer: `${b.cpu.toFixed(3)} ms (blackbox)`,
      ratio: a.cpu / b.cpu,
      goal: { atMost: subject.cpuGoal },
    });
    rows.push({
      name: `${subject.name} check, 16 at once: rate, one process`,
      ours: `${a.rate.toFixed(0)} /s`,
      peer: `${b.rate.toFixed(0)} /s (blackbox)`,
      ratio: a.rate / b.rate,
      ...(subject.rateGoal === undefined ? {} : { goal: { atLeast: subject.rateGoal } }),
    });
  }
  return rows;
}

async function blackboxWindow(
  peer: Blackbox,
  { module, target }: Subject,
): Promise<{ perSecond: number; cpuMsPerCheck: number }> {
  const before = peer.cpuMs();
  const { count, seconds } = await closedLoop(16, WINDOW_MS, MAX_CHECKS, async () => {
    await peer.probe(module, target);
  });
  return { perSecond: count / seconds, cpuMsPerCheck: (peer.cpuMs() - before) / count };
}

/**
 * How far the measured wait for the first byte is from the truth, against a server that answers after
 * exactly 50 ms: p95 of the excess at 1, 16 and 64 checks at once.
 */
export async function benchDistortion(
  slow: NonNullable<Targets['slow']>,
  probe: ProbeProcess,
  peer: Blackbox | undefined,
): Promise<Row[]> {
  const rows: Row[] = [];
  const kinds = [
    { name: 'plain', url: slow.plainUrl, module: 'http_plain', goalAt64: 0.5 },
    { name: 'TLS', url: slow.tlsUrl, module: 'http_tls', goalAt64: 1 },
  ];
  for (const kind of kinds) {
    for (const concurrency of [1, 16, 64]) {
      const spec = { request: { url: kind.url } };
      const ours = await probe.run({ checkType: 'URL', spec, concurrency, ms: WINDOW_MS, max: MAX_CHECKS });
      const error = quantile(ours.firstByteMs, 0.95) - 50;
      const theirs =
        peer === undefined ? undefined : await blackboxError(peer, kind.module, kind.url, concurrency);
      rows.push({
        name: `error of the wait, p95, ${kind.name}, ${concurrency} at once`,
        ours: `${error.toFixed(1)} ms`,
        peer: theirs === undefined ? '–' : `${theirs.toFixed(1)} ms (blackbox)`,
        ...(theirs === undefined ? {} : { ratio: error / theirs }),
        ...(concurrency === 64 ? { goal: { atMost: kind.goalAt64 } } : {}),
      });
    }
  }
  return rows;
}

async function blackboxError(
  peer: Blackbox,
  module: string,
  target: string,
  concurrency: number,
): Promise<number> {
  const waits: number[] = [];
  await closedLoop(concurrency, WINDOW_MS, MAX_CHECKS, async () => {
    const text = await peer.probe(module, target);
    const match = /phase="processing"\} (\S+)/.exec(text);
    waits.push(Number(match?.[1]) * 1000);
  });
  return quantile(waits, 0.95) - 50;
}
