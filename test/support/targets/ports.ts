import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';

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
