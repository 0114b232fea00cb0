import { rdataText, TYPE, txtContent, type DnsMessage, type DnsRecord } from '../dns-wire/index.ts';

interface JsonRecord {
  name: string;
  /** Number of the record type. */
  type: number;
  TTL: number;
  data: string;
}

/** An answer in the form that public DNS-over-HTTPS resolvers give as JSON. */
export interface JsonAnswer {
  Status: number;
  TC: boolean;
  RD: boolean;
  RA: boolean;
  AD: boolean;
  CD: boolean;
  Question: { name: string; type: number }[];
  Answer: JsonRecord[];
  /** Present when the server sent any. */
  Authority?: JsonRecord[];
  Additional?: JsonRecord[];
}

export function jsonAnswer(message: DnsMessage): JsonAnswer {
  const { flags, questions, answers, authorities, additionals } = message;
  const records = (list: readonly DnsRecord[]): JsonRecord[] =>
    list.map((one) => jsonRecord(message.bytes, one));
  return {
    Status: message.rcode,
    TC: flags.tc,
    RD: flags.rd,
    RA: flags.ra,
    AD: flags.ad,
    CD: flags.cd,
    Question: questions.map(({ name, type }) => ({ name, type })),
    Answer: records(answers),
    ...(authorities.length > 0 ? { Authority: records(authorities) } : {}),
    ...(additionals.length > 0 ? { Additional: records(additionals) } : {}),
  };
}

/** TXT comes as its publisher wrote it, without quotes: that is what people compare with. */
function jsonRecord(bytes: Buffer, record: DnsRecord): JsonRecord {
  const data = record.type === TYPE['TXT'] ? txtContent(bytes, record) : rdataText(bytes, record);
  return { name: record.name, type: record.type, TTL: record.ttl, data };
}
