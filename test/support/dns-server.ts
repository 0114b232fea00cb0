import { createSocket, type RemoteInfo } from 'node:dgram';
import { createServer, type Socket } from 'node:net';
import { once } from 'node:events';
import dnsPacket, { type Answer, type DecodedPacket, type Packet } from 'dns-packet';

export interface Asked {
  name: string;
  type: string;
  protocol: 'UDP' | 'TCP';
  query: DecodedPacket;
}
/** Bytes go out as they are, null stays silent; a packet gets the query's id and question. */
export type Answering = (asked: Asked) => (Packet & { rcode?: number }) | Buffer | Buffer[] | null;

export interface TestDnsServer {
  address: string;
  port: number;
  /** `127.0.0.1:4711`. */
  text: string;
  asked: Asked[];
  close(): Promise<void>;
}

/** A DNS server on a free loopback port, UDP and TCP, that answers whatever a test wants, after a pause. */
export async function startDnsServer(
  answering: Answering,
  address = '127.0.0.1',
  pauseMs = 0,
): Promise<TestDnsServer> {
  const asked: Asked[] = [];
  const respond = (bytes: Buffer, protocol: 'UDP' | 'TCP'): Buffer[] => {
    const query = dnsPacket.decode(bytes);
    const [question] = query.questions ?? [];
    const one: Asked = { name: question?.name ?? '', type: question?.type ?? '', protocol, query };
    asked.push(one);
    const answer = answering(one);
    if (answer === null) return [];
    if (Buffer.isBuffer(answer)) return [answer];
    return Array.isArray(answer) ? answer : [packet(answer, query)];
  };

  const { tcp, udp, port } = await listenBoth(address);
  const sockets = new Set<Socket>();
  udp.on('message', (bytes: Buffer, from: RemoteInfo) => {
    const send = (): void => {
      for (const answer of respond(bytes, 'UDP')) udp.send(answer, from.port, from.address);
    };
    if (pauseMs === 0) send();
    else setTimeout(send, pauseMs);
  });
  tcp.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('data', (bytes: Buffer) => {
      const answers = respond(bytes.subarray(2), 'TCP');
      if (answers.length === 0) socket.end();
      for (const answer of answers) socket.write(Buffer.concat([lengthOf(answer), answer]));
    });
  });
  return {
    address,
    port,
    text: address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`,
    asked,
    async close() {
      for (const socket of sockets) socket.destroy();
      udp.close();
      tcp.close();
      await once(tcp, 'close');
    },
  };
}

/** The same free port for both protocols; another is tried when UDP has it taken. */
async function listenBoth(address: string) {
  for (;;) {
    const tcp = createServer().listen(0, address);
    await once(tcp, 'listening');
    const { port } = tcp.address() as { port: number };
    const udp = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    try {
      udp.bind(port, address);
      await once(udp, 'listening');
      return { tcp, udp, port };
    } catch {
      tcp.close();
      udp.close();
    }
  }
}

function lengthOf(answer: Buffer): Buffer {
  const prefix = Buffer.alloc(2);
  prefix.writeUInt16BE(answer.length);
  return prefix;
}

export const RA = dnsPacket.RECURSION_AVAILABLE;
export const TC = dnsPacket.TRUNCATED_RESPONSE;

/** The bytes of an answer to `query`: its id and question, what `answer` says, recursion available. */
export function packet(answer: Packet & { rcode?: number }, query: DecodedPacket): Buffer {
  const { rcode = 0, ...rest } = answer;
  const flags = (answer.flags ?? RA) | dnsPacket.RECURSION_DESIRED | rcode;
  return dnsPacket.encode({
    id: query.id ?? 0,
    type: 'response',
    questions: query.questions ?? [],
    ...rest,
    flags,
  });
}

export const a = (name: string, data: string, ttl = 60): Answer => ({ type: 'A', name, ttl, data });
export const cname = (name: string, data: string, ttl = 60): Answer => ({ type: 'CNAME', name, ttl, data });
