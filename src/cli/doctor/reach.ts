import * as https from 'node:https';
import { connect, isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { openTunnel } from '../../agent/connection/index.ts';
import { secure, type Secured } from '../../checks/http-probe/index.ts';
import { OpenSession } from '../../contract/index.ts';
import { wallMs } from '../../kit/clock.ts';
import { request } from '../../kit/node-http.ts';
import { placeOf, shownPlace, type Answer, type Site, type Way } from './site.ts';

/** A connection to the first thing on the way: the proxy, else the service. */
export function connectFirst({ first }: Way, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: first.host, port: first.port });
    socket.once('connect', () => resolve(socket));
    socket.on('error', reject);
    signal.addEventListener('abort', () => socket.destroy(), { once: true });
  });
}

/** A connection to the service, through the proxy if there is one. */
export async function openWay(way: Way, signal: AbortSignal): Promise<Duplex> {
  const { proxy, service } = way;
  if (proxy === undefined) return connectFirst(way, signal);
  const stream = await new Promise<Duplex>((resolve, reject) => {
    openTunnel(proxy, shownPlace(placeOf(service)), (error, opened) => {
      if (error === null) resolve(opened);
      else reject(error);
    });
  });
  signal.addEventListener('abort', () => stream.destroy(), { once: true });
  return stream;
}

/** The same with TLS. @throws TargetFailure that says what is wrong with the certificate */
export async function secureWay(way: Way, signal: AbortSignal, skipSSL = false): Promise<Secured> {
  const { host } = placeOf(way.service);
  const socket = (await openWay(way, signal)) as Socket;
  return secure(socket, host, isIP(host) !== 0, way.service.host, { skipSSL, alpn: ['http/1.1'] });
}

/** Asks for a session without saying who: the key is judged first, and no session begins. */
export async function ask(site: Site, signal: AbortSignal): Promise<Answer> {
  const client = site.client();
  const send = client.url('').startsWith('https:') ? https.request : request;
  const startedMs = wallMs();
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const headers = { ...client.headers, 'content-type': 'application/json' };
  const asking = send(client.url(OpenSession.path), { method: 'POST', agent: client.fresh, headers, signal });
  asking.on('error', reject);
  asking.on('response', (response) => {
    const clockAheadMs = clockAhead(response.headers.date, startedMs);
    const status = response.statusCode ?? 0;
    void text(response).then((body) => resolve({ status, body, clockAheadMs }), reject);
  });
  asking.end(JSON.stringify({ messages: [] }));
  return promise;
}

/** The time of the service when its certificate is not of this time: nothing is sent to it, least of all the key. */
export async function clockByAnyMeans(way: Way, signal: AbortSignal): Promise<number | null> {
  const startedMs = wallMs();
  const { socket } = await secureWay(way, signal, true);
  signal.addEventListener('abort', () => socket.destroy(), { once: true });
  socket.write(`HEAD / HTTP/1.1\r\nHost: ${way.service.host}\r\nConnection: close\r\n\r\n`);
  const head = await text(socket).catch(() => '');
  return clockAhead(/^date: *(.+)$/im.exec(head)?.[1], startedMs);
}

/** Against the middle of the request, ms; the header has whole seconds, so half of one is added. */
function clockAhead(date: string | undefined, startedMs: number): number | null {
  const theirs = Date.parse(date ?? '');
  if (Number.isNaN(theirs)) return null;
  return Math.round((startedMs + wallMs()) / 2 - (theirs + 500));
}
