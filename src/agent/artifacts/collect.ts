import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Artifact } from '../../contract/index.ts';
import type { CollectedFile } from '../ports.ts';
import type { Scrubber } from '../scrub/index.ts';
import { contentTypeOf } from './content.ts';
import { copyScrubbed } from './copy.ts';
import { FileSink } from './file-sink.ts';
import { openAtRest } from './at-rest.ts';
import { Refusal } from './refusal.ts';

/** Agents refuse larger files; the service takes up to 150 MiB. */
const MAX_FILE_BYTES = 150_000_000;
/** Of one result; more would take the room of all others in the spool. */
const MAX_RESULT_BYTES = 300_000_000;
/** As many as a result may name. */
const MAX_FILES = 2000;
const MAX_NAME_CHARS = 255;

export interface CollectOptions {
  /** The job folder. Everything that could change it is gone. */
  folder: string;
  /** What the run says it left; it may say anything. */
  wanted: readonly { path: string; kind: Artifact['kind']; name: string }[];
  scrubber: Scrubber;
  /** Folder for the copies, made here: the spool's for this result. */
  into: string;
  maxFileBytes?: number;
  maxResultBytes?: number;
  signal?: AbortSignal;
}

export interface Collected {
  files: CollectedFile[];
  /** Part of the manifest; worth a line in the log of the run too. */
  refused: Artifact[];
}

/**
 * Copies what a run left behind, scrubbed and durable. Links, pipes, devices, names that mean another
 * file, and what is too large are refused with a reason for the user.
 *
 * @throws when the copies cannot be written, or the reason of `signal`
 */
export async function collect(options: CollectOptions): Promise<Collected> {
  const { wanted, into, signal } = options;
  const files: CollectedFile[] = [];
  const refused: Artifact[] = [];
  const names = new Set<string>();
  let roomBytes = options.maxResultBytes ?? MAX_RESULT_BYTES;
  if (wanted.length > 0) await mkdir(into, { recursive: true, mode: 0o700 });
  const taken = wanted.length > MAX_FILES ? wanted.slice(0, MAX_FILES - 1) : wanted;
  for (const [i, { path, kind, name: called }] of taken.entries()) {
    signal?.throwIfAborted();
    const { name, problem } = nameOf(called, names, options.scrubber);
    try {
      if (problem !== undefined) throw new Refusal(problem);
      const copy = await copyOne(path, join(into, String(i)), roomBytes, options);
      roomBytes -= copy.size;
      files.push({ name, kind, contentType: contentTypeOf(name), ...copy });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refused.push(refusal(name, kind, error));
    }
  }
  if (taken.length < wanted.length) {
    const rest = new Refusal(`a result has at most ${MAX_FILES} files`);
    refused.push(refusal(`${wanted.length - taken.length} more files`, 'file', rest));
  }
  if (files.length > 0) await syncFolders(into);
  return { files, refused };
}

async function copyOne(
  path: string,
  to: string,
  roomBytes: number,
  {
    folder,
    scrubber,
    signal,
    maxFileBytes = MAX_FILE_BYTES,
    maxResultBytes = MAX_RESULT_BYTES,
  }: CollectOptions,
): Promise<{ path: string; size: number; sha256: string }> {
  const source = await openAtRest(folder, path);
  try {
    const { size } = await source.stat();
    if (size > maxFileBytes) throw tooLarge(size, maxFileBytes);
    if (size > roomBytes) throw noRoom(size, maxResultBytes);
    const sink = await FileSink.create(to, Math.min(maxFileBytes, roomBytes));
    try {
      await copyScrubbed({ source, size, name: path }, scrubber, sink, signal);
      return { path: to, ...(await sink.finish()) };
    } catch (error) {
      await sink.discard();
      throw error;
    }
  } finally {
    await source.close();
  }
}

const tooLarge = (size: number, limit: number): Refusal =>
  new Refusal(`it has ${size} bytes, more than the ${limit} that a file may have`, size);
const noRoom = (size: number, limit: number): Refusal =>
  new Refusal(`it has ${size} bytes, and with it the files of this result exceed ${limit} bytes`, size);

function refusal(name: string, kind: Artifact['kind'], { message, sizeBytes }: Refusal): Artifact {
  const contentType = contentTypeOf(name);
  return {
    name,
    kind,
    contentType,
    size: sizeBytes,
    sha256: null,
    state: 'refused',
    reason: message,
  };
}

/** The name that the result shows, and why it is none: names are part of addresses and of other people's disks. */
function nameOf(called: string, taken: Set<string>, scrubber: Scrubber): { name: string; problem?: string } {
  const clean = scrubber.text(called.slice(0, 4 * MAX_NAME_CHARS)).replace(/\p{C}/gu, '_');
  const name = clean.slice(0, MAX_NAME_CHARS) || '_';
  if (taken.has(name)) return { name: freeName(name, taken), problem: `another file is called ${name} too` };
  taken.add(name);
  const isGood =
    called.length <= MAX_NAME_CHARS && clean.length <= MAX_NAME_CHARS && !/\p{C}|\\/u.test(called);
  const isPath = called.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
  return isGood && isPath ? { name } : { name, problem: 'its name is not allowed' };
}

function freeName(name: string, taken: Set<string>): string {
  for (let i = 2; ; i++) {
    const next = `${name.slice(0, MAX_NAME_CHARS - 6)} ${i}`;
    if (taken.has(next)) continue;
    taken.add(next);
    return next;
  }
}

/** The copies have a place in their folder, and it in its own, after a crash too. */
async function syncFolders(folder: string): Promise<void> {
  for (const each of [folder, dirname(folder)]) {
    const handle = await open(each);
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}
