import { createHash } from 'node:crypto';
import { open, type FileHandle } from 'node:fs/promises';
import { CompleteArtifact, OpenArtifact, PART_SHA256_HEADER, PutPart } from '../../contract/index.ts';
import { messageOf } from '../../kit/errors.ts';
import type { Reply } from '../ports.ts';
import type { SpooledFile } from '../spool/index.ts';
import { readRange } from './ranges.ts';

/** The service as an upload sees it. */
export interface ArtifactTarget {
  /** @throws on a network fault */
  send(
    method: 'GET' | 'POST' | 'PUT',
    path: string,
    body: Buffer | AsyncIterable<Buffer>,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<Reply>;
}

/** The service will not take this file, ever. */
export class NeverTaken extends Error {}
/** The key is not accepted. */
export class KeyRefused extends Error {}
/** Nothing is wrong with the file. */
export class TryLater extends Error {
  readonly afterMs: number | undefined;
  constructor(message: string, afterMs?: number) {
    super(message);
    this.afterMs = afterMs;
  }
}

const PARALLEL = 3;
/** Of opening, sending what is missing and completing. More than one follow a part that was lost or damaged. */
const MAX_ROUNDS = 4;
/** Time in which the network has to take a piece; at 64 kbit/s it takes half of that. */
const STALL_MS = 60_000;
const PIECE_BYTES = 256 * 1024;

type Opened = ReturnType<typeof OpenArtifact.reply.parse>;

/** One try to bring one file to the service, which keeps what arrived of it. */
export class Upload {
  readonly #file: SpooledFile;
  readonly #target: ArtifactTarget;

  constructor(file: SpooledFile, target: ArtifactTarget) {
    this.#file = file;
    this.#target = target;
  }

  /**
   * Resolves when the service has the whole file.
   *
   * @throws NeverTaken, KeyRefused, TryLater, or the reason of `signal`
   */
  async run(signal: AbortSignal): Promise<void> {
    const handle = await open(this.#file.path).catch((error: unknown) => {
      throw new NeverTaken(`its copy cannot be read: ${messageOf(error)}`);
    });
    try {
      for (let round = 0; round < MAX_ROUNDS; round++) {
        const opened = await this.#open(signal);
        if (opened.state === 'stored') return;
        const areSent = await this.#sendParts(handle, opened, signal);
        if (areSent && (await this.#complete(opened.artifactId, signal))) return;
      }
    } finally {
      await handle.close();
    }
    throw new TryLater('the service asked for the same parts again and again');
  }

  async #open(signal: AbortSignal): Promise<Opened> {
    const { resultId, name, size, sha256, contentType } = this.#file;
    const body = Buffer.from(JSON.stringify({ resultId, name, size, sha256, contentType }));
    const json = { 'content-type': 'application/json' };
    const reply = await this.#send(OpenArtifact.method, OpenArtifact.path, body, json, signal);
    if (reply.status === 404) throw new NeverTaken('the service does not know its result');
    if (reply.status === 413) throw new NeverTaken(`${size} bytes are too many for the service`);
    if (reply.status >= 300) throw new NeverTaken(`the service answered ${reply.status}: ${textOf(reply)}`);
    try {
      return OpenArtifact.reply.parse(JSON.parse(reply.body.toString()));
    } catch {
      throw new TryLater('the answer of the service could not be read');
    }
  }

  /** @returns false when the service wants the upload to begin anew */
  async #sendParts(handle: FileHandle, opened: Opened, signal: AbortSignal): Promise<boolean> {
    const have = new Set(opened.have);
    const count = Math.ceil(this.#file.size / opened.partBytes);
    const missing = Array.from({ length: count }, (_, i) => i + 1).filter((n) => !have.has(n));
    const parts = missing.values();
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    let isTaken = true;
    const line = async (): Promise<void> => {
      for (const n of parts) {
        if (!isTaken) return;
        isTaken &&= await this.#sendPart(handle, opened, n, either);
      }
    };
    try {
      await Promise.all(Array.from({ length: PARALLEL }, line));
    } catch (error) {
      stop.abort(error);
      throw error;
    }
    return isTaken;
  }

  async #sendPart(handle: FileHandle, opened: Opened, n: number, signal: AbortSignal): Promise<boolean> {
    const start = (n - 1) * opened.partBytes;
    const length = Math.min(opened.partBytes, this.#file.size - start);
    const hash = createHash('sha256');
    const pieces = (): AsyncIterable<Buffer> => readRange(handle, start, length, PIECE_BYTES);
    for await (const piece of pieces()) hash.update(piece);
    const headers = {
      'content-type': 'application/octet-stream',
      'content-length': String(length),
      [PART_SHA256_HEADER]: hash.digest('hex'),
    };
    const path = pathOf(PutPart.path, opened.artifactId).replace(':n', String(n));
    const reply = await this.#send(PutPart.method, path, pieces(), headers, signal);
    if (reply.status < 300) return true;
    if (reply.status === 413) throw new NeverTaken('the service refuses a part as too large');
    return false;
  }

  /** @returns false when parts are missing or the whole is wrong */
  async #complete(artifactId: string, signal: AbortSignal): Promise<boolean> {
    const path = pathOf(CompleteArtifact.path, artifactId);
    const reply = await this.#send(CompleteArtifact.method, path, Buffer.alloc(0), {}, signal);
    return reply.status < 300;
  }

  /** @throws KeyRefused or TryLater for answers that say nothing about the file */
  async #send(
    method: 'POST' | 'PUT',
    path: string,
    body: Buffer | AsyncIterable<Buffer>,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<Reply> {
    const stall = new Stall();
    try {
      const watched = Buffer.isBuffer(body) ? body : stall.watch(body);
      const either = AbortSignal.any([signal, stall.signal]);
      return judge(await this.#target.send(method, path, watched, headers, either));
    } catch (error) {
      if (signal.aborted || error instanceof TryLater || error instanceof KeyRefused) throw error;
      throw new TryLater(messageOf(error));
    } finally {
      stall.end();
    }
  }
}

function judge(reply: Reply): Reply {
  const { status, retryAfterMs } = reply;
  if (status === 401 || status === 403) throw new KeyRefused(`the service answered ${status}`);
  if (status >= 500 || status === 408 || status === 425 || status === 429) {
    throw new TryLater(`the service answered ${status}`, retryAfterMs);
  }
  return reply;
}

/** Ends an exchange in which nothing moves. */
class Stall {
  readonly #abort = new AbortController();
  readonly #timer = setTimeout(() => this.#abort.abort(new Error('the network takes no bytes')), STALL_MS);

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async *watch(pieces: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
    for await (const piece of pieces) {
      this.#timer.refresh();
      yield piece;
    }
    this.#timer.refresh();
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

const pathOf = (path: string, artifactId: string): string =>
  path.replace(':artifactId', encodeURIComponent(artifactId));

const textOf = (reply: Reply): string => reply.body.toString('utf8', 0, 300);
