import { once } from 'node:events';
import net from 'node:net';
import { listenOn } from './ports.ts';

/** A TCP relay in front of a server, to see what passes and to know when. */
export interface Relay extends AsyncDisposable {
  readonly url: string;
  /** Called with each piece that clients send, after it was passed on. */
  onSent: (text: string) => void;
  stop(): Promise<void>;
}

/** Passes everything on to `port`, also after the server there was started anew. */
export async function startRelay(port: number): Promise<Relay> {
  const open = new Set<net.Socket>();
  const relay: Relay = { url: '', onSent: () => undefined, stop, [Symbol.asyncDispose]: stop };
  const server = net.createServer((client) => {
    const upstream = net.connect(port, '127.0.0.1');
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => (open.delete(one), other.destroy()));
    }
    upstream.pipe(client);
    client.on('data', (bytes: Buffer) => {
      upstream.write(bytes, () => relay.onSent(bytes.toString('latin1')));
    });
  });
  async function stop(): Promise<void> {
    const closed = once(server, 'close');
    server.close();
    for (const socket of open) socket.destroy();
    await closed;
  }
  return Object.assign(relay, { url: `http://127.0.0.1:${await listenOn(server)}` });
}
