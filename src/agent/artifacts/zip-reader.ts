import type { FileHandle } from 'node:fs/promises';
import { Refusal } from './refusal.ts';

const END = 0x0605_4b50;
const ENTRY = 0x0201_4b50;
const LOCAL = 0x0403_4b50;
const END_BYTES = 22;
const ENTRY_BYTES = 46;
const LOCAL_BYTES = 30;
const MAX_COMMENT_BYTES = 0xffff;
/** A trace of four minutes has some thousand members. */
const MAX_MEMBERS = 20_000;
const MAX_DIRECTORY_BYTES = 16 * 1024 * 1024;
const ENCRYPTED = 0x0001;

export const STORED = 0;
export const DEFLATED = 8;

/** A file in an archive, as its directory describes it. */
export interface Member {
  name: Buffer;
  isUtf8: boolean;
  method: number;
  /** Time and date as the format has them. */
  dosTime: number;
  crc: number;
  packedSize: number;
  size: number;
  /** Where its packed bytes begin. */
  start: number;
}

/**
 * The members of a ZIP archive, by its directory at the end: what stands between them is not seen.
 *
 * @throws Refusal for what is damaged, split, encrypted, or larger than the old format allows
 */
export async function readMembers(file: FileHandle, size: number): Promise<Member[]> {
  const directory = await readDirectory(file, size);
  const members: Member[] = [];
  for (let at = 0; at + ENTRY_BYTES <= directory.length;) {
    if (directory.readUInt32LE(at) !== ENTRY) throw damaged();
    const flags = directory.readUInt16LE(at + 8);
    const nameEnd = at + ENTRY_BYTES + directory.readUInt16LE(at + 28);
    const end = nameEnd + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
    if (end > directory.length) throw damaged();
    if ((flags & ENCRYPTED) !== 0)
      throw new Refusal('it is encrypted and cannot be searched for secrets', size);
    const member = {
      name: directory.subarray(at + ENTRY_BYTES, nameEnd),
      isUtf8: (flags & 0x0800) !== 0,
      method: directory.readUInt16LE(at + 10),
      dosTime: directory.readUInt32LE(at + 12),
      crc: directory.readUInt32LE(at + 16),
      packedSize: directory.readUInt32LE(at + 20),
      size: directory.readUInt32LE(at + 24),
    };
    const start = await startOf(file, size, directory.readUInt32LE(at + 42), member.packedSize);
    members.push({ ...member, start });
    if (members.length > MAX_MEMBERS) throw new Refusal(`it has more than ${MAX_MEMBERS} members`, size);
    at = end;
  }
  return members;
}

async function readDirectory(file: FileHandle, size: number): Promise<Buffer> {
  const tail = await readAt(file, Math.max(0, size - END_BYTES - MAX_COMMENT_BYTES), size);
  for (let at = tail.length - END_BYTES; at >= 0; at--) {
    if (tail.readUInt32LE(at) !== END || at + END_BYTES + tail.readUInt16LE(at + 20) !== tail.length)
      continue;
    const length = tail.readUInt32LE(at + 12);
    const start = tail.readUInt32LE(at + 16);
    if (tail.readUInt32LE(at + 4) !== 0 || start + length > size || length > MAX_DIRECTORY_BYTES)
      throw damaged();
    return await readAt(file, start, start + length);
  }
  throw damaged();
}

async function startOf(file: FileHandle, size: number, local: number, packedSize: number): Promise<number> {
  if (local + LOCAL_BYTES > size) throw damaged();
  const header = await readAt(file, local, local + LOCAL_BYTES);
  if (header.readUInt32LE(0) !== LOCAL) throw damaged();
  const start = local + LOCAL_BYTES + header.readUInt16LE(26) + header.readUInt16LE(28);
  if (start + packedSize > size) throw damaged();
  return start;
}

async function readAt(file: FileHandle, start: number, end: number): Promise<Buffer> {
  const bytes = Buffer.alloc(end - start);
  const { bytesRead } = await file.read(bytes, 0, bytes.length, start);
  if (bytesRead < bytes.length) throw damaged();
  return bytes;
}

export const damaged = (): Refusal =>
  new Refusal('it cannot be read as a ZIP archive, so that it cannot be searched for secrets');
