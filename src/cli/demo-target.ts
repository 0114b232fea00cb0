import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { decode, encode, AUTHORITATIVE_ANSWER, type Answer } from 'dns-packet';
import { codeOf } from '../kit/errors.ts';
import { newId } from '../kit/ids.ts';

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
 * Small servers for the example checks to watch: a web page, a JSON API, a page that is down, a TCP echo
 * and a name server. Takes the wanted ports where they are free, so that the examples stay as they are
 * from start to start.
 */
export async function startDemoTarget(wanted: DemoPorts | undefined): Promise<DemoTarget> {
  const http = createHttpServer(answerHttp);
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

function answerHttp(request: IncomingMessage, response: ServerResponse): void {
  const path = new URL(request.url ?? '/', 'http://demo').pathname;
  if (path === '/') return send(response, 200, 'text/html; charset=utf-8', PAGE);
  if (path === '/api/orders' && request.method === 'POST') return takeOrder(request, response);
  if (path.startsWith('/api/orders/')) return showOrder(path, response);
  if (path === '/api/status') return send(response, 200, 'application/json', JSON.stringify(demoStatus()));
  if (path === '/outage') return send(response, 503, 'text/plain', 'This page is down on purpose.\n');
  return send(response, 404, 'text/plain', 'No such page.\n');
}

const PAGE = `<!doctype html>
<html lang="en">
<title>Vedette demo</title>
<link rel="icon" href="data:,">
<h1>Vedette demo page</h1>
<p>A lantern costs <strong>19.50</strong>.
<button onclick="basket.textContent = ++count + ' lantern in the basket'">Add to basket</button>
<p id="basket" data-testid="basket">The basket is empty.</p>
<script>let count = 0;</script>
</html>
`;

/** The last orders; the demo forgets older ones. */
const orders = new Map<string, unknown>();
const MAX_ORDERS = 100;
const MAX_ORDER_BYTES = 10_000;

function takeOrder(request: IncomingMessage, response: ServerResponse): void {
  let body = '';
  request.setEncoding('utf8');
  request.on('data', (text: string) => (body = (body + text).slice(0, MAX_ORDER_BYTES)));
  request.on('end', () => {
    let order: unknown;
    try {
      order = JSON.parse(body);
    } catch {
      return send(response, 400, 'text/plain', 'An order is JSON.\n');
    }
    const id = newId();
    orders.set(id, order);
    if (orders.size > MAX_ORDERS) orders.delete(orders.keys().next().value ?? '');
    return send(response, 201, 'application/json', JSON.stringify({ id }));
  });
}

function showOrder(path: string, response: ServerResponse): void {
  const order = orders.get(path.slice('/api/orders/'.length));
  if (order === undefined) return send(response, 404, 'text/plain', 'No such order.\n');
  return send(response, 200, 'application/json', JSON.stringify(order));
}

function demoStatus(): object {
  return { status: 'ok', services: [{ name: 'shop', healthy: true }], uptimeSeconds: process.uptime() };
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': type }).end(body);
}

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
