import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { inflateRaw } from 'node:zlib';

/** Of one file, and of all: a report is made of pages, pictures and traces. */
const MAX_FILE_BYTES = 500_000_000;
const MAX_BYTES = 1_000_000_000;

const END = 0x06054b50;
const ENTRY = 0x02014b50;
const END_BYTES = 22;
const ENTRY_BYTES = 46;
const HEADER_BYTES = 30;
const STORED = 0;
const DEFLATED = 8;

const inflate = promisify(inflateRaw);

interface Entry {
  name: string;
  method: number;
  packed: number;
  size: number;
  offset: number;
}

/**
 * Unpacks a ZIP of files, such as a report. Of links and permissions it knows nothing, nor of archives with
 * more than 65,534 files or 4 GB.
 *
 * @throws Error when it is damaged, or has a file outside of itself
 */
export async function unzip(archive: string, into: string): Promise<void> {
  const bytes = await readFile(archive);
  let total = 0;
  for (const entry of entriesOf(bytes)) {
    if (entry.name.endsWith('/')) continue;
    const isInside = entry.name.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
    if (!isInside || /[\\\0]/.test(entry.name))
      throw new Error(`${JSON.stringify(entry.name)} is no path inside`);
    total += entry.size;
    if (total > MAX_BYTES) throw new Error(`it unpacks to more than ${MAX_BYTES / 1e6} MB`);
    const path = join(into, entry.name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, await contentOf(bytes, entry));
  }
}

function entriesOf(bytes: Buffer): Entry[] {
  const end = endOf(bytes);
  const entries: Entry[] = [];
  let at = bytes.readUInt32LE(end + 16);
  for (let left = bytes.readUInt16LE(end + 10); left > 0; left--) {
    if (at + ENTRY_BYTES > bytes.length || bytes.readUInt32LE(at) !== ENTRY) throw damaged();
    const nameBytes = bytes.readUInt16LE(at + 28);
    const nameAt = at + ENTRY_BYTES;
    entries.push({
      name: bytes.toString('utf8', nameAt, nameAt + nameBytes),
      method: bytes.readUInt16LE(at + 10),
      packed: bytes.readUInt32LE(at + 20),
      size: bytes.readUInt32LE(at + 24),
      offset: bytes.readUInt32LE(at + 42),
    });
    at = nameAt + nameBytes + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  return entries;
}

/** The last record is found from the end: a comment of any length may follow it. */
function endOf(bytes: Buffer): number {
  const first = Math.max(0, bytes.length - END_BYTES - 0xffff);
  for (let at = bytes.length - END_BYTES; at >= first; at--) {
    if (bytes.readUInt32LE(at) === END) return at;
  }
  throw damaged();
}

async function contentOf(bytes: Buffer, { method, packed, size, offset }: Entry): Promise<Buffer> {
  if (offset + HEADER_BYTES > bytes.length || size > MAX_FILE_BYTES) throw damaged();
  const start = offset + HEADER_BYTES + bytes.readUInt16LE(offset + 26) + bytes.readUInt16LE(offset + 28);
  const content = bytes.subarray(start, start + packed);
  if (content.byteLength !== packed || (method !== STORED && method !== DEFLATED)) throw damaged();
  const whole = method === STORED ? content : await inflate(content, { maxOutputLength: Math.max(1, size) });
  if (whole.byteLength !== size) throw damaged();
  return whole;
}

const damaged = (): Error => new Error('the archive is damaged');
