import type { z } from 'zod';
import { wallMs } from '../../kit/clock.ts';
import { evaluateAssertions, type EvaluatedAssertion } from '../assertions.ts';
import {
  AgentFault,
  type CommonSpec,
  type Failure,
  type Outcome,
  type RunContext,
  type Runner,
  TIMEOUT_DOUBT_MS,
} from '../check-type.ts';
import {
  BadName,
  encodeName,
  ExchangeError,
  parseServer,
  RCODE,
  rcodeName,
  toAscii,
  TYPE,
  type ServerAddress,
} from '../dns-wire/index.ts';
import { permitted } from '../permit.ts';
import { NameError } from '../resolve.ts';
import { fillTemplate, variablesOf } from '../templates.ts';
import { judge, roundMs } from '../verdict.ts';
import { digText } from './dig-text.ts';
import type { DnsFields } from './spec.ts';
import { jsonAnswer, type JsonAnswer } from './json-answer.ts';
import { askAny, askServer, QUERY_LIMIT_MS, type Answered, type DnsQuestion } from './query.ts';

type Spec = z.infer<typeof DnsFields> & CommonSpec;

/** A server's answer in every form that assertions and results use. */
interface Answer {
  code: string;
  text: string;
  json: JsonAnswer;
  responseTimeMs: number;
  server: ServerAddress;
}

/**
 * Puts one question to the check's name server, or to those of the agent when it names none: inside a
 * private network these know what no public resolver does. An own name server that does not answer is
 * the target's failure; the agent's that do not are the agent's.
 */
export const runner: Runner<Spec> = {
  async run(asWritten, context) {
    const spec = filled(asWritten);
    try {
      const answer = await ask(spec, context);
      return answeredOutcome(spec, answer);
    } catch (error) {
      if (error instanceof AgentFault) {
        throw new AgentFault(error.code, error.message, detailOf(spec, null, [], error.message), {
          cause: error,
        });
      }
      const failure = failureOf(error);
      if (failure === null) throw error;
      return unansweredOutcome(spec, failure);
    }
  },
};

function filled(spec: Spec): Spec {
  const variables = variablesOf(spec.environmentVariables);
  const fill = (text: string): string => fillTemplate(text, variables, 'raw');
  const { query, nameServer, assertions } = spec.request;
  return {
    ...spec,
    request: {
      ...spec.request,
      query: fill(query).trim(),
      ...(nameServer === undefined ? {} : { nameServer: fill(nameServer).trim() }),
      assertions: assertions.map((each) => ({ ...each, target: fill(each.target) })),
    },
  };
}

async function ask(spec: Spec, context: RunContext): Promise<Answer> {
  const { resolver, targets, signal } = context;
  const { query, recordType, protocol, nameServer, port } = spec.request;
  const question: DnsQuestion = { name: encodeName(toAscii(query)), type: TYPE[recordType]!, protocol };
  let answered: Answered;
  if (nameServer === undefined) answered = await askAny(question, resolver.servers(), signal);
  else {
    const servers = await serversAt(nameServer, port ?? 53, resolver, signal);
    const server = permitted(targets, nameServer, port ?? 53, servers)[0]!;
    answered = await askServer(question, server, QUERY_LIMIT_MS, signal);
  }
  const { reply, responseTimeMs } = answered;
  return {
    code: rcodeName(reply.message.rcode),
    text: digText(reply, {
      queryTimeMs: responseTimeMs,
      serverName: nameServer ?? reply.server.address,
      when: new Date(wallMs()),
    }),
    json: jsonAnswer(reply.message),
    responseTimeMs: roundMs(responseTimeMs),
    server: reply.server,
  };
}

/** IPv4 first; a name server that has IPv6 only is asked over that. */
async function serversAt(
  nameServer: string,
  port: number,
  resolver: RunContext['resolver'],
  signal: AbortSignal,
): Promise<ServerAddress[]> {
  const literal = parseServer(nameServer.replace(/^\[(.*)\]$/, '$1'), port);
  if (literal) return [{ ...literal, port }];
  const resolve = async (family: 4 | 6): Promise<ServerAddress[]> => {
    const { addresses } = await resolver.resolve(nameServer, family, signal);
    return addresses.map(({ address }) => ({ address, port }));
  };
  try {
    return await resolve(4);
  } catch (error) {
    if (error instanceof NameError && error.code === 'ENODATA') return resolve(6);
    throw error;
  }
}

/** Null for what is no failure of the target. */
function failureOf(error: unknown): Failure | null {
  if (error instanceof BadName) return { code: 'BAD_NAME', message: error.message, network: false };
  if (error instanceof NameError) {
    return { code: error.code, message: `the name server: ${error.message}`, network: true };
  }
  if (error instanceof ExchangeError) return { code: error.code, message: error.message, network: true };
  return null;
}

function answeredOutcome(spec: Spec, answer: Answer): Outcome {
  const assertions = evaluateAssertions(spec.request.assertions, {
    RESPONSE_TIME: { kind: 'value', value: answer.responseTimeMs },
    RESPONSE_CODE: { kind: 'value', value: answer.code },
    TEXT_ANSWER: { kind: 'text', read: () => answer.text },
    JSON_ANSWER: { kind: 'json', read: () => answer.json },
  });
  const codeFailure = judgeCode(spec, answer);
  return {
    ...judge({
      failures: codeFailure === null ? [] : [codeFailure],
      assertions,
      measuredMs: answer.responseTimeMs,
      limits: spec,
      measure: 'response time',
    }),
    responseTimeMs: answer.responseTimeMs,
    phases: { total: answer.responseTimeMs },
    statusCode: null,
    resolvedAddress: answer.server.address,
    detail: detailOf(spec, answer, assertions, null),
  };
}

/** NOERROR passes and all else fails, or the reverse; an assertion on the code takes its place. */
function judgeCode({ request, shouldFail }: Spec, { code, json }: Answer): Failure | null {
  const succeeded = json.Status === RCODE.noError;
  if (shouldFail && succeeded) {
    const message = `${request.query} was answered with NOERROR, but this check expects a failure`;
    return { code: 'SHOULD_FAIL', message, network: false };
  }
  if (shouldFail || succeeded || request.assertions.some(({ source }) => source === 'RESPONSE_CODE'))
    return null;
  return { code, message: `the name server answered ${code} for ${request.query}`, network: false };
}

function unansweredOutcome(spec: Spec, failure: Failure): Outcome {
  const expected = spec.shouldFail && failure.network;
  return {
    verdict: expected ? 'passed' : 'failed',
    overMaxResponseTime: false,
    responseTimeMs: null,
    failures: expected ? [] : [failure],
    ...(failure.code === 'TIMEOUT' ? { lateByMs: TIMEOUT_DOUBT_MS } : {}),
    phases: {},
    statusCode: null,
    resolvedAddress: null,
    detail: detailOf(spec, null, [], failure.message),
  };
}

function detailOf(
  spec: Spec,
  answer: Answer | null,
  assertions: readonly EvaluatedAssertion[],
  requestError: string | null,
): Record<string, unknown> {
  const { query, recordType, protocol, nameServer, port } = spec.request;
  return {
    assertions,
    request: { query, recordType, protocol, nameServer: nameServer ?? null, port: port ?? null },
    nameServerInfo: answer && {
      name: nameServer ?? answer.server.address,
      host: answer.server.address,
      port: answer.server.port,
    },
    response: answer && {
      returnCode: answer.code,
      answer: answer.text,
      jsonAnswer: answer.json,
      responseTime: answer.responseTimeMs,
      timingPhases: { total: answer.responseTimeMs },
    },
    requestError,
  };
}
