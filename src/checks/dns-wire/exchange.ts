import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, isIP } from 'node:net';
import { codeOf, messageOf } from '../../kit/errors.ts';
import { rcodeName, typeName } from './codes.ts';
import { decodeMessage, encodeQuery, MalformedMessage, type DnsMessage, type Query } from './message.ts';
import { readName, sameName } from './name.ts';

/** An address, not a name, and a port. */
export interface ServerAddress {
  address: string;
  port: number;
}

export interface Reply {
  message: DnsMessage;
  server: ServerAddress;
  protocol: 'UDP' | 'TCP';
}

/** `code` is TIMEOUT, BAD_ANSWER, or the system's (`ECONNREFUSED`). */
export class ExchangeError extends Error {
  readonly code: string;
  readonly server: ServerAddress;
  constructor(code: string, server: ServerAddress, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ExchangeError';
    this.code = code;
    this.server = server;
  }
}

/** `10.0.0.2:53`, `[::1]:53`. */
export const serverText = ({ address, port }: ServerAddress): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;

/** `10.0.0.2`, `10.0.0.2:5353`, `::1`, `[::1]:5353`; undefined when it is none of these. */
export function parseServer(text: string, defaultPort = 53): ServerAddress | undefined {
  if (isIP(text) !== 0) return { address: text, port: defaultPort };
  const parts = /^(?:\[(?<v6>[^\]]+)\]|(?<v4>[\d.]+))(?::(?<port>\d{1,5}))?$/.exec(text)?.groups;
  const address = parts?.['v6'] ?? parts?.['v4'];
  if (address === undefined || isIP(address) === 0) return undefined;
  return { address, port: parts?.['port'] === undefined ? defaultPort : Number(parts['port']) };
}

export type Ask = Omit<Query, 'id'>;
export interface Patience {
  timeoutMs: number;
  /** When to send the datagram again, ms after the first time. Unused by TCP. */
  resendAfterMs?: readonly number[];
  signal: AbortSignal;
}

/** The part of an exchange that both transports share: settles once, then releases everything. */
function settleOnce(
  server: ServerAddress,
  patience: Patience,
  start: (resolve: (reply: Reply) => void, reject: (error: unknown) => void) => () => void,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    patience.signal.throwIfAborted();
    let settled = false;
    let release = (): void => {};
    const finish = (settle: () => void): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      patience.signal.removeEventListener('abort', onAbort);
      release();
      settle();
    };
    const fail = (error: unknown): void => finish(() => reject(asExchangeError(error, server)));
    const onAbort = (): void => finish(() => reject(patience.signal.reason as Error));
    // After a standstill of this process timers run before packets are read: one turn more for those.
    const timer = setTimeout(
      () => setImmediate(() => fail(silence(server, patience.timeoutMs))),
      patience.timeoutMs,
    );
    patience.signal.addEventListener('abort', onAbort, { once: true });
    release = start((reply) => finish(() => resolve(reply)), fail);
  });
}

const silence = (server: ServerAddress, timeoutMs: number): ExchangeError =>
  new ExchangeError(
    'TIMEOUT',
    server,
    `no answer from ${serverText(server)} within ${Math.round(timeoutMs)} ms`,
  );

function asExchangeError(error: unknown, server: ServerAddress): ExchangeError {
  if (error instanceof ExchangeError) return error;
  const cause = { cause: error };
  if (error instanceof MalformedMessage) {
    return new ExchangeError('BAD_ANSWER', server, `${serverText(server)}: ${error.message}`, cause);
  }
  const code = codeOf(error) ?? 'EUNKNOWN';
  const message =
    code === 'ECONNREFUSED'
      ? `${serverText(server)} refused the query`
      : `${serverText(server)}: ${messageOf(error)}`;
  return new ExchangeError(code, server, message, cause);
}

/**
 * Whether a packet answers the query. A forged one is passed over silently: the true one may follow.
 * A server that could not read the query may answer without repeating the question.
 */
function answers(message: DnsMessage, id: number, ask: Ask): boolean {
  if (message.id !== id || !message.flags.qr) return false;
  const question = message.questions[0];
  if (question === undefined) return message.rcode !== 0;
  return question.type === ask.type && sameName(question.name, readName(ask.name, 0).text);
}

/**
 * One question by UDP, from a new socket (random port) with a random id. The socket is connected, so
 * the kernel drops what comes from anyone else and reports a closed port.
 *
 * @throws ExchangeError; the signal's reason
 */
export function askUdp(ask: Ask, server: ServerAddress, patience: Patience): Promise<Reply> {
  return settleOnce(server, patience, (resolve, reject) => {
    const id = randomInt(0x10000);
    const query = encodeQuery({ ...ask, id });
    const socket = createSocket({
      type: server.address.includes(':') ? 'udp6' : 'udp4',
      lookup: (address, _options, done) => done(null, address, isIP(address)),
    });
    const send = (): void => socket.send(query, (error) => error && reject(error));
    socket.on('error', reject);
    socket.on('message', (bytes) => {
      // Anything with another id is noise even when malformed.
      if (bytes.length < 2 || bytes.readUInt16BE(0) !== id) return;
      try {
        const message = decodeMessage(bytes);
        if (answers(message, id, ask)) resolve({ message, server, protocol: 'UDP' });
      } catch (error) {
        reject(error);
      }
    });
    let resend: NodeJS.Timeout | undefined;
    const sendFrom = (times: readonly number[], nowMs: number): void => {
      send();
      const [nextMs, ...later] = times;
      if (nextMs !== undefined) resend = setTimeout(() => sendFrom(later, nextMs), nextMs - nowMs);
    };
    socket.on('connect', () => sendFrom(patience.resendAfterMs ?? [], 0));
    socket.connect(server.port, server.address);
    return () => {
      clearTimeout(resend);
      socket.close();
    };
  });
}

/**
 * One question over a TCP connection of its own (RFC 7766).
 *
 * @throws ExchangeError; the signal's reason
 */
export function askTcp(ask: Ask, server: ServerAddress, patience: Patience): Promise<Reply> {
  return settleOnce(server, patience, (resolve, reject) => {
    const id = randomInt(0x10000);
    const query = encodeQuery({ ...ask, id });
    const socket = connect({ host: server.address, port: server.port, noDelay: true });
    let received = Buffer.alloc(0);
    socket.on('connect', () => socket.write(Buffer.concat([lengthPrefix(query), query])));
    socket.on('error', reject);
    socket.on('end', () => reject(new MalformedMessage('closed the connection before a whole answer')));
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      try {
        const message = decodeMessage(received.subarray(2, 2 + received.readUInt16BE(0)));
        if (answers(message, id, ask)) return resolve({ message, server, protocol: 'TCP' });
        reject(new MalformedMessage(`answered another question (${shownQuestion(message)})`));
      } catch (error) {
        reject(error);
      }
    });
    return () => socket.destroy();
  });
}

function lengthPrefix(query: Buffer): Buffer {
  const prefix = Buffer.alloc(2);
  prefix.writeUInt16BE(query.length);
  return prefix;
}

function shownQuestion(message: DnsMessage): string {
  const [question] = message.questions;
  return question ? `${question.name} ${typeName(question.type)}` : `none, ${rcodeName(message.rcode)}`;
}
