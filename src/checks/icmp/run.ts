import type { z } from 'zod';
import { codeOf, messageOf } from '../../kit/errors.ts';
import { evaluateAssertions, type EvaluatedAssertion } from '../assertions.ts';
import {
  AgentFault,
  type CommonSpec,
  type Failure,
  type Outcome,
  type RunContext,
  type Runner,
} from '../check-type.ts';
import { localFaultOf } from '../local-fault.ts';
import { permitted } from '../permit.ts';
import { NameError, type Resolution } from '../resolve.ts';
import { fillTemplate, variablesOf } from '../templates.ts';
import { judge, roundMs } from '../verdict.ts';
import { ping } from './backend.ts';
import type { IcmpFields } from './spec.ts';
import { PACKET_BYTES, type PingResult } from './ping.ts';

type Spec = z.infer<typeof IcmpFields> & CommonSpec;

interface Latency {
  avg: number;
  min: number;
  max: number;
  stdDev: number;
}

/** What the result shows; JSON_RESPONSE assertions read this very object. */
interface Report {
  hostname: string;
  resolvedIp: string | null;
  ipFamily: 'IPv4' | 'IPv6';
  pingCount: number;
  packetsSent: number;
  packetsReceived: number;
  packetSize: number;
  /** Percent; null when nothing was sent. */
  packetLoss: number | null;
  dnsResolutionTime: number | null;
  /** Null without any reply. */
  latency: Latency | null;
  pingResults: PingResult[];
}

/** Resolves, sends the echo requests, and judges loss and mean latency. */
export const runner: Runner<Spec> = {
  async run(spec, context) {
    const report = emptyReport(spec);
    try {
      const failure = await pingInto(report, context);
      return outcome(spec, report, failure);
    } catch (error) {
      if (!(error instanceof AgentFault)) throw error;
      const detail = detailOf(report, [], error.message);
      throw new AgentFault(error.code, error.message, detail, { cause: error });
    }
  },
};

function emptyReport({ request, environmentVariables }: Spec): Report {
  return {
    hostname: fillTemplate(request.hostname, variablesOf(environmentVariables), 'raw').trim(),
    resolvedIp: null,
    ipFamily: request.ipFamily ?? 'IPv4',
    pingCount: request.pingCount ?? 10,
    packetsSent: 0,
    packetsReceived: 0,
    packetSize: PACKET_BYTES,
    packetLoss: null,
    dnsResolutionTime: null,
    latency: null,
    pingResults: [],
  };
}

/** The reason why nothing could be sent, if it is the target's. */
async function pingInto(report: Report, { resolver, targets, signal }: RunContext): Promise<Failure | null> {
  let resolution: Resolution;
  try {
    resolution = await resolver.resolve(report.hostname, report.ipFamily === 'IPv6' ? 6 : 4, signal);
  } catch (error) {
    if (!(error instanceof NameError)) throw error;
    return { code: error.code, message: error.message, network: true };
  }
  const { address, family } = permitted(targets, report.hostname, null, resolution.addresses)[0]!;
  report.resolvedIp = address;
  // A literal and a machine without IPv6 decide themselves.
  report.ipFamily = family === 6 ? 'IPv6' : 'IPv4';
  report.dnsResolutionTime = roundMs(resolution.durationMs);
  try {
    addResults(report, await ping({ address, family, count: report.pingCount, signal }));
    return null;
  } catch (error) {
    return sendFailure(error, address);
  }
}

/** Codes with which the kernel refuses an address for what it is. */
const BAD_ADDRESS: Readonly<Record<string, string>> = {
  EINVAL:
    'cannot be pinged: the address is incomplete (a link-local one needs a zone, as in fe80::1%eth0) or not a host',
  EACCES: 'cannot be pinged: it is a broadcast address',
};

async function sendFailure(error: unknown, address: string): Promise<Failure> {
  const code = codeOf(error);
  if (error instanceof AgentFault || code === undefined) throw error;
  const bad = BAD_ADDRESS[code];
  if (bad !== undefined) return { code, message: `${address} ${bad}`, network: false };
  const fault = await localFaultOf(error, address);
  if (fault) throw fault;
  return { code, message: `${address}: ${messageOf(error)}`, network: true };
}

