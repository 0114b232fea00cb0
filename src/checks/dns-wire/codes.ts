/** Numbers of record types (IANA), by the names that dig prints. */
export const TYPE: Readonly<Record<string, number>> = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  HINFO: 13,
  MX: 15,
  TXT: 16,
  RP: 17,
  AFSDB: 18,
  AAAA: 28,
  LOC: 29,
  SRV: 33,
  NAPTR: 35,
  DNAME: 39,
  OPT: 41,
  DS: 43,
  SSHFP: 44,
  RRSIG: 46,
  NSEC: 47,
  DNSKEY: 48,
  TLSA: 52,
  CDS: 59,
  CDNSKEY: 60,
  SVCB: 64,
  HTTPS: 65,
  SPF: 99,
  ANY: 255,
  URI: 256,
  CAA: 257,
};

const typeNames = new Map(Object.entries(TYPE).map(([name, code]) => [code, name]));
/** `A`, or `TYPE731` for a type without a name here (RFC 3597). */
export const typeName = (code: number): string => typeNames.get(code) ?? `TYPE${code}`;

const RCODES = [
  'NOERROR',
  'FORMERR',
  'SERVFAIL',
  'NXDOMAIN',
  'NOTIMP',
  'REFUSED',
  'YXDOMAIN',
  'YXRRSET',
  'NXRRSET',
  'NOTAUTH',
  'NOTZONE',
];
const EXTENDED_RCODES = new Map([
  [16, 'BADVERS'],
  [23, 'BADCOOKIE'],
]);
export const RCODE = { noError: 0, formErr: 1, servFail: 2, nxDomain: 3, notImp: 4, refused: 5 } as const;
/** `NXDOMAIN`; `RESERVED12` as dig writes a code without a name. */
export const rcodeName = (code: number): string =>
  RCODES[code] ?? EXTENDED_RCODES.get(code) ?? `RESERVED${code}`;

const OPCODES = ['QUERY', 'IQUERY', 'STATUS', 'RESERVED3', 'NOTIFY', 'UPDATE'];
export const opcodeName = (code: number): string => OPCODES[code] ?? `RESERVED${code}`;

const CLASSES = new Map([
  [1, 'IN'],
  [3, 'CH'],
  [4, 'HS'],
  [254, 'NONE'],
  [255, 'ANY'],
]);
export const className = (code: number): string => CLASSES.get(code) ?? `CLASS${code}`;
