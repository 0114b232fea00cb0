import dgram from 'node:dgram';
import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** What the server answers to one query, or null for nothing. */
export type DnsAnswer = (query: Buffer, over: 'UDP' | 'TCP') => Buffer | null | Promise<Buffer | null>;

export interface OddDns extends AsyncDisposable {
  port: number;
  /** Queries seen, by protocol. */
  readonly asked: { UDP: number; TCP: number };
  stop(): Promise<void>;
}

/** A name server of raw bytes on 127.0.0.1, UDP and TCP on one port. */
export async function startOddDns(answer: DnsAnswer): Promise<OddDns> {
  const asked = { UDP: 0, TCP: 0 };
  const tcp = net.createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (framed: Buffer) => {
      asked.TCP++;
      void Promise.resolve(answer(framed.subarray(2), 'TCP')).then((reply) => {
        if (reply !== null && !socket.destroyed) socket.write(frame(reply));
      });
    });
  });
  const { udp, port } = await listenOnBoth(tcp);
  udp.on('message', (query, from) => {
    asked.UDP++;
    void Promise.resolve(answer(query, 'UDP')).then((reply) => {
      if (reply !== null) udp.send(reply, from.port, from.address);
    });
  });
  const stop = async (): Promise<void> => {
    const closed = Promise.all([once(udp, 'close'), once(tcp, 'close')]);
    udp.close();
    tcp.close();
    await closed;
  };
  return { port, asked, stop, [Symbol.asyncDispose]: stop };
}

/** UDP first, then TCP on the same number; another try when that one is taken. */
async function listenOnBoth(tcp: net.Server): Promise<{ udp: dgram.Socket; port: number }> {
  for (let tries = 0; tries < 10; tries++) {
    const udp = dgram.createSocket('udp4');
    udp.bind(0, '127.0.0.1');
    await once(udp, 'listening');
    const { port } = udp.address();
    tcp.listen(port, '127.0.0.1');
    try {
      await once(tcp, 'listening');
      return { udp, port };
    } catch {
      udp.close();
    }
  }
  throw new Error('no port is free for both UDP and TCP');
}

const frame = (message: Buffer): Buffer => {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
};

const QR = 0x8000;
const TC = 0x0200;

/** The query turned into an answer: header and question kept, one A record when `address` is given. */
export function reply(
  query: Buffer,
  options: { address?: string; truncated?: boolean; rcode?: number } = {},
): Buffer {
  const questionEnd = endOfQuestion(query);
  const head = Buffer.from(query.subarray(0, questionEnd));
  const flags = QR | (query.readUInt16BE(2) & 0x0100) | (options.truncated ? TC : 0) | (options.rcode ?? 0);
  head.writeUInt16BE(flags, 2);
  head.writeUInt16BE(options.address === undefined ? 0 : 1, 6);
  head.writeUInt16BE(0, 8);
  head.writeUInt16BE(0, 10);
  if (options.address === undefined) return head;
  // Pointer to the question's name, type A, class IN, TTL 60, four bytes.
  const record = Buffer.from([
    0xc0,
    12,
    0,
    1,
    0,
    1,
    0,
    0,
    0,
    60,
    0,
    4,
    ...options.address.split('.').map(Number),
  ]);
  return Buffer.concat([head, record]);
}

function endOfQuestion(query: Buffer): number {
  let at = 12;
  while (query[at]! > 0) at += query[at]! + 1;
  return at + 5;
}

export const silent: DnsAnswer = () => null;
export const garbage: DnsAnswer = () => Buffer.from('this is not a DNS message');
export const otherId: DnsAnswer = (query) => {
  const answer = reply(query, { address: '127.0.0.9' });
  answer.writeUInt16BE((query.readUInt16BE(0) + 1) % 65_536, 0);
  return answer;
};
/** Truncated over UDP, complete over TCP. */
export const truncating: DnsAnswer = (query, over) =>
  over === 'UDP' ? reply(query, { truncated: true }) : reply(query, { address: '127.0.0.4' });
export const late =
  (ms: number): DnsAnswer =>
  async (query) => {
    await delay(ms);
    return reply(query, { address: '127.0.0.5' });
  };
