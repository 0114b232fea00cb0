import { mkdir, open, readdir, rm, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { pipeline, Readable } from 'node:stream';
import { crc32, createDeflateRaw } from 'node:zlib';
import type { Scrubber } from '../scrub/index.ts';
import { copyArchive } from './archive.ts';
import { openAtRest } from './at-rest.ts';
import { copyScrubbed } from './copy.ts';
import { FileSink } from './file-sink.ts';
import { readRange } from './ranges.ts';
import { Refusal } from './refusal.ts';
import { DEFLATED, STORED } from './zip-reader.ts';
import { ZipWriter } from './zip-writer.ts';

/** Of the archive, and of each file in it. */
const MAX_BYTES = 150_000_000;
const MAX_FILES = 5_000;
/** What is packed already. */
const PACKED = new Set(['.zip', '.png', '.jpg', '.jpeg', '.webp', '.webm', '.gz', '.woff2']);
/** The first day that the format knows. */
const NO_TIME = 0x0021_0000;
const LEVEL = 3;

export interface PackOptions {
  /** The job folder. Everything that could change it is gone. */
  folder: string;
  /** Folder in it. */
  below: string;
  scrubber: Scrubber;
  /** The archive, a new file. */
  into: string;
}

/**
 * Packs a folder that a run left, scrubbed file by file, since an archive in an archive is not searched later.
 * Reports of Playwright carry their data as an archive in their page; that is searched, too.
 *
 * @returns false when there is nothing to pack
 * @throws Refusal when it is too much
 */
export async function packFolder({ folder, below, scrubber, into }: PackOptions): Promise<boolean> {
  const paths = await filesBelow(folder, below);
  if (paths.length === 0) return false;
  const parts = `${into}.parts`;
  await mkdir(parts, { mode: 0o700 });
  const sink = await FileSink.create(into, MAX_BYTES);
  try {
    const writer = new ZipWriter(sink);
    for (const path of paths) {
      const part = join(parts, 'part');
      await copyOne(folder, path, part, scrubber);
      await addFile(writer, path.slice(below.length + 1), part);
      await rm(part);
    }
    await writer.end();
    await sink.finish();
    return true;
  } catch (error) {
    await sink.discard();
    throw error;
  } finally {
    await rm(parts, { recursive: true });
  }
}

async function filesBelow(folder: string, below: string): Promise<string[]> {
  const found: string[] = [];
  for (const folders = [below]; folders.length > 0;) {
    const at = folders.pop()!;
    for (const entry of await readdir(join(folder, at), { withFileTypes: true }).catch(() => [])) {
      if (entry.isDirectory()) folders.push(`${at}/${entry.name}`);
      else if (entry.isFile()) found.push(`${at}/${entry.name}`);
    }
    if (found.length > MAX_FILES) throw new Refusal(`it has more than ${MAX_FILES} files`);
  }
  return found.sort();
}

async function copyOne(folder: string, path: string, part: string, scrubber: Scrubber): Promise<void> {
  const source = await openAtRest(folder, path);
  try {
    const { size } = await source.stat();
    if (size > MAX_BYTES) throw new Refusal(`${path} has ${size} bytes`, size);
    const sink = await FileSink.create(part, MAX_BYTES);
    if (path.endsWith('.html') && !scrubber.empty) {
      const bytes = Buffer.alloc(size);
      await source.read(bytes, 0, size, 0);
      await sink.write(await scrubbedPage(bytes, part, scrubber));
    } else await copyScrubbed({ source, size, name: path }, scrubber, sink);
    await sink.finish();
  } finally {
    await source.close();
  }
}

const EMBEDDED = 'data:application/zip;base64,';

async function scrubbedPage(page: Buffer, part: string, scrubber: Scrubber): Promise<Buffer> {
  const text = page.toString('utf8');
  const [before = '', ...rest] = text.split(EMBEDDED);
  const pieces = [scrubber.text(before)];
  for (const each of rest) {
    const length = /^[A-Za-z0-9+/=]*/.exec(each)![0].length;
    const data = await scrubbedArchive(Buffer.from(each.slice(0, length), 'base64'), `${part}.zip`, scrubber);
    pieces.push(EMBEDDED, data.toString('base64'), scrubber.text(each.slice(length)));
  }
  return Buffer.from(pieces.join(''));
}

async function scrubbedArchive(archive: Buffer, path: string, scrubber: Scrubber): Promise<Buffer> {
  if (archive.length === 0) return archive;
  await writeFile(path, archive, { flag: 'wx', mode: 0o600 });
  const source = await open(path);
  try {
    const sink = await FileSink.create(`${path}.new`, MAX_BYTES);
    await copyArchive({ source, size: archive.length }, scrubber, sink);
    const { size } = await sink.finish();
    return await contentOf(`${path}.new`, size);
  } finally {
    await source.close();
    await rm(path);
    await rm(`${path}.new`, { force: true });
  }
}

async function contentOf(path: string, size: number): Promise<Buffer> {
  const file = await open(path);
  try {
    const bytes = Buffer.alloc(size);
    await file.read(bytes, 0, size, 0);
    return bytes;
  } finally {
    await file.close();
  }
}

async function addFile(writer: ZipWriter, name: string, path: string): Promise<void> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const sizes = { crc: 0, size: 0 };
    const counted = async function* (): AsyncIterable<Buffer> {
      for await (const chunk of readRange(file, 0, size)) {
        sizes.crc = crc32(chunk, sizes.crc);
        sizes.size += chunk.length;
        // A packer reads a chunk while the next one is read from the file.
        yield Buffer.from(chunk);
      }
    };
    const isPacked = PACKED.has(extname(name).toLowerCase());
    const bytes: AsyncIterable<Buffer> = isPacked
      ? counted()
      : pipeline(Readable.from(counted()), createDeflateRaw({ level: LEVEL }), () => {});
    const member = {
      name: Buffer.from(name),
      isUtf8: true,
      method: isPacked ? STORED : DEFLATED,
      dosTime: NO_TIME,
    };
    await writer.pack(member, bytes, () => sizes);
  } finally {
    await file.close();
  }
}
