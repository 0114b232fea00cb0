import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';

const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);

/** Why nothing can be tried over IPv6 here, as in most containers; undefined when it can. */
export const lacksIpv6 = addresses.some(({ address }) => address === '::1')
  ? undefined
  : 'this machine has no IPv6 loopback';

/** For targets on IPv6. Where there is none they listen on IPv4, so that all others still start. */
export const LOOPBACK_6 = lacksIpv6 === undefined ? '::1' : '127.0.0.1';

/**
 * A port that nothing listens on right now, for programs that cannot be told to listen on port 0.
 * UDP and TCP number their ports apart; a server of both must hope, which has been enough.
 */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  const probe = net.createServer();
  const port = await listenOn(probe, host);
  probe.close();
  await once(probe, 'close');
  return port;
}

/** Listens on a port of the kernel's choice. */
export async function listenOn(server: net.Server, host = '127.0.0.1'): Promise<number> {
  server.listen(0, host);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** Whether something accepts connections there. */
export async function accepts(port: number, host = '127.0.0.1'): Promise<boolean> {
  const socket = net.connect(port, host);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
