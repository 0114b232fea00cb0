import { messageOf } from '../../kit/errors.ts';
import { AgentFault } from '../check-type.ts';
import { NotPermitted, type Ping, type PingOrder, type PingResult } from './ping.ts';
import { pingByProgram } from './ping-program.ts';

const WAYS = ['datagram', 'raw', 'program'] as const;
type Way = (typeof WAYS)[number];

/** The way that worked last, by family: the closed ones before it are not tried again. */
const open = new Map<4 | 6, Way>();
const sockets = new Map<string, Promise<Ping>>();

/**
 * Pings by the first way that this machine allows: an ICMP datagram socket, a raw socket, the `ping`
 * program.
 *
 * @throws AgentFault `ICMP_NOT_PERMITTED` saying what to change
 * @throws an Error with a `code` when the address cannot be sent to; the signal's reason
 */
export async function ping(order: PingOrder, ways: readonly Way[] = WAYS): Promise<PingResult[]> {
  const refusals: string[] = [];
  const known = open.get(order.family);
  for (const way of known && ways === WAYS ? WAYS.slice(WAYS.indexOf(known)) : ways) {
    try {
      const results = await (await pingBy(way, order.family))(order);
      if (ways === WAYS) open.set(order.family, way);
      return results;
    } catch (error) {
      if (!(error instanceof NotPermitted)) throw error;
      refusals.push(error.message);
    }
  }
  open.delete(order.family);
  throw new AgentFault(
    'ICMP_NOT_PERMITTED',
    `this agent may not ping (${refusals.join('; ')}). One of these is enough: allow its group in the sysctl net.ipv4.ping_group_range, give it the capability NET_RAW, or install the ping program (iputils-ping)`,
  );
}

function pingBy(way: Way, family: 4 | 6): Promise<Ping> {
  if (way === 'program') return Promise.resolve(pingByProgram);
  const key = `${way} ${family}`;
  const known = sockets.get(key);
  if (known) return known;
  const made = socketPing(way, family);
  sockets.set(key, made);
  return made;
}

/** Native code may be forbidden to this process, or not exist for this machine. */
async function socketPing(way: 'datagram' | 'raw', family: 4 | 6): Promise<Ping> {
  try {
    const { SharedSocket } = await import('./socket-ping.ts');
    const shared = new SharedSocket(family, way);
    return (order) => shared.ping(order);
  } catch (error) {
    const reason = `${way} ICMP socket: ${messageOf(error)}`;
    return () => Promise.reject(new NotPermitted(reason, { cause: error }));
  }
}
