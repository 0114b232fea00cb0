import { spawn } from 'node:child_process';
import { createReadStream, existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { posix } from 'node:path';
import { Transform, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { Unpack, type ReadEntry } from 'tar';
import type { Question } from '../protocol.ts';
import { Problem } from './channel.ts';

const TAR = '/usr/bin/tar';
const MAX_ENTRIES = { bundle: 50_000, dependencies: 500_000 } as const;
const MAX_BYTES = { bundle: 1_000_000_000, dependencies: 4_000_000_000 } as const;
/** Names and headers are not counted as content, but a stream of nothing else has to end too. */
const HEADER_SHARE = 1.5;
const FILES: ReadonlySet<string> = new Set(['File', 'OldFile', 'ContiguousFile']);
const LINKS: ReadonlySet<string> = new Set(['SymbolicLink', 'Link']);
const MAX_NAME_CHARS = 200;

/** What the project's own archive had, so that what is added later can be told from it. */
export const given = new Set<string>();

/** Unpacks what is safe, and stops at the first thing that is not. */
export async function unpack({ archive, into, kind }: Extract<Question, { do: 'unpack' }>): Promise<unknown> {
  await mkdir(into, { recursive: true, mode: 0o700 });
  if (kind === 'dependencies' && existsSync(TAR)) return unpackOwn(archive, into);
  const counted = { entries: 0, bytes: 0 };
  const found: { problem?: Problem } = {};
  const stop = new AbortController();
  const check = (path: string, entry: ReadEntry): boolean => {
    counted.entries++;
    counted.bytes += entry.size;
    const why = found.problem ?? problemOf(path, entry, counted, kind);
    if (why !== undefined) {
      found.problem ??= why;
      stop.abort(why);
      return false;
    }
    if (kind === 'bundle') note(path);
    return true;
  };
  const sink = new Unpack({
    cwd: into,
    strict: true,
    noMtime: true,
    // Their owner is whoever unpacks, and everybody's write permissions are of no use.
    preserveOwner: false,
    filter: (path, entry) => check(path, entry as ReadEntry),
  });
  try {
    const signal = stop.signal;
    await pipeline(await opened(archive), bounded(kind), sink as unknown as NodeJS.WritableStream, {
      signal,
    });
  } catch (error) {
    throw found.problem ?? (error instanceof Problem ? error : broken(error));
  }
  if (kind === 'bundle' && counted.entries === 0) {
    throw new Problem('BUNDLE_EMPTY', 'the archive of the project is empty: upload it again');
  }
  return counted;
}

/**
 * What an installation of this very project made, by the program of the machine: ten times as fast. Whatever
 * is in it, it can write no more than the project's own code could.
 */
function unpackOwn(archive: string, into: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const args = ['-x', '-f', archive, '-C', into, '--no-same-owner', '--touch'];
    const child = spawn(TAR, args, { stdio: ['ignore', 'inherit', 'inherit', 'ignore'] });
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      if (code === 0) resolve(null);
      else reject(new Error(`the kept dependencies cannot be unpacked: tar ended with ${code ?? signal}`));
    });
  });
}

function problemOf(
  path: string,
  entry: ReadEntry,
  { entries, bytes }: { entries: number; bytes: number },
  kind: keyof typeof MAX_BYTES,
): Problem | undefined {
  const unsafe = (what: string): Problem =>
    new Problem('BUNDLE_UNSAFE', `the archive of the project is refused: ${shown(path)} ${what}`);
  if (entries > MAX_ENTRIES[kind]) return tooMuch(`has more than ${MAX_ENTRIES[kind]} entries`);
  if (bytes > MAX_BYTES[kind]) return tooMuch(`unpacks to more than ${MAX_BYTES[kind] / 1e6} MB`);
  if (/[\0\\]/.test(path) || !isInside(path)) return unsafe('is no path below its root');
  const type: string = entry.type;
  if (FILES.has(type) || type === 'Directory') return undefined;
  if (!LINKS.has(type)) return unsafe(`is a ${type}; only files, folders and links are allowed`);
  const target = entry.linkpath ?? '';
  const from = type === 'Link' ? '' : posix.dirname(path);
  const isSafe = target !== '' && !/[\0\\]/.test(target) && !target.startsWith('/');
  return isSafe && isInside(posix.join(from, target)) ? undefined : unsafe('is a link that leads out of it');
}

const tooMuch = (what: string): Problem =>
  new Problem('BUNDLE_TOO_LARGE', `the archive of the project ${what}: leave out what the tests do not need`);

function isInside(path: string): boolean {
  if (path.startsWith('/')) return false;
  const plain = posix.normalize(path);
  return plain !== '..' && !plain.startsWith('../');
}

const shown = (path: string): string => JSON.stringify(path.slice(0, MAX_NAME_CHARS));

/** The path and every folder above it. */
function note(path: string): void {
  for (let at = posix.normalize(path).replace(/\/$/, ''); at !== '.'; at = posix.dirname(at)) given.add(at);
}

const GZIP = Buffer.from('1f8b', 'hex');
const ZSTD = Buffer.from('28b52ffd', 'hex');

/** By its first bytes, whatever it is called. */
async function opened(archive: string): Promise<Readable> {
  const head = createReadStream(archive, { end: 3 });
  let first = Buffer.alloc(0);
  for await (const chunk of head as AsyncIterable<Buffer>) first = Buffer.concat([first, chunk]);
  const file = createReadStream(archive, { highWaterMark: 1024 * 1024 });
  const through = (unpacker: Transform): Readable => {
    file.on('error', (error) => unpacker.destroy(error));
    return file.pipe(unpacker);
  };
  if (first.subarray(0, 2).equals(GZIP)) return through(createGunzip());
  return first.equals(ZSTD) ? through(createZstdDecompress()) : file;
}

function bounded(kind: keyof typeof MAX_BYTES): Transform {
  const limit = MAX_BYTES[kind] * HEADER_SHARE;
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > limit) done(tooMuch(`unpacks to more than ${MAX_BYTES[kind] / 1e6} MB`));
      else done(null, chunk);
    },
  });
}

function broken(error: unknown): Problem | Error {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (['ENOSPC', 'EDQUOT', 'EIO', 'ENOENT', 'EACCES'].includes(code)) return error as Error;
  const why = error instanceof Error ? error.message : String(error);
  return new Problem(
    'BUNDLE_DAMAGED',
    `the archive of the project cannot be unpacked (${why.slice(0, 200)}): make a new one, as tar.gz or tar.zst`,
  );
}
