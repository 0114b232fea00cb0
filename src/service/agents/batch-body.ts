import { promisify } from 'node:util';
import { constants, gunzip, zstdDecompress } from 'node:zlib';
import { z } from 'zod';
import { codeOf, messageOf } from '../../kit/errors.ts';
import { MAX_BATCH_BYTES, MAX_BATCH_ITEMS, ResultBatch, RunResult } from '../../contract/index.ts';

/** Why a body is not a batch: the HTTP status and a sentence. */
export class BatchRefusal extends Error {
  readonly statusCode: 400 | 413 | 415;
  constructor(statusCode: 400 | 413 | 415, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

/** A result that was read, or why it never can be. */
export type ReadResult = { result: RunResult } | { resultId: string; reason: string };

const inflateGzip = promisify(gunzip);
const inflateZstd = promisify(zstdDecompress);
const NO_ID = '00000000-0000-0000-0000-000000000000';
/** Nesting of JSON that a result may have. The store's parser has a stack of its own to lose. */
const MAX_DEPTH = 100;

const Envelope = ResultBatch.omit({ results: true }).extend({ results: z.array(z.unknown()).min(1) });

/**
 * Reads a batch. Each result is judged by itself, so that a bad one does not keep the others back.
 *
 * @throws BatchRefusal
 */
export async function readBatch(body: Buffer, encoding: string | undefined): Promise<ReadResult[]> {
  const text = (await inflate(body, encoding)).toString('utf8');
  const envelope = Envelope.safeParse(parseJson(text));
  if (!envelope.success) {
    const issue = envelope.error.issues[0];
    throw new BatchRefusal(400, `${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'not readable'}`);
  }
  const { results } = envelope.data;
  if (results.length > MAX_BATCH_ITEMS) {
    throw new BatchRefusal(413, `results: ${results.length} are too many, ${MAX_BATCH_ITEMS} are allowed`);
  }
  return results.map(readResult);
}

/** Stops inflating at the bound: a small body cannot make a large buffer. */
async function inflate(body: Buffer, encoding: string | undefined): Promise<Buffer> {
  const bound = { maxOutputLength: MAX_BATCH_BYTES };
  try {
    switch (encoding?.trim().toLowerCase() ?? 'identity') {
      case 'identity':
        return body;
      case 'gzip':
        return await inflateGzip(body, bound);
      case 'zstd':
        // A frame may ask for 128 MiB of window; 8 MiB hold all that is allowed.
        return await inflateZstd(body, { ...bound, params: { [constants.ZSTD_d_windowLogMax]: 23 } });
      default:
        throw new BatchRefusal(415, 'content-encoding: zstd, gzip or identity are allowed');
    }
  } catch (error) {
    if (error instanceof BatchRefusal) throw error;
    if (codeOf(error) === 'ERR_BUFFER_TOO_LARGE') {
      throw new BatchRefusal(413, `body: over ${MAX_BATCH_BYTES} bytes when decompressed`);
    }
    throw new BatchRefusal(400, `body: cannot be decompressed: ${messageOf(error)}`);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BatchRefusal(400, 'body: not JSON');
  }
}

function readResult(raw: unknown): ReadResult {
  const parsed = RunResult.safeParse(raw);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const reason = `${issue?.path.join('.') || 'result'}: ${issue?.message ?? 'not readable'}`;
    return { resultId: idOf(raw), reason };
  }
  if (isDeeper(parsed.data.detail, MAX_DEPTH)) {
    return { resultId: parsed.data.resultId, reason: `detail: nested deeper than ${MAX_DEPTH}` };
  }
  return { result: parsed.data };
}

function idOf(raw: unknown): string {
  const id = RunResult.pick({ resultId: true }).safeParse(raw);
  return id.success ? id.data.resultId : NO_ID;
}

/** Without recursion: its input may be nested a million deep. */
function isDeeper(value: unknown, limit: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limit) return true;
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []));
  }
  return false;
}
