import type { FileSink } from './file-sink.ts';
import type { Member } from './zip-reader.ts';

const VERSION = 20;
const UTF8 = 0x0800;
/** Sizes follow the bytes, since they are known only then. */
const SIZES_LATER = 0x0008;

type Written = Omit<Member, 'start'> & { flags: number; offset: number };

/** Writes an archive from its beginning to its end. */
export class ZipWriter {
  readonly #sink: FileSink;
  readonly #written: Written[] = [];

  constructor(sink: FileSink) {
    this.#sink = sink;
  }

  /** A member whose packed bytes are there already. */
  async copy(member: Omit<Member, 'start'>, packed: AsyncIterable<Buffer>): Promise<void> {
    const offset = this.#sink.size;
    const flags = member.isUtf8 ? UTF8 : 0;
    await this.#sink.write(localHeader({ ...member, flags, offset }));
    for await (const chunk of packed) await this.#sink.write(chunk);
    this.#written.push({ ...member, flags, offset });
  }

  /** A member whose size is known at the end of its bytes. */
  async pack(
    member: Pick<Member, 'name' | 'isUtf8' | 'method' | 'dosTime'>,
    packed: AsyncIterable<Buffer>,
    sizes: () => { crc: number; size: number },
  ): Promise<void> {
    const offset = this.#sink.size;
    const flags = SIZES_LATER | (member.isUtf8 ? UTF8 : 0);
    await this.#sink.write(localHeader({ ...member, flags, offset, crc: 0, packedSize: 0, size: 0 }));
    const start = this.#sink.size;
    for await (const chunk of packed) await this.#sink.write(chunk);
    const written = { ...member, flags, offset, ...sizes(), packedSize: this.#sink.size - start };
    const after = Buffer.alloc(16);
    after.writeUInt32LE(0x0807_4b50, 0);
    writeSizes(after, 4, written);
    await this.#sink.write(after);
    this.#written.push(written);
  }

  async end(): Promise<void> {
    const start = this.#sink.size;
    for (const member of this.#written) await this.#sink.write(directoryEntry(member));
    const end = Buffer.alloc(22);
    end.writeUInt32LE(0x0605_4b50, 0);
    end.writeUInt16LE(this.#written.length, 8);
    end.writeUInt16LE(this.#written.length, 10);
    end.writeUInt32LE(this.#sink.size - start, 12);
    end.writeUInt32LE(start, 16);
    await this.#sink.write(end);
  }
}

function localHeader(member: Written): Buffer {
  const header = Buffer.alloc(30);
  header.writeUInt32LE(0x0403_4b50, 0);
  header.writeUInt16LE(VERSION, 4);
  header.writeUInt16LE(member.flags, 6);
  header.writeUInt16LE(member.method, 8);
  header.writeUInt32LE(member.dosTime, 10);
  writeSizes(header, 14, member);
  header.writeUInt16LE(member.name.length, 26);
  return Buffer.concat([header, member.name]);
}

function directoryEntry(member: Written): Buffer {
  const entry = Buffer.alloc(46);
  entry.writeUInt32LE(0x0201_4b50, 0);
  entry.writeUInt16LE(VERSION, 4);
  entry.writeUInt16LE(VERSION, 6);
  entry.writeUInt16LE(member.flags, 8);
  entry.writeUInt16LE(member.method, 10);
  entry.writeUInt32LE(member.dosTime, 12);
  writeSizes(entry, 16, member);
  entry.writeUInt16LE(member.name.length, 28);
  entry.writeUInt32LE(member.offset, 42);
  return Buffer.concat([entry, member.name]);
}

function writeSizes(into: Buffer, at: number, { crc, packedSize, size }: Written): void {
  into.writeUInt32LE(crc, at);
  into.writeUInt32LE(packedSize, at + 4);
  into.writeUInt32LE(size, at + 8);
}
