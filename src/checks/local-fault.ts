import { createSocket } from 'node:dgram';
import { isIP } from 'node:net';
import { codeOf, messageOf } from '../kit/errors.ts';
import { AgentFault } from './check-type.ts';

/** What this machine ran out of or forbids; never a fact about a target. */
const OURS: Readonly<Record<string, string>> = {
  EMFILE: 'this process has no free file descriptors',
  ENFILE: 'this machine has no free file descriptors',
  ENOBUFS: 'this machine has no free network buffers',
  ENOMEM: 'this machine is out of memory',
  EADDRNOTAVAIL: 'this machine has no free local port or no address of this family',
  EAFNOSUPPORT: 'this machine has no network of this family',
  EPERM: 'a firewall of this machine forbids the connection',
  EACCES: 'a rule of this machine forbids the connection',
  ERR_ACCESS_DENIED: 'this process may not use the network',
};
const NO_ROUTE = new Set(['ENETUNREACH', 'EHOSTUNREACH', 'ENETDOWN']);

/**
 * The fault of this machine behind a failed connection, or null when the failure says something about
 * the target. `address` is the IP address that was tried. A missing route is ours; the same error code
 * sent back by a router on the way is not.
 */
export async function localFaultOf(error: unknown, address: string): Promise<AgentFault | null> {
  const code = codeOf(error);
  if (code === undefined || (code === 'EACCES' && isBroadcast(address))) return null;
  const ours = OURS[code];
  if (ours !== undefined) return new AgentFault(code, `${ours} (${messageOf(error)})`, {}, { cause: error });
  if (!NO_ROUTE.has(code) || (await hasRoute(address))) return null;
  const message = `this machine has no route to ${address}`;
  return new AgentFault('NETWORK_UNREACHABLE', message, {}, { cause: error });
}

/** The system refuses these in the same words as a rule of the firewall, but who wants them is at fault. */
const isBroadcast = (address: string): boolean => isIP(address) === 4 && address.endsWith('.255');

/** Whether this machine knows a way to an IP address. Connecting a datagram socket asks that and sends nothing. */
export function hasRoute(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket({
      type: isIP(address) === 6 ? 'udp6' : 'udp4',
      lookup: (host, _options, done) => done(null, host, isIP(host)),
    });
    const finish = (found: boolean): void => {
      socket.close();
      resolve(found);
    };
    socket.once('connect', () => finish(true));
    socket.once('error', (error) => finish(!NO_ROUTE.has(codeOf(error) ?? '')));
    socket.connect(9, address);
  });
}
