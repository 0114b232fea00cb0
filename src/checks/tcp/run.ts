import type { z } from 'zod';
import { monoMs } from '../../kit/clock.ts';
import { evaluateAssertions, type EvaluatedAssertion, type Sources } from '../assertions.ts';
import {
  AgentFault,
  type CommonSpec,
  type Failure,
  type Outcome,
  type RunContext,
  type Runner,
  TIMEOUT_DOUBT_MS,
} from '../check-type.ts';
import { localFaultOf } from '../local-fault.ts';
import { permitted } from '../permit.ts';
import { cut } from '../preview.ts';
import { NameError, type Resolution } from '../resolve.ts';
import { fillTemplate, variablesOf } from '../templates.ts';
import { judge, roundMs } from '../verdict.ts';
import { connectInTurn, readAnswer, type Attempt, type ConnectionError, type Target } from './connection.ts';
import type { TcpFields } from './spec.ts';

type Spec = z.infer<typeof TcpFields> & CommonSpec;

/** What the result keeps of the answer; assertions see up to 1 MB. */
const SHOWN_BYTES = 64 * 1024;

/** Filled in as the try goes on, so that a fault in the middle still shows what came before. */
interface Progress {
  /** dns, connection, data, total; ms. */
  phases: Record<string, number>;
  resolution: Resolution | null;
  target: Target | null;
  error: ConnectionError | Record<string, unknown> | null;
  data: string;
  truncated: boolean;
  assertions: EvaluatedAssertion[];
}

/** Resolve, connect to the addresses in turn, send `data`, read the answer if anyone wants it, close. */
export const runner: Runner<Spec> = {
  async run(asWritten, context) {
    const spec = filled(asWritten);
    const startedMs = monoMs();
    const progress: Progress = {
      phases: {},
      resolution: null,
      target: null,
      error: null,
      data: '',
      truncated: false,
      assertions: [],
    };
    let failure: Failure | null;
    try {
      failure = await attempt(spec, context, progress);
    } catch (error) {
      if (!(error instanceof AgentFault)) throw error;
      const detail = detailOf(spec, progress, error.message);
      throw new AgentFault(error.code, error.message, detail, { cause: error });
    }
    progress.phases['total'] = roundMs(monoMs() - startedMs);
    return outcome(spec, progress, failure);
  },
};

function filled(spec: Spec): Spec {
  const variables = variablesOf(spec.environmentVariables);
  const fill = (text: string): string => fillTemplate(text, variables, 'raw');
  const { hostname, data, assertions } = spec.request;
  return {
    ...spec,
    request: {
      ...spec.request,
      hostname: fill(hostname).trim(),
      data: data === null ? null : fill(data),
      assertions: assertions.map((each) => ({ ...each, target: fill(each.target) })),
    },
  };
}

/** The failure of the connection; null when there was one. */
async function attempt(spec: Spec, context: RunContext, progress: Progress): Promise<Failure | null> {
  const { hostname, port, ipFamily } = spec.request;
  try {
    const family = ipFamily === 'IPv6' ? 6 : 4;
    progress.resolution = await context.resolver.resolve(hostname, family, context.signal);
  } catch (error) {
    if (!(error instanceof NameError)) throw error;
    const { code, message } = error;
    progress.error = { code, syscall: ipFamily === 'IPv6' ? 'queryAaaa' : 'queryA', hostname, message };
    return { code, message, network: true };
  }
  progress.phases['dns'] = roundMs(progress.resolution.durationMs);

  const startedMs = monoMs();
  const { addresses } = progress.resolution;
  const targets = permitted(context.targets, hostname, port, addresses).map(({ address }) => ({
    address,
    port,
  }));
  const connected = await connectInTurn(targets, context.signal);
  progress.phases['connection'] = roundMs(monoMs() - startedMs);
  if ('attempts' in connected) return connectionFailure(connected.attempts, progress);
  progress.target = connected.target;
  try {
    return await talk(spec, context, connected.socket, progress);
  } finally {
    connected.socket.destroy();
  }
}

