import { connect, constants, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import { STATUS_CODES } from '../../kit/node-http.ts';
import type { Socket } from 'node:net';
import { bodyCollector } from './content-coding.ts';
import { cutShort, type Exchanged, type Head, NO_BODY, type WireRequest } from './exchange.ts';
import { isRedirect } from './redirect.ts';
import type { Trip } from './trip.ts';

/** Belong to one connection, which HTTP/2 has other means for. */
const CONNECTION_HEADERS = new Set(['connection', 'host', 'keep-alive', 'proxy-connection', 'upgrade']);

/**
 * The same as exchange(), for servers that speak nothing but HTTP/2. Its first byte is the arrival of
 * the header fields: frames before them belong to the connection.
 */
export function exchangeHttp2(
  socket: Socket,
  wire: WireRequest,
  authority: string,
  trip: Trip,
  followRedirects: boolean,
  onHead: (head: Head) => void,
): Promise<Exchanged> {
  return new Promise<Exchanged>((resolve, reject) => {
    const session = connect(`https://${authority}`, { createConnection: () => socket });
    session.once('error', reject);
    const stream = session.request(fieldsOf(wire, authority));
    const onClose = (): void => reject(closedEarly());
    trip.clock.enter('firstByte');
    stream.once('response', (fields) => {
      trip.clock.enter('download');
      const head = headOf(fields);
      onHead(head);
      if (followRedirects && isRedirect(head.status, fields.location)) {
        resolve({ head, body: NO_BODY });
        session.destroy();
        return;
      }
      const collector = bodyCollector(fields['content-encoding']);
      const finish = (): void => {
        stream.off('close', onClose);
        trip.clock.stop();
        session.destroy();
        collector.finish().then((body) => resolve({ head, body }), reject);
      };
      stream.on('data', (chunk: Buffer) => {
        if (!collector.push(chunk)) finish();
      });
      // Node ends a stream that lost its connection like a whole one; only the code tells them apart.
      stream.once('end', () => {
        if (stream.rstCode === constants.NGHTTP2_NO_ERROR) return finish();
        reject(cutShort(head, collector));
        collector.discard();
      });
    });
    stream.once('error', reject);
    stream.once('close', onClose);
    stream.end(wire.body ?? undefined);
  });
}

function closedEarly(): Error {
  return Object.assign(new Error('the stream was closed'), { code: 'ECONNRESET' });
}

function fieldsOf({ method, path, headers }: WireRequest, authority: string): OutgoingHttpHeaders {
  const fields: OutgoingHttpHeaders = { ':method': method, ':path': path, ':authority': authority };
  for (let index = 0; index < headers.length; index += 2) {
    const name = (headers[index] ?? '').toLowerCase();
    const value = headers[index + 1] ?? '';
    if (name === 'host') fields[':authority'] = value;
    if (CONNECTION_HEADERS.has(name)) continue;
    const known = fields[name];
    fields[name] = known === undefined ? value : `${String(known)}, ${value}`;
  }
  return fields;
}

function headOf(fields: IncomingHttpHeaders): Head {
  const status = Number(fields[':status'] ?? 0);
  const headers: Head['headers'] = {};
  for (const [name, value] of Object.entries(fields)) {
    if (!name.startsWith(':') && value !== undefined) headers[name] = value;
  }
  return { status, statusText: STATUS_CODES[status] ?? '', httpVersion: '2.0', headers };
}
