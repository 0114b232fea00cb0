import { SocketAddress } from 'node:net';
import { readName } from './name.ts';

/** Reads fields one after the other and never past the end of its record. */
export class RdataReader {
  readonly bytes: Buffer;
  at: number;
  readonly end: number;
  constructor(bytes: Buffer, start: number, end: number) {
    this.bytes = bytes;
    this.at = start;
    this.end = end;
  }
  take(length: number): Buffer {
    const from = this.at;
    if (from + length > this.end) throw new RangeError('record data are too short');
    this.at += length;
    return this.bytes.subarray(from, this.at);
  }
  number(width: 1 | 2 | 4): number {
    return this.take(width).readUIntBE(0, width);
  }
  name(): string {
    const { text, next } = readName(this.bytes, this.at);
    if (next > this.end) throw new RangeError('a name runs past the end of its record');
    this.at = next;
    return text;
  }
  rest(): Buffer {
    return this.take(this.end - this.at);
  }
  get left(): boolean {
    return this.at < this.end;
  }
}

export const ipv4Text = (bytes: Buffer): string => `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}`;

export function ipv6Text(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(2 * i).toString(16));
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address;
}

/** A character string in quotes; what is not printable ASCII becomes `\DDD`. */
export function quoted(bytes: Buffer): string {
  let out = '"';
  for (const byte of bytes) {
    if (byte === QUOTE || byte === BACKSLASH) out += `\\${String.fromCharCode(byte)}`;
    else if (byte < 0x20 || byte > 0x7e) out += `\\${String(byte).padStart(3, '0')}`;
    else out += String.fromCharCode(byte);
  }
  return out + '"';
}
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
