import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { statusOf } from '../processes.ts';
import { listenOn } from './ports.ts';

/** A TCP load balancer in front of replicas of the service, as simple as they come. */
export interface Balancer extends AsyncDisposable {
  readonly url: string;
  /** Connections that found no replica. */
  readonly turnedAway: number;
}

const LOOK_EVERY_MS = 100;

/**
 * Gives new connections in turn to the replicas that are ready, which it finds out by asking each every
 * 100 ms. What is open stays with its replica; nothing is tried twice.
 */
export async function startBalancer(ports: readonly number[]): Promise<Balancer> {
  const open = new Set<net.Socket>();
  let ready: number[] = [];
  let turn = 0;
  let turnedAway = 0;
  let stopped = false;
  const look = async (): Promise<void> => {
    while (!stopped) {
      const statuses = await Promise.all(
        ports.map(async (port) => statusOf(`http://127.0.0.1:${port}/-/readiness`)),
      );
      ready = ports.filter((_port, i) => statuses[i] === 200);
      await delay(LOOK_EVERY_MS);
    }
  };
  const server = net.createServer((client) => {
    const port = ready[turn++ % ready.length];
    if (port === undefined) {
      turnedAway += 1;
      return void client.destroy();
    }
    const upstream = net.connect(port, '127.0.0.1');
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => (open.delete(one), other.destroy()));
    }
    client.pipe(upstream).pipe(client);
  });
  const url = `http://127.0.0.1:${await listenOn(server)}`;
  const looking = look();
  return {
    url,
    get turnedAway() {
      return turnedAway;
    },
    [Symbol.asyncDispose]: async () => {
      stopped = true;
      await looking;
      const closed = once(server, 'close');
      server.close();
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}
