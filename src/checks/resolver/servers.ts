import { AgentFault } from '../check-type.ts';
import {
  askTcp,
  askUdp,
  ExchangeError,
  RCODE,
  rcodeName,
  serverText,
  type Reply,
  type ServerAddress,
} from '../dns-wire/index.ts';
import { NameError } from '../resolve.ts';
import type { ResolvConf } from './system-files.ts';

/** Offered when resolv.conf says `edns0`: no fragments on any usual path (DNS flag day 2020). */
const EDNS_SIZE = 1232;

interface Wanted {
  name: Buffer;
  type: number;
}

/** A server's reply that leaves the name open, so that the next server is asked. */
class Unhelpful extends Error {
  readonly servfail: boolean;
  constructor(message: string, servfail: boolean) {
    super(message);
    this.servfail = servfail;
  }
}

let turn = 0;

/**
 * Puts one question to the servers, in order, until one says what the name has or that it does not
 * exist. All together have `timeout` seconds, within which each is tried `attempts` times: the next try
 * starts when one fails, or after an equal share of the time, and the earlier ones are still heard.
 *
 * @throws NameError ESERVFAIL when the last word of a reachable server was SERVFAIL
 * @throws AgentFault `RESOLVER_UNREACHABLE` naming the servers
 */
export async function askServers(wanted: Wanted, shownName: string, conf: ResolvConf): Promise<Reply> {
  const budgetMs = conf.timeoutSeconds * 1000;
  const tries = schedule(conf);
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), budgetMs);
  const patience = { timeoutMs: budgetMs, signal: over.signal };
  const failures = new Map<string, Error>();
  const running = new Set<Promise<Reply | undefined>>();

  const start = (server: ServerAddress): void => {
    const attempt = askServer(wanted, server, conf, patience).catch((error: unknown) => {
      if (!over.signal.aborted && error instanceof Error && !isSilence(error)) {
        failures.set(serverText(server), error);
      }
      return undefined;
    });
    const tracked = attempt.finally(() => running.delete(tracked));
    running.add(tracked);
  };

  try {
    for (const [index, server] of tries.entries()) {
      if (isHopeless(failures.get(serverText(server)))) continue;
      start(server);
      const isLast = index === tries.length - 1;
      const reply = await firstReply(running, isLast ? budgetMs : budgetMs / tries.length, over.signal);
      if (reply) return reply;
    }
    const reply = await firstReply(running, budgetMs, over.signal);
    if (reply) return reply;
  } finally {
    clearTimeout(timer);
    over.abort();
  }
  throw verdict(shownName, conf.servers, failures, budgetMs);
}

function schedule(conf: ResolvConf): ServerAddress[] {
  const first = conf.rotate ? turn++ % conf.servers.length : 0;
  const round = [...conf.servers.slice(first), ...conf.servers.slice(0, first)];
  return Array.from({ length: conf.attempts }, () => round).flat();
}

const isSilence = (error: Error): boolean => error instanceof ExchangeError && error.code === 'TIMEOUT';

/** Asking again within the same second would only repeat it: a closed port, a server that declines. */
const isHopeless = (failure: Error | undefined): boolean =>
  failure instanceof Unhelpful || (failure instanceof ExchangeError && failure.code === 'ECONNREFUSED');

/** The first reply of any running try; undefined when all have failed or the time is up. */
async function firstReply(
  running: Set<Promise<Reply | undefined>>,
  waitMs: number,
  signal: AbortSignal,
): Promise<Reply | undefined> {
  if (signal.aborted) return undefined;
  const over = Promise.withResolvers<'over'>();
  const onAbort = (): void => over.resolve('over');
  const timer = setTimeout(onAbort, waitMs);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    while (running.size > 0) {
      const first = await Promise.race([...running, over.promise]);
      if (first === 'over') return undefined;
      if (first) return first;
    }
    return undefined;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

/** One server, one try: UDP with TCP when truncated, and without EDNS where that is not understood. */
async function askServer(
  wanted: Wanted,
  server: ServerAddress,
  conf: ResolvConf,
  patience: { timeoutMs: number; signal: AbortSignal },
): Promise<Reply> {
  const plain = { ...wanted, ednsSize: null };
  const ask = conf.edns ? { ...wanted, ednsSize: EDNS_SIZE } : plain;
  if (conf.useTcp) return helpful(await askTcp(ask, server, patience));
  let reply = await askUdp(ask, server, patience);
  if (conf.edns && isOneOf(reply, RCODE.formErr, RCODE.notImp)) reply = await askUdp(plain, server, patience);
  if (reply.message.flags.tc) reply = await untruncated(reply, () => askTcp(plain, server, patience));
  return helpful(reply);
}

/** Part of the addresses is better than none where a firewall lets no TCP through. */
async function untruncated(reply: Reply, again: () => Promise<Reply>): Promise<Reply> {
  try {
    return await again();
  } catch (error) {
    if (reply.message.answers.length > 0) return reply;
    throw error;
  }
}

const isOneOf = (reply: Reply, ...codes: readonly number[]): boolean => codes.includes(reply.message.rcode);

function helpful(reply: Reply): Reply {
  const { message } = reply;
  if (!isOneOf(reply, RCODE.noError, RCODE.nxDomain)) {
    throw new Unhelpful(rcodeName(message.rcode), message.rcode === RCODE.servFail);
  }
  const lame = isOneOf(reply, RCODE.noError) && message.answers.length === 0 && !message.flags.aa;
  if (lame && !message.flags.ra) throw new Unhelpful('does not resolve for clients', false);
  return reply;
}

function verdict(
  name: string,
  servers: readonly ServerAddress[],
  failures: ReadonlyMap<string, Error>,
  budgetMs: number,
): Error {
  for (const [server, failure] of failures) {
    if (!(failure instanceof Unhelpful) || !failure.servfail) continue;
    const bare = name.replace(/\.$/, '');
    return new NameError('ESERVFAIL', bare, server, `${server} could not resolve ${bare} (SERVFAIL)`);
  }
  const names = [...new Set(servers.map(serverText))];
  if (failures.size === 0) {
    const message = `no answer from ${names.join(' and ')} within ${budgetMs} ms`;
    return new AgentFault('RESOLVER_UNREACHABLE', message);
  }
  const told = names.map((server) => {
    const failure = failures.get(server);
    if (failure === undefined) return `no answer from ${server} within ${budgetMs} ms`;
    // What went wrong on the way names the server already.
    return failure instanceof Unhelpful ? `${server}: ${failure.message}` : failure.message;
  });
  return new AgentFault('RESOLVER_UNREACHABLE', `no resolver could be used (${told.join('; ')})`);
}
