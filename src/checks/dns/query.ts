import { monoMs } from '../../kit/clock.ts';
import { AgentFault } from '../check-type.ts';
import { askTcp, askUdp, ExchangeError, RCODE, type Reply, type ServerAddress } from '../dns-wire/index.ts';
import { localFaultOf } from '../local-fault.ts';

export interface DnsQuestion {
  /** Wire form. */
  name: Buffer;
  type: number;
  protocol: 'UDP' | 'TCP';
}

export interface Answered {
  reply: Reply;
  /** From the first packet to the last, a repetition over TCP included; ms. */
  responseTimeMs: number;
}

/** Largest bound that the interface allows for a response time. */
export const QUERY_LIMIT_MS = 5000;
/** A lost datagram costs a second, and shows as such in the response time. */
const RESEND_AFTER_MS = [1000, 3000];
/** No fragments on any usual path (DNS flag day 2020). */
const EDNS_SIZE = 1232;

/**
 * Asks one server, over TCP as well when the datagram was truncated, and without EDNS when the server
 * does not know it. What comes back is the server's last word, truncated or not.
 *
 * @throws ExchangeError when that server does not answer or answers nonsense
 * @throws AgentFault when this machine could not ask; the signal's reason
 */
export async function askServer(
  question: DnsQuestion,
  server: ServerAddress,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Answered> {
  const startedMs = monoMs();
  const patience = () => ({
    timeoutMs: Math.max(1, timeoutMs - (monoMs() - startedMs)),
    resendAfterMs: RESEND_AFTER_MS,
    signal,
  });
  const { name, type, protocol } = question;
  const ask = (over: 'UDP' | 'TCP', ednsSize: number | null): Promise<Reply> =>
    (over === 'TCP' ? askTcp : askUdp)({ name, type, ednsSize }, server, patience());
  try {
    let reply = await ask(protocol, EDNS_SIZE);
    if (isEdnsUnknown(reply)) reply = await ask(protocol, null);
    if (reply.message.flags.tc && reply.protocol === 'UDP') reply = await ask('TCP', EDNS_SIZE);
    return { reply, responseTimeMs: monoMs() - startedMs };
  } catch (error) {
    if (!(error instanceof ExchangeError)) throw error;
    throw (await localFaultOf(error.cause, server.address)) ?? error;
  }
}

const isEdnsUnknown = ({ message }: Reply): boolean =>
  message.edns === null && (message.rcode === RCODE.formErr || message.rcode === RCODE.notImp);

/**
 * Asks the name servers of this agent in turn, each with its share of the time.
 *
 * @throws AgentFault `RESOLVER_UNREACHABLE` when none answers: they are not what the check is about
 */
export async function askAny(
  question: DnsQuestion,
  servers: readonly ServerAddress[],
  signal: AbortSignal,
): Promise<Answered> {
  const told: string[] = [];
  for (const server of servers) {
    try {
      return await askServer(question, server, QUERY_LIMIT_MS / servers.length, signal);
    } catch (error) {
      if (!(error instanceof ExchangeError)) throw error;
      told.push(error.message);
    }
  }
  throw new AgentFault('RESOLVER_UNREACHABLE', `no name server of this agent answered (${told.join('; ')})`);
}
