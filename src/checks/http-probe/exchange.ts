import type { IncomingMessage } from 'node:http';
import { request as httpRequest, STATUS_CODES } from '../../kit/node-http.ts';
import type { Socket } from 'node:net';
import { codeOf } from '../../kit/errors.ts';
import { type BodyCollector, bodyCollector, type CollectedBody } from './content-coding.ts';
import { TargetFailure } from './failure.ts';
import { isRedirect } from './redirect.ts';
import type { Trip } from './trip.ts';

/** Real sites send 20 KB of headers and curl takes 300 KB; beyond this the answer is a clear failure. */
const HEADER_LIMIT_BYTES = 256 * 1024;

/** Status line and header fields of an answer. */
export interface Head {
  status: number;
  statusText: string;
  httpVersion: string;
  /** By lower-case name; repeated fields joined by ", ", but set-cookie always a list. */
  headers: Record<string, string | string[]>;
}

export interface Exchanged {
  head: Head;
  body: CollectedBody;
}

export const NO_BODY: CollectedBody = { bytes: Buffer.alloc(0), truncated: false };

/** What goes over the wire, headers as a flat list of names and values. */
export interface WireRequest {
  method: string;
  path: string;
  headers: string[];
  body: Buffer | null;
}

/**
 * Sends one HTTP/1.1 request on `socket` and reads the answer. The body of a redirect that is followed
 * is not read.
 *
 * @param onHead called as soon as the header fields are there
 * @throws TargetFailure or the error of the socket
 */
export function exchange(
  socket: Socket,
  wire: WireRequest,
  trip: Trip,
  followRedirects: boolean,
  onHead: (head: Head) => void,
): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      method: wire.method,
      path: wire.path,
      headers: wire.headers,
      setHost: false,
      maxHeaderSize: HEADER_LIMIT_BYTES,
      // Bare line feeds, folded fields, a length besides chunks: clients take them. What makes these
      // dangerous is a connection that others share, and this one ends with the answer.
      insecureHTTPParser: true,
      createConnection: () => socket,
    });
    // Node's parser drops what comes after a thousand fields without a word; the bytes are the limit.
    request.maxHeadersCount = 0;
    let answer: IncomingMessage | undefined;
    const onResponse = (response: IncomingMessage): void => {
      answer = response;
      try {
        const head = headOf(response);
        onHead(head);
        const goesOn = followRedirects && isRedirect(head.status, single(head, 'location'));
        if (!goesOn)
          return void readBody(response, head, trip).then((body) => resolve({ head, body }), reject);
        socket.destroy();
        resolve({ head, body: NO_BODY });
      } catch (error) {
        socket.destroy();
        reject(error);
      }
    };
    request.once('response', onResponse);
    // 101 to a request that asked for no upgrade: an answer without a body.
    request.once('upgrade', (response) => {
      socket.destroy();
      const head = headOf(response);
      onHead(head);
      resolve({ head, body: NO_BODY });
    });
    // Bytes behind a complete answer are nobody's.
    request.on('error', (error) => {
      if (answer?.complete !== true) reject(error);
    });
    trip.clock.enter('firstByte');
    socket.once('data', () => trip.clock.enter('download'));
    request.end(wire.body ?? undefined);
  });
}

function readBody(response: IncomingMessage, head: Head, trip: Trip): Promise<CollectedBody> {
  const collector = bodyCollector(single(head, 'content-encoding'));
  return new Promise<CollectedBody>((resolve, reject) => {
    const finish = (): void => {
      trip.clock.stop();
      collector.finish().then(resolve, reject);
    };
    response.on('data', (chunk: Buffer) => {
      if (collector.push(chunk)) return;
      response.removeAllListeners('data');
      response.destroy();
      finish();
    });
    response.once('end', finish);
    response.once('error', (error) => {
      reject(codeOf(error) === 'ECONNRESET' ? cutShort(head, collector) : error);
      collector.discard();
    });
  });
}

/** The connection ended before the body did. */
export function cutShort(head: Head, collector: BodyCollector): TargetFailure {
  const promised = single(head, 'content-length');
  const wanted = promised === undefined ? 'before its end' : `of ${promised}`;
  const message = `the connection was closed in the middle of the body, after ${collector.received} bytes ${wanted}`;
  return new TargetFailure('ECONNRESET', message, true);
}

/** A field that is not meant to be repeated. */
export function single({ headers }: Head, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

function headOf(response: IncomingMessage): Head {
  const status = response.statusCode ?? 0;
  return {
    status,
    statusText: response.statusMessage || STATUS_CODES[status] || '',
    httpVersion: response.httpVersion,
    headers: headersOf(response.rawHeaders),
  };
}

/** Cannot be joined: browsers and curl take the first of several. */
const SINGLE_FIELDS = new Set(['location', 'content-type']);

/** @throws TargetFailure */
function headersOf(raw: string[]): Head['headers'] {
  const headers: Head['headers'] = {};
  for (let index = 0; index < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    const value = utf8Of(raw[index + 1] ?? '');
    if (value.includes('\0')) {
      throw new TargetFailure('HPE_INVALID_HEADER_TOKEN', `the header ${name} contains a NUL byte`, false);
    }
    const known = Object.hasOwn(headers, name) ? headers[name] : undefined;
    if (Array.isArray(known)) known.push(value);
    else if (name === 'set-cookie') headers[name] = [value];
    else if (name === '__proto__' || (known !== undefined && SINGLE_FIELDS.has(name))) continue;
    else headers[name] = known === undefined ? value : `${known}, ${value}`;
  }
  return headers;
}

/** Header bytes arrive as Latin-1; servers that send more than ASCII mostly mean UTF-8. */
function utf8Of(value: string): string {
  // oxlint-disable-next-line no-control-regex -- the point is to find what is not ASCII
  if (/^[\x00-\x7f]*$/.test(value)) return value;
  const decoded = Buffer.from(value, 'latin1').toString('utf8');
  return decoded.includes('\uFFFD') ? value : decoded;
}
