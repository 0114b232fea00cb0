import { readName } from './name.ts';
import { TYPE } from './codes.ts';

export interface Query {
  id: number;
  /** Wire form, from `encodeName`. */
  name: Buffer;
  type: number;
  /** UDP payload size to offer by EDNS; null sends no EDNS. */
  ednsSize: number | null;
}

export interface Question {
  /** Absolute, in presentation format. */
  name: string;
  type: number;
  class: number;
}

export interface DnsRecord extends Question {
  /** Seconds. */
  ttl: number;
  /** Where the data lie in the message: names inside may point anywhere before. */
  start: number;
  end: number;
}

export interface DnsMessage {
  bytes: Buffer;
  id: number;
  opcode: number;
  /** Extended by EDNS where the answer has it. */
  rcode: number;
  flags: {
    qr: boolean;
    aa: boolean;
    tc: boolean;
    rd: boolean;
    ra: boolean;
    ad: boolean;
    cd: boolean;
  };
  questions: Question[];
  answers: DnsRecord[];
  authorities: DnsRecord[];
  /** Without OPT, which is in `edns`. */
  additionals: DnsRecord[];
  edns: { version: number; dnssecOk: boolean; udpSize: number } | null;
}

/** The bytes are not a DNS message. */
export class MalformedMessage extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'MalformedMessage';
  }
}

const HEADER = 12;
const IN = 1;
const RECURSION_DESIRED = 0x0100;
/** Set by dig and by today's stubs: the server may then report validated data (RFC 6840, 5.7). */
const AUTHENTIC_DATA = 0x0020;
const OPT_RECORD_BYTES = 11;

export function encodeQuery(query: Query): Buffer {
  const optBytes = query.ednsSize === null ? 0 : OPT_RECORD_BYTES;
  const bytes = Buffer.alloc(HEADER + query.name.length + 4 + optBytes);
  bytes.writeUInt16BE(query.id, 0);
  bytes.writeUInt16BE(RECURSION_DESIRED | AUTHENTIC_DATA, 2);
  bytes.writeUInt16BE(1, 4);
  bytes.writeUInt16BE(query.ednsSize === null ? 0 : 1, 10);
  query.name.copy(bytes, HEADER);
  let at = HEADER + query.name.length;
  at = bytes.writeUInt16BE(query.type, at);
  at = bytes.writeUInt16BE(IN, at);
  if (query.ednsSize !== null) {
    bytes.writeUInt16BE(TYPE['OPT']!, at + 1);
    bytes.writeUInt16BE(query.ednsSize, at + 3);
  }
  return bytes;
}

/** @throws MalformedMessage */
export function decodeMessage(bytes: Buffer): DnsMessage {
  if (bytes.length < HEADER) throw new MalformedMessage(`${bytes.length} bytes are no DNS message`);
  const bits = bytes.readUInt16BE(2);
  const message: DnsMessage = {
    bytes,
    id: bytes.readUInt16BE(0),
    opcode: (bits >> 11) & 0xf,
    rcode: bits & 0xf,
    flags: {
      qr: (bits & 0x8000) !== 0,
      aa: (bits & 0x0400) !== 0,
      tc: (bits & 0x0200) !== 0,
      rd: (bits & 0x0100) !== 0,
      ra: (bits & 0x0080) !== 0,
      ad: (bits & 0x0020) !== 0,
      cd: (bits & 0x0010) !== 0,
    },
    questions: [],
    answers: [],
    authorities: [],
    additionals: [],
    edns: null,
  };
  try {
    readSections(message);
  } catch (error) {
    // Some servers cut a truncated answer inside a record; what came before is good.
    if (error instanceof RangeError && message.flags.tc) return message;
    throw new MalformedMessage('the answer is malformed', { cause: error });
  }
  return message;
}

function readSections(message: DnsMessage): void {
  const { bytes } = message;
  let at = HEADER;
  for (let i = bytes.readUInt16BE(4); i > 0; i--) {
    const { text, next } = readName(bytes, at);
    message.questions.push({
      name: text,
      type: bytes.readUInt16BE(next),
      class: bytes.readUInt16BE(next + 2),
    });
    at = next + 4;
  }
  const sections = [message.answers, message.authorities, message.additionals];
  for (const [index, section] of sections.entries()) {
    for (let i = bytes.readUInt16BE(6 + 2 * index); i > 0; i--) {
      const record = readRecord(bytes, at);
      at = record.end;
      if (record.type === TYPE['OPT']) applyEdns(message, record);
      else section.push(record);
    }
  }
}

function readRecord(bytes: Buffer, offset: number): DnsRecord {
  const { text, next } = readName(bytes, offset);
  const start = next + 10;
  const end = start + bytes.readUInt16BE(next + 8);
  if (end > bytes.length) throw new RangeError('a record runs past the end of the message');
  return {
    name: text,
    type: bytes.readUInt16BE(next),
    class: bytes.readUInt16BE(next + 2),
    ttl: bytes.readUInt32BE(next + 4),
    start,
    end,
  };
}

/** OPT keeps its own things in the fields of a record (RFC 6891, 6.1.3). */
function applyEdns(message: DnsMessage, opt: DnsRecord): void {
  message.rcode |= (opt.ttl >>> 24) << 4;
  message.edns = {
    version: (opt.ttl >>> 16) & 0xff,
    dnssecOk: (opt.ttl & 0x8000) !== 0,
    udpSize: opt.class,
  };
}
