import { ipv4Text, ipv6Text, quoted, type RdataReader } from './rdata-reader.ts';

const KEYS = ['mandatory', 'alpn', 'no-default-alpn', 'port', 'ipv4hint', 'ech', 'ipv6hint', 'dohpath'];
const keyName = (key: number): string => KEYS[key] ?? `key${key}`;

/** The parameters of an SVCB or HTTPS record (RFC 9460, 2.1), e.g. `alpn="h2,h3" port=8443`. */
export function serviceParameters(reader: RdataReader): string {
  const shown: string[] = [];
  while (reader.left) {
    const key = reader.number(2);
    const value = reader.take(reader.number(2));
    shown.push(parameter(key, value));
  }
  return shown.join(' ');
}

function parameter(key: number, value: Buffer): string {
  const name = keyName(key);
  switch (name) {
    case 'mandatory':
      return `${name}=${chunks(value, 2, (b) => keyName(b.readUInt16BE(0)))}`;
    case 'alpn':
      return `${name}=${quoted(Buffer.from(protocolNames(value), 'latin1'))}`;
    case 'port':
      return `${name}=${value.readUInt16BE(0)}`;
    case 'ipv4hint':
      return `${name}=${chunks(value, 4, ipv4Text)}`;
    case 'ipv6hint':
      return `${name}=${chunks(value, 16, ipv6Text)}`;
    case 'ech':
      return `${name}=${value.toString('base64')}`;
    default:
      return value.length === 0 ? name : `${name}=${quoted(value)}`;
  }
}

function chunks(value: Buffer, size: number, show: (part: Buffer) => string): string {
  const parts: string[] = [];
  for (let at = 0; at + size <= value.length; at += size) parts.push(show(value.subarray(at, at + size)));
  return parts.join(',');
}

/** Names of application protocols; a comma within one is escaped. */
function protocolNames(value: Buffer): string {
  const names: string[] = [];
  for (let at = 0; at < value.length; at += 1 + value[at]!) {
    const name = value.toString('latin1', at + 1, at + 1 + value[at]!);
    names.push(name.replace(/[\\,]/g, '\\$&'));
  }
  return names.join(',');
}