function addResults(report: Report, results: PingResult[]): void {
  const times = results.flatMap(({ rtt }) => (rtt === null ? [] : [rtt]));
  report.pingResults = results;
  report.packetsSent = results.length;
  report.packetsReceived = results.filter(({ success }) => success).length;
  report.packetLoss = roundMs((100 * (results.length - report.packetsReceived)) / results.length);
  report.latency = times.length === 0 ? null : latencyOf(times);
}

function latencyOf(times: readonly number[]): Latency {
  const avg = times.reduce((sum, each) => sum + each, 0) / times.length;
  const variance = times.reduce((sum, each) => sum + (each - avg) ** 2, 0) / times.length;
  return {
    avg: roundMs(avg),
    min: Math.min(...times),
    max: Math.max(...times),
    stdDev: roundMs(Math.sqrt(variance)),
  };
}

function outcome(spec: Spec, report: Report, failure: Failure | null): Outcome {
  const { latency, packetLoss } = report;
  const variables = variablesOf(spec.environmentVariables);
  const wanted = spec.request.assertions.map((each) => ({
    ...each,
    target: fillTemplate(each.target, variables, 'raw'),
  }));
  const assertions =
    failure === null
      ? evaluateAssertions(wanted, {
          LATENCY: {
            kind: 'fields',
            fields: { ...(latency ?? { avg: null, min: null, max: null, stdDev: null }) },
          },
          JSON_RESPONSE: { kind: 'json', read: () => report },
        })
      : [];
  const failures = [failure ?? lossFailure(spec, report)].filter((each) => each !== null);
  const reached = judge({
    failures: spec.shouldFail ? [] : failures,
    assertions: spec.shouldFail && failures.length > 0 ? [] : assertions,
    measuredMs: latency?.avg ?? null,
    limits: spec,
    measure: 'average latency',
    degraded: isAbove(packetLoss, spec.degradedPacketLossThreshold) && !spec.shouldFail,
  });
  if (spec.shouldFail && failures.length === 0) {
    const message = `${report.hostname} answered, but this check expects it not to`;
    reached.failures.unshift({ code: 'SHOULD_FAIL', message, network: false });
    reached.verdict = 'failed';
  }
  return {
    ...reached,
    // Kernel and program stamp the packets: no delay of this process is in the latency.
    lateByMs: null,
    responseTimeMs: latency?.avg ?? null,
    phases: phasesOf(report),
    statusCode: null,
    resolvedAddress: report.resolvedIp,
    detail: detailOf(report, assertions, failure?.message ?? null),
  };
}

const isAbove = (value: number | null, limit: number | null): boolean =>
  value !== null && limit !== null && value > limit;

function lossFailure({ maxPacketLossThreshold }: Spec, report: Report): Failure | null {
  const { packetLoss, packetsReceived, packetsSent, pingResults } = report;
  if (!isAbove(packetLoss, maxPacketLossThreshold)) return null;
  const told = pingResults.find(({ success, type }) => !success && type !== null);
  const reason = told ? `; ICMP type ${told.type} code ${told.code} came back` : '';
  const message = `${report.hostname} (${report.resolvedIp}) answered ${packetsReceived} of ${packetsSent} pings: a loss of ${packetLoss} % is above the limit of ${maxPacketLossThreshold} %${reason}`;
  return { code: 'PACKET_LOSS', message, network: true };
}

function phasesOf({ dnsResolutionTime, latency }: Report): Record<string, number> {
  const phases: Record<string, number> = {};
  if (dnsResolutionTime !== null) phases['dns'] = dnsResolutionTime;
  for (const [name, value] of Object.entries(latency ?? {})) phases[`latency_${name}`] = Number(value);
  return phases;
}

function detailOf(
  report: Report,
  assertions: readonly EvaluatedAssertion[],
  requestError: string | null,
): Record<string, unknown> {
  const { hostname, resolvedIp, ipFamily, pingCount } = report;
  return {
    ...report,
    assertions,
    request: { hostname, targetIp: resolvedIp, ipFamily, pingCount },
    requestError,
  };
}
