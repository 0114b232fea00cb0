import { TYPE, typeName } from './codes.ts';
import type { DnsRecord } from './message.ts';
import { ipv4Text, ipv6Text, quoted, RdataReader } from './rdata-reader.ts';
import { serviceParameters } from './service-parameters.ts';

type Field = (reader: RdataReader) => string;
const u8: Field = (r) => String(r.number(1));
const u16: Field = (r) => String(r.number(2));
const u32: Field = (r) => String(r.number(4));
const name: Field = (r) => r.name();
const hex: Field = (r) => inGroups(hexText(r.rest()));
const base64: Field = (r) => inGroups(r.rest().toString('base64'));
const typeField: Field = (r) => typeName(r.number(2));
const word: Field = (r) => r.take(r.number(1)).toString('latin1');
const quotedRest: Field = (r) => quoted(r.rest());
const text: Field = (r) => quoted(r.take(r.number(1)));
const texts: Field = (r) => {
  const all: string[] = [];
  while (r.left) all.push(text(r));
  return all.join(' ');
};
const ipv4: Field = (r) => ipv4Text(r.take(4));
const ipv6: Field = (r) => ipv6Text(r.take(16));
/** `20260131235959`, UTC. */
const time: Field = (r) =>
  new Date(r.number(4) * 1000).toISOString().replace(/\..*/, '').replace(/[-:T]/g, '');

/** The fields of each type's data, in the order that dig prints them. */
const layouts: Readonly<Record<string, readonly Field[]>> = {
  A: [ipv4],
  AAAA: [ipv6],
  NS: [name],
  CNAME: [name],
  PTR: [name],
  DNAME: [name],
  MX: [u16, name],
  AFSDB: [u16, name],
  RP: [name, name],
  SOA: [name, name, u32, u32, u32, u32, u32],
  TXT: [texts],
  SPF: [texts],
  HINFO: [text, text],
  SRV: [u16, u16, u16, name],
  NAPTR: [u16, u16, text, text, text, name],
  URI: [u16, u16, quotedRest],
  CAA: [u8, word, quotedRest],
  SVCB: [u16, name, serviceParameters],
  HTTPS: [u16, name, serviceParameters],
  DS: [u16, u8, u8, hex],
  CDS: [u16, u8, u8, hex],
  TLSA: [u8, u8, u8, hex],
  SSHFP: [u8, u8, hex],
  DNSKEY: [u16, u8, u8, base64],
  CDNSKEY: [u16, u8, u8, base64],
  RRSIG: [typeField, u8, u8, u32, time, time, u16, name, base64],
};
const layoutOf = new Map(Object.entries(layouts).map(([type, fields]) => [TYPE[type]!, fields]));

/**
 * A record's data in presentation format, as `dig` prints them. A type without a layout, and data that
 * do not fit theirs, come in the generic form `\# 4 0A000001` (RFC 3597).
 */
export function rdataText(message: Buffer, record: DnsRecord): string {
  const fields = layoutOf.get(record.type);
  if (fields) {
    try {
      const reader = new RdataReader(message, record.start, record.end);
      const parts = fields.map((field) => field(reader)).filter((part) => part !== '');
      if (!reader.left) return parts.join(' ');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }
  const raw = message.subarray(record.start, record.end);
  return `\\# ${raw.length} ${inGroups(hexText(raw))}`.trimEnd();
}

const hexText = (bytes: Buffer): string => bytes.toString('hex').toUpperCase();
/** dig cuts long hex and base64 after each 56 characters. */
const inGroups = (long: string): string => long.replace(/.{56}(?=.)/g, '$& ');

/** The strings of a TXT record put together, undecorated: what its publisher wrote. */
export function txtContent(message: Buffer, record: DnsRecord): string {
  const reader = new RdataReader(message, record.start, record.end);
  const strings: Buffer[] = [];
  while (reader.left) strings.push(reader.take(Math.min(reader.number(1), reader.end - reader.at)));
  return Buffer.concat(strings).toString('utf8');
}
