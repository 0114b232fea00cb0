import type { Socket } from 'node:net';
import { codeOf } from '../../kit/errors.ts';
import { AnswerReader, type Head } from './answer-reader.ts';
import { type BodyCollector, bodyCollector, type CollectedBody } from './content-coding.ts';
import { TargetFailure } from './failure.ts';
import { isRedirect } from './redirect.ts';
import type { Trip } from './trip.ts';

export type { Head } from './answer-reader.ts';

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
 * is not read. The socket is destroyed at the end: what comes behind a complete answer is nobody's.
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
    let answer: { head: Head; collector: BodyCollector | undefined } | undefined;
    const reader = new AnswerReader(wire.method, {
      onHead: (head) => {
        onHead(head);
        const goesOn = followRedirects && isRedirect(head.status, single(head, 'location'));
        const collector = goesOn ? undefined : bodyCollector(single(head, 'content-encoding'));
        answer = { head, collector };
        return !goesOn;
      },
      onBody: (bytes) => answer?.collector?.push(bytes) ?? false,
      onEnd: () => {
        if (answer === undefined) return;
        const { head, collector } = answer;
        if (collector === undefined) {
          socket.destroy();
          return resolve({ head, body: NO_BODY });
        }
        trip.clock.stop();
        // Other answers may lie ready in this turn of the loop. They are read, and their time is taken,
        // before the work on this one begins.
        setImmediate(() => {
          socket.destroy();
          collector.finish().then((body) => resolve({ head, body }), reject);
        });
      },
    });
    const fail = (error: unknown): void => {
      if (reader.isDone) return;
      socket.destroy();
      const { head, collector } = answer ?? {};
      const brokeOff = head && collector && reader.isInBody && codeOf(error) === 'ECONNRESET';
      reject(brokeOff ? cutShort(head, collector) : error);
      collector?.discard();
    };
    trip.clock.enter('firstByte');
    socket.once('data', () => trip.clock.enter('download'));
    socket.on('data', (bytes: Buffer) => {
      try {
        reader.push(bytes);
      } catch (error) {
        fail(error);
      }
    });
    socket.on('error', fail);
    const onClose = (): void => void (reader.close() || fail(closedEarly()));
    socket.once('end', onClose);
    socket.once('close', onClose);
    send(socket, wire);
  });
}

function send(socket: Socket, { method, path, headers, body }: WireRequest): void {
  let head = `${method} ${path} HTTP/1.1\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  head += '\r\n';
  if (body === null || body.length === 0) return void socket.write(head, 'latin1');
  socket.cork();
  socket.write(head, 'latin1');
  socket.write(body);
  socket.uncork();
}

const closedEarly = (): Error =>
  Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' });

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
