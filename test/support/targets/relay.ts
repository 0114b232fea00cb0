import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath, stopChild } from '../programs.ts';
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

const ENTRANCE_PROGRAM = `
import net from 'node:net';
const [, path] = process.argv;
const server = net.createServer((client) => {
  const upstream = net.connect(path);
  client.on('error', () => upstream.destroy()).on('close', () => upstream.destroy());
  upstream.on('error', () => client.destroy()).on('close', () => client.destroy());
  client.pipe(upstream).pipe(client);
});
server.listen(0, '127.0.0.1', () => process.send(server.address().port));
process.on('disconnect', () => process.exit());
`;

/**
 * Lets processes of a network namespace without any route reach one server outside: a socket file is
 * the only thing that two namespaces share. @returns the address of the server inside
 */
export async function startEntrance(
  within: readonly string[],
  port: number,
): Promise<{ url: string; stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-entrance-'));
  const path = join(folder, 'socket');
  const outside = net.createServer((inner) => {
    const upstream = net.connect(port, '127.0.0.1');
    inner.on('error', () => upstream.destroy()).on('close', () => upstream.destroy());
    upstream.on('error', () => inner.destroy()).on('close', () => inner.destroy());
    inner.pipe(upstream).pipe(inner);
  });
  outside.listen(path);
  await once(outside, 'listening');
  const node = [process.execPath, '--input-type=module', '--eval', ENTRANCE_PROGRAM, path];
  const [program, ...args] = [...within, ...node];
  const child = spawn(programPath(program!), args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const [inside] = (await once(child, 'message')) as [number];
  const stop = async (): Promise<void> => {
    await stopChild(child);
    outside.close();
    rmSync(folder, { recursive: true });
  };
  return { url: `http://127.0.0.1:${inside}`, stop };
}