async function connectionFailure(attempts: readonly Attempt[], progress: Progress): Promise<Failure> {
  const faults = await Promise.all(attempts.map(({ cause, target }) => localFaultOf(cause, target.address)));
  const [fault] = faults;
  // One address that answered with a refusal is news of the target, whatever became of the others.
  if (fault && faults.every((each) => each !== null)) throw fault;
  const blamed = attempts.filter((_, index) => faults[index] === null);
  const [first] = blamed;
  progress.error = first?.error ?? null;
  progress.target = first?.target ?? null;
  const message = blamed
    .map(({ target, error }) => `${target.address} port ${target.port}: ${reason(error)}`)
    .join('; ');
  return { code: first?.error.code ?? 'EUNKNOWN', message, network: true };
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
};
const reason = (error: ConnectionError): string => REASONS[error.code] ?? error.message;

/** Sends and reads, if the check has data to send or asserts what comes; a banner needs no sending. */
async function talk(
  spec: Spec,
  context: RunContext,
  socket: Parameters<typeof readAnswer>[0],
  progress: Progress,
): Promise<Failure | null> {
  const { data, assertions } = spec.request;
  const wanted = assertions.filter(({ source }) => source === 'RESPONSE_DATA');
  const hasData = data !== null && data !== '';
  if (!hasData && wanted.length === 0) return null;
  const startedMs = monoMs();
  if (hasData) socket.write(data);
  const isEnough = (received: Buffer): boolean =>
    evaluateAssertions(wanted, answerSources(received.toString('utf8'))).every(({ passed }) => passed);
  const { bytes, truncated, error } = await readAnswer(socket, context.signal, isEnough);
  progress.phases['data'] = roundMs(monoMs() - startedMs);
  progress.data = bytes.toString('utf8');
  progress.truncated = truncated;
  if (error === null) return null;
  const { address, port } = progress.target!;
  const code = error.code ?? 'EUNKNOWN';
  const message = `${address} port ${port}: broke the connection before it sent anything (${code})`;
  progress.error = { code, syscall: error.syscall, address, port, message };
  return { code, message, network: true };
}

function outcome(spec: Spec, progress: Progress, failure: Failure | null): Outcome {
  const responseTimeMs = progress.target && !failure ? (progress.phases['connection'] ?? null) : null;
  const expected = spec.shouldFail && failure !== null;
  if (failure === null) {
    progress.assertions = evaluateAssertions(spec.request.assertions, {
      RESPONSE_TIME: { kind: 'value', value: responseTimeMs ?? 0 },
      ...answerSources(progress.data),
    });
  }
  return {
    ...judge({
      failures: expected
        ? []
        : [failure ?? unexpectedSuccess(spec, progress)].filter((each) => each !== null),
      assertions: progress.assertions,
      measuredMs: responseTimeMs,
      limits: spec,
      measure: 'connection time',
    }),
    ...(failure?.code === 'SOCKET_TIMEOUT' ? { lateByMs: TIMEOUT_DOUBT_MS } : {}),
    responseTimeMs,
    phases: progress.phases,
    statusCode: null,
    resolvedAddress: progress.target?.address ?? progress.resolution?.addresses[0]?.address ?? null,
    detail: detailOf(spec, progress, null),
  };
}

const answerSources = (text: string): Sources => ({ RESPONSE_DATA: { kind: 'text', read: () => text } });

function unexpectedSuccess(spec: Spec, { target }: Progress): Failure | null {
  if (!spec.shouldFail) return null;
  const where = `${target?.address ?? spec.request.hostname} port ${spec.request.port}`;
  const message = `the connection to ${where} succeeded, but this check expects it to fail`;
  return { code: 'SHOULD_FAIL', message, network: false };
}

function detailOf(spec: Spec, progress: Progress, requestError: string | null): Record<string, unknown> {
  const { hostname, port, data, ipFamily } = spec.request;
  const shown = cut(progress.data, SHOWN_BYTES);
  return {
    assertions: progress.assertions,
    request: { hostname, port, data, ipFamily },
    response: {
      data: shown,
      truncated: progress.truncated || shown.length < progress.data.length,
      error: progress.error,
      resolvedIp: progress.resolution?.addresses[0]?.address ?? null,
      connectedTo: progress.error === null ? (progress.target?.address ?? null) : null,
      timingPhases: progress.phases,
    },
    requestError,
  };
}
