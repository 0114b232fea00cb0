import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { decode, encode, AUTHORITATIVE_ANSWER, type Answer } from 'dns-packet';
import { codeOf } from '../kit/errors.ts';
import { demoSite } from './demo-site/index.ts';

/** Where the demo target listens, on loopback. */
export interface DemoPorts {
  http: number;
  tcp: number;
  dns: number;
}

export interface DemoTarget {
  readonly ports: DemoPorts;
  close(): Promise<void>;
}

export const DEMO_HOST = '127.0.0.1';
/** The one name that the demo's name server knows. */
export const DEMO_NAME = 'demo.vedette.test';

/**
 * Small servers for the example checks to watch: a shop with its API, a TCP echo and a name server. Takes the wanted ports where they are free, so that the examples stay as they are
 * from start to start.
 */
export async function startDemoTarget(wanted: DemoPorts | undefined): Promise<DemoTarget> {
  const http = createHttpServer(demoSite());
  const sockets = new Set<Socket>();
  const tcp = createTcpServer((socket) => {
    sockets.add(socket.once('close', () => sockets.delete(socket)));
    echo(socket);
  });
  const dns = createSocket('udp4');
  dns.on('message', (query, from) => {
    const reply = answerDns(query);
    if (reply !== undefined) dns.send(reply, from.port, from.address);
  });
  const ports = {
    http: await listen(http, wanted?.http),
    tcp: await listen(tcp, wanted?.tcp),
    dns: await bind(dns, wanted?.dns),
  };
  return {
    ports,
    close: async () => {
      http.closeAllConnections();
      for (const socket of sockets) socket.destroy();
      await Promise.all([closed(http), closed(tcp), new Promise<void>((done) => dns.close(() => done()))]);
    },
  };
}

async function listen(server: Server, wanted: number | undefined): Promise<number> {
  return firstFree(wanted, async (port) => {
    server.listen(port, DEMO_HOST);
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  });
}

async function bind(socket: ReturnType<typeof createSocket>, wanted: number | undefined): Promise<number> {
  return firstFree(wanted, async (port) => {
    socket.bind(port, DEMO_HOST);
    await once(socket, 'listening');
    return socket.address().port;
  });
}

async function firstFree(
  wanted: number | undefined,
  open: (port: number) => Promise<number>,
): Promise<number> {
  try {
    return await open(wanted ?? 0);
  } catch (error) {
    if (wanted === undefined || codeOf(error) !== 'EADDRINUSE') throw error;
    return open(0);
  }
}

const closed = (server: Server): Promise<void> => new Promise((done) => server.close(() => done()));

function echo(socket: Socket): void {
  // A check that hangs up first is normal here.
  socket.on('error', () => socket.destroy());
  socket.pipe(socket);
}

/** @returns undefined for what is not a query: nothing is sent back */
function answerDns(packet: Buffer): Buffer | undefined {
  let query;
  try {
    query = decode(packet);
  } catch {
    return undefined;
  }
  const question = query.questions?.[0];
  if (query.type !== 'query' || question === undefined) return undefined;
  const isKnown = question.name.toLowerCase() === DEMO_NAME;
  const answers: Answer[] =
    isKnown && question.type === 'A' ? [{ name: question.name, type: 'A', ttl: 60, data: DEMO_HOST }] : [];
  return encode({
    type: 'response',
    id: query.id!,
    // NXDOMAIN is response code 3, kept in the lowest bits of the flags.
    flags: AUTHORITATIVE_ANSWER | (isKnown ? 0 : 3),
    questions: [question],
    answers,
  });
}
