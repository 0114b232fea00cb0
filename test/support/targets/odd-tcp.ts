import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { stopChild } from '../programs.ts';
import { listenOn } from './ports.ts';

export interface TcpTarget extends AsyncDisposable {
  host: string;
  port: number;
  stop(): Promise<void>;
}

/** A TCP server of one behaviour, on a port of the kernel's choice. */
export async function startTcp(
  onConnection: (socket: net.Socket) => void,
  host = '127.0.0.1',
): Promise<TcpTarget> {
  const open = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  const port = await listenOn(server, host);
  const stop = async (): Promise<void> => {
    for (const socket of open) socket.destroy();
    const closed = once(server, 'close');
    server.close();
    await closed;
  };
  return { host, port, stop, [Symbol.asyncDispose]: stop };
}

/** Sends back what it gets. */
export const echo = (socket: net.Socket): void => void socket.pipe(socket);
/** Speaks first, as SMTP and SSH servers do. */
export const banner = (socket: net.Socket): void => void socket.write('220 mail.vedette.test ESMTP\r\n');
/** Accepts and says nothing. */
export const silent = (): void => undefined;
/** Accepts, closes in good order. */
export const closing = (socket: net.Socket): void => void socket.end();
/** Accepts, resets when spoken to: a reset at once may overtake the end of the client's connect. */
export const resetting = (socket: net.Socket): void =>
  void socket.once('data', () => socket.resetAndDestroy());
/** Answers after the pause; for measuring. */
export const answering =
  (pauseMs: number, text: string) =>
  (socket: net.Socket): void => {
    socket.on('data', () => void delay(pauseMs).then(() => socket.destroyed || socket.write(text)));
  };

const HOLE_PROGRAM = `
import net from 'node:net';
const server = net.createServer();
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => process.send(server.address().port));
`;

/**
 * A black hole without privileges: a stopped process listens with a full queue, so the kernel drops
 * every further SYN and the client hears nothing at all.
 */
export async function startBlackHole(): Promise<TcpTarget> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', HOLE_PROGRAM], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const [port] = (await once(child, 'message')) as [number];
  child.kill('SIGSTOP');
  const fillers = await fillQueue(port);
  const stop = async (): Promise<void> => {
    for (const socket of fillers) socket.destroy();
    child.kill('SIGCONT');
    await stopChild(child);
  };
  return { host: '127.0.0.1', port, stop, [Symbol.asyncDispose]: stop };
}

/** Connects until a connection no longer succeeds at once; loopback needs less than 1 ms for one. */
async function fillQueue(port: number): Promise<net.Socket[]> {
  const sockets: net.Socket[] = [];
  for (;;) {
    const socket = net.connect(port, '127.0.0.1').on('error', () => undefined);
    sockets.push(socket);
    const connected = await Promise.race([once(socket, 'connect').then(() => true), delay(250, false)]);
    if (!connected) return sockets;
  }
}
