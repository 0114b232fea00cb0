import type { FileHandle } from 'node:fs/promises';
import { pipeline, Readable, type Transform } from 'node:stream';
import { crc32, createDeflateRaw, createInflateRaw } from 'node:zlib';
import { codeOf } from '../../kit/errors.ts';
import type { Scrubber } from '../scrub/index.ts';
import { contentOf, HEAD_BYTES, type Content } from './content.ts';
import type { FileSink } from './file-sink.ts';
import { readRange } from './ranges.ts';
import { Refusal } from './refusal.ts';
import { damaged, DEFLATED, readMembers, STORED, type Member } from './zip-reader.ts';
import { ZipWriter } from './zip-writer.ts';

/** Unpacked bytes of one archive; a bomb of a few kilobytes unpacks to petabytes. */
const MAX_UNPACKED_BYTES = 1_000_000_000;
/** Nearly as small as the usual level in a third of the time. */
const LEVEL = 3;

/**
 * Copies a ZIP archive, Playwright's traces foremost, without the secrets in its members. A member in
 * which nothing is found keeps its packed bytes, so that most of the work is unpacking.
 *
 * @throws Refusal for an archive that cannot be searched, or the reason of `signal`
 */
export async function copyArchive(
  { source, size }: { source: FileHandle; size: number },
  scrubber: Scrubber,
  sink: FileSink,
  signal?: AbortSignal,
): Promise<void> {
  const members = await readMembers(source, size);
  const unpackedBytes = members.reduce((sum, member) => sum + member.size, 0);
  if (unpackedBytes > MAX_UNPACKED_BYTES) {
    throw new Refusal(`it unpacks to ${unpackedBytes} bytes, more than ${MAX_UNPACKED_BYTES}`, size);
  }
  const writer = new ZipWriter(sink);
  for (const member of members) {
    const content = await search(source, member, scrubber, signal);
    const named = { ...member, ...scrubbedName(member, scrubber) };
    if (content === 'clean') {
      await writer.copy(named, readRange(source, member.start, member.packedSize));
      continue;
    }
    const scrubbed = new Scrubbed(source, member, scrubber, content);
    const packed = through(scrubbed.bytes(), createDeflateRaw({ level: LEVEL }));
    await writer.pack({ ...named, method: DEFLATED }, packed, () => scrubbed.sizes);
  }
  await writer.end();
}

/** Reads a member once, to see whether anything has to go. */
async function search(
  source: FileHandle,
  member: Member,
  scrubber: Scrubber,
  signal: AbortSignal | undefined,
): Promise<Content | 'clean'> {
  let content: Content | undefined;
  let pass = scrubber.pass();
  for await (const chunk of unpacked(source, member)) {
    signal?.throwIfAborted();
    if (content === undefined) {
      content = memberContent(chunk, member);
      pass = scrubber.pass({ isJson: content === 'json' });
    }
    if (content === 'binary') return 'clean';
    pass.push(chunk);
  }
  pass.end();
  return content === undefined || pass.hits === 0 ? 'clean' : content;
}

/** An archive in an archive is not searched. */
function memberContent(head: Buffer, member: Member): Content {
  const content = contentOf(head.subarray(0, HEAD_BYTES), member.name.toString());
  return content === 'archive' ? 'binary' : content;
}

function scrubbedName(member: Member, scrubber: Scrubber): Pick<Member, 'name' | 'isUtf8'> {
  const name = member.name.toString(member.isUtf8 ? 'utf8' : 'latin1');
  const scrubbed = scrubber.text(name);
  return scrubbed === name ? member : { name: Buffer.from(scrubbed), isUtf8: true };
}

/** The scrubbed bytes of a member, counted on the way. */
class Scrubbed {
  readonly sizes = { crc: 0, size: 0 };
  readonly #source: FileHandle;
  readonly #member: Member;
  readonly #scrubber: Scrubber;
  readonly #content: Content;

  constructor(source: FileHandle, member: Member, scrubber: Scrubber, content: Content) {
    this.#source = source;
    this.#member = member;
    this.#scrubber = scrubber;
    this.#content = content;
  }

  async *bytes(): AsyncIterable<Buffer> {
    const pass = this.#scrubber.pass({ isJson: this.#content === 'json' });
    for await (const chunk of unpacked(this.#source, this.#member)) yield this.#count(pass.push(chunk));
    yield this.#count(pass.end());
  }

  /** A copy: the pass uses its bytes again while the packer still reads. */
  #count(bytes: Buffer): Buffer {
    this.sizes.crc = crc32(bytes, this.sizes.crc);
    this.sizes.size += bytes.length;
    return Buffer.from(bytes);
  }
}

/** @throws Refusal when it unpacks to more than its directory says: only that was counted */
async function* unpacked(source: FileHandle, member: Member): AsyncIterable<Buffer> {
  const packed = readRange(source, member.start, member.packedSize);
  if (member.method !== STORED && member.method !== DEFLATED) {
    throw new Refusal('it is packed in a way that cannot be searched for secrets');
  }
  let bytes = 0;
  for await (const chunk of member.method === STORED ? packed : inflated(packed)) {
    bytes += chunk.length;
    if (bytes > member.size) throw damaged();
    yield chunk;
  }
}

async function* inflated(packed: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  try {
    yield* through(copies(packed), createInflateRaw());
  } catch (error) {
    throw isZlibError(error) ? damaged() : error;
  }
}

/** Zlib reads a chunk while the next one is read from the file. */
async function* copies(chunks: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  for await (const chunk of chunks) yield Buffer.from(chunk);
}

/** An error of either end comes out of the iteration; to leave it early stops both. */
function through(bytes: AsyncIterable<Buffer>, transform: Transform): AsyncIterable<Buffer> {
  return pipeline(Readable.from(bytes), transform, () => {});
}

const isZlibError = (error: unknown): boolean => codeOf(error)?.startsWith('Z_') === true;
